"""A labelled case: a set-up or run of training, what is wrong with it, and who should say so.

A `Row` is measurements on one side of a limit, made in code, and what a tool must say of them.

A case is a function of a `Stage`, on which it makes trainers, trains them and asks the tools. A
half of the set is a package below `tests.judgement` with modules of cases, and a folder `frozen`
with the measurements of each.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DOCTOR, REPORT, INSPECT, AUDIT, VERIFY = TOOLS = "doctor", "report", "inspect", "audit", "verify"
HALVES = ("first", "held_out")
ROOT = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """One labelled case.

    Attributes:
        name: name of the case, also of its file of measurements.
        kind: the kind of fault or, for a sound case, what it varies.
        half: package that it belongs to.
        play: function that sets the case up on a `tests.judgement.stage.Stage`.
        cause: what is wrong, in a sentence; empty for a sound case.
        tools: tools of which one should find the fault.
        words: regular expressions; a verdict that one of them matches names the cause.
        causes: further groups of regular expressions, for a set-up with several faults at once; the
            cause is named if each group has a match.
        never: regular expressions that no verdict and no headline may match.
        allowed: for a sound case, regular expressions of verdicts that may be bad or to be watched,
            with the reason.
    """

    name: str
    kind: str
    half: str
    play: Callable[[Any], None]
    cause: str = ""
    tools: Sequence[str] = (DOCTOR, REPORT)
    words: Sequence[str] = ()
    causes: Sequence[Sequence[str]] = ()
    never: Sequence[str] = ()
    allowed: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_sound(self) -> bool:
        return not self.cause

    @property
    def path(self) -> Path:
        """File with the measurements."""
        return ROOT / self.half / "frozen" / f"{self.name}.json"


@dataclass(frozen=True)
class Row:
    """Measurements on one side of a limit, and what a tool must say of them."""

    title: str
    tool: str
    measured: Mapping[str, Any]
    subject: str  # of the verdict; empty for every verdict
    grade: str  # empty if there must be no verdict
    words: str = ""  # regular expression of what the verdict must say

    def said(self) -> list[Any]:
        """Return the verdicts on the subject."""
        from tests.judgement.freeze import judged

        said = judged({self.tool: self.measured})
        return [verdict for verdict in said if self.subject in ("", verdict.subject)]

    def holds(self) -> bool:
        """Whether the tool says what it must."""
        said = self.said()
        return [verdict.grade for verdict in said] == [self.grade] * bool(self.grade) and all(
            re.search(self.words, verdict.text) for verdict in said
        )


_CASES: dict[tuple[str, str], Case] = {}


def faulty(kind: str, cause: str, words: Sequence[str], **labels: Any) -> Callable[..., Any]:
    """Register a function as a faulty case; for the labels see `Case`."""
    return _register(kind=kind, cause=cause, words=words, **labels)


def sound(kind: str, **labels: Any) -> Callable[..., Any]:
    """Register a function as a sound case; for the labels see `Case`."""
    return _register(kind=kind, **labels)


def cases(half: str = "") -> list[Case]:
    """Return all cases, or those of one half, in the order in which they are written."""
    for name in HALVES:
        package = importlib.import_module(f"tests.judgement.{name}")
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
    return [case for case in _CASES.values() if half in ("", case.half)]


def _register(**labels: Any) -> Callable[..., Any]:
    def register(play: Callable[[Any], None]) -> Callable[[Any], None]:
        name = play.__name__.strip("_").replace("_", "-")
        half = play.__module__.split(".")[2]
        assert (half, name) not in _CASES, f"two cases are called {name}"
        _CASES[half, name] = Case(name=name, half=half, play=play, **labels)
        return play

    return register
