"""What gradlab says of a run, in the words of ``words.toml``."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import Any, NamedTuple

# From the worst to the best; "open" means that there is not enough to judge (yet).
BAD, WATCH, OPEN, GOOD = GRADES = "bad", "watch", "open", "good"


class Words(NamedTuple):
    """An observation; the grade is empty for a failure, the advice and the symptom where there is none."""

    grade: str
    seen: str
    change: str
    symptom: str  # for `gradlab explain`


def say(name: str, **values: Any) -> Words:
    """Return an entry of ``words.toml`` with values in its texts."""
    return Words(*(_entries()[name].get(part, "").format(**values) for part in Words._fields))


def symptom_of(name: str) -> str:
    """Return the symptom of an entry, such as a failure."""
    return _entries()[name]["symptom"]


@functools.cache
def _entries() -> dict[str, dict[str, str]]:
    return tomllib.loads((resources.files("gradlab.monitor") / "words.toml").read_text(encoding="utf-8"))
