"""The test of `gradlab explain`: phrases that people use, and the symptom that should answer."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from tests.judgement.case import ROOT

PHRASES = ROOT / "phrases.toml"
FIRST_SCORE, SCORE = ROOT / "first_retrieval.json", ROOT / "retrieval.json"
RIGHT, WRONG, NO_ANSWER = "right", "wrong", "no answer"


def phrases(path: Path = PHRASES) -> dict[str, dict[str, list[str]]]:
    """Return the right symptoms of each phrase, by group."""
    with path.open("rb") as file:
        return tomllib.load(file)


def outcomes() -> dict[str, Any]:
    """Return the answer to each phrase, and whether it is right, wrong or none.

    The entries hold phrases of all groups but the last; each group is asked without its own. No
    answer is right where no symptom fits.
    """
    from gradlab.diagnosis.symptoms import nearest

    answers = {}
    for group, questions in phrases().items():
        for phrase, right in questions.items():
            name, _ = nearest(phrase, frozenset(questions))
            good = name in right if right else not name
            verdict = RIGHT if good else WRONG if name else NO_ANSWER
            answers[phrase] = {"group": group, "answer": name, "outcome": verdict}
    return answers
