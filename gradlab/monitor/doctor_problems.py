"""What the doctor found wrong with a trainer before it trained, for the report of its run."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gradlab.verdict import BAD, Verdict, graded

_PROBLEMS: weakref.WeakKeyDictionary[Any, tuple[Verdict, ...]] = weakref.WeakKeyDictionary()


def note_problems(trainer: Any, verdicts: Iterable[Verdict]) -> None:
    """Note the bad verdicts on a trainer; those of an earlier diagnosis are replaced."""
    _PROBLEMS[trainer] = tuple(graded(verdicts, BAD))


def noted_problems(trainer: Any) -> list[dict[str, str]]:
    """Return what was noted on a trainer, as plain values for a manifest."""
    return [
        {"subject": verdict.title, "finding": verdict.finding, "change": verdict.change}
        for verdict in _PROBLEMS.get(trainer, ())
    ]


def setup(problems: Sequence[Mapping[str, Any]]) -> Verdict | None:
    """Return a verdict on a set-up in which the doctor found problems before training."""
    if not problems:
        return None
    first, count = problems[0], len(problems)
    noun = "a problem" if count == 1 else f"{count} problems"
    subjects = ", ".join(str(problem.get("subject", "")) for problem in problems)
    finding = f"Before training, gradlab doctor found {noun} ({subjects})"
    finding += f": {first['finding']}" if first.get("finding") else "."
    change = str(first.get("change", ""))
    subject = f"Set-up ({first['subject']})" if first.get("subject") else "Set-up"
    return Verdict(subject, BAD, finding, change, "doctor found problems")
