"""What gradlab says of a run, in the words of ``words.toml``."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from gradlab.files import read_packaged

# From the worst to the best; "open" means that there is not enough to judge (yet).
BAD, WATCH, OPEN, GOOD = GRADES = "bad", "watch", "open", "good"


@dataclass(frozen=True)
class Verdict:
    """Assessment of one aspect of a run."""

    subject: str
    grade: str  # `GOOD`, `WATCH`, `BAD`, or `OPEN` if it cannot be judged (yet)
    seen: str  # the observation, in everyday words
    change: str = ""  # advice; empty if nothing is wrong
    symptom: str = ""  # symptom for `gradlab explain`; empty if there is none
    terms: str = ""  # the observation in the terms of the papers

    @property
    def about(self) -> str:
        """Key of the subject in the explanations of the report, such as ``hard-negatives``."""
        return self.subject.partition(",")[0].lower().replace(" ", "-")


def say(name: str, **values: Any) -> Verdict:
    """Return an entry of ``words.toml`` with values in its texts, and its name as the subject."""
    entry = {"grade": BAD} | entries()[name]
    texts = {part: text.format(**values) for part, text in entry.items() if part != "aspect"}
    return Verdict(name, **texts)


@functools.cache
def entries() -> dict[str, dict[str, str]]:
    """Return all entries by name."""
    return read_packaged("gradlab.monitor", "words.toml")
