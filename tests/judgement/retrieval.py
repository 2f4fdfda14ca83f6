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


def answer(phrase: str) -> str:
    """Return the name of the symptom that answers first; empty without an answer."""
    from gradlab.diagnosis.symptoms import find_symptom
    from gradlab.errors import GradlabError

    try:
        return str(find_symptom(phrase).name)
    except GradlabError:
        return ""


def outcomes() -> dict[str, Any]:
    """Return the answer to each phrase, and whether it is right, wrong or none.

    No answer is right where no symptom fits.
    """
    answers = {}
    for group, questions in phrases().items():
        for phrase, right in questions.items():
            name = answer(phrase)
            good = name in right if right else not name
            verdict = RIGHT if good else WRONG if name else NO_ANSWER
            answers[phrase] = {"group": group, "answer": name, "outcome": verdict}
    return answers
