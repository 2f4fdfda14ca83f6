"""A recorded run judged once: the headline of its report, its cards and the lines at the shell come from here."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gradlab.errors import listed
from gradlab.monitor import aspects
from gradlab.monitor.aspects import BAD, GOOD, OPEN, WATCH, Embeddings, Verdict
from gradlab.monitor.failures import NOT_FINITE
from gradlab.monitor.history import DIAGNOSTICS
from gradlab.monitor.recording import Recording
from gradlab.monitor.thresholds import PERSISTENT

__all__ = ["BAD", "GOOD", "OPEN", "WATCH", "Judgement", "Verdict", "judge_run"]
GRADES = (BAD, WATCH, OPEN, GOOD)


@dataclass(frozen=True)
class Judgement:
    """What a run looks like.

    Attributes:
        grade: the worst of the verdicts'; never better than `OPEN` unless the run is known to have finished.
        headline: the verdict on the run, in a sentence or two.
        verdicts: the worst first.
    """

    grade: str
    headline: str
    verdicts: tuple[Verdict, ...]


def judge_run(run: Recording) -> Judgement:
    """Judge a run by everything that it recorded."""
    found = [Verdict("Run", *aspects.standing(run))]
    found += [aspects.told("Numbers", one) for one in run.failures if one.name == NOT_FINITE]
    for group in run.history.groups():
        found += Embeddings(run, group).verdicts() if group.startswith(DIAGNOSTICS) else []
    if loss := aspects.training_loss(run):
        found.append(Verdict("Loss", *loss))
    if scores := aspects.evaluations(run):
        found.append(scores)
    if aspects.records(run.history) < PERSISTENT:  # then nothing is good
        found = [dataclasses.replace(one, grade=OPEN) if one.grade == GOOD else one for one in found]
    verdicts = sorted(found, key=lambda one: GRADES.index(one.grade))
    return Judgement(*_headline(verdicts), tuple(verdicts))


def _headline(verdicts: Sequence[Verdict]) -> tuple[str, str]:
    grade = verdicts[0].grade
    names = {key: [one.subject for one in verdicts if one.grade == key] for key in GRADES}
    things = {key: f"{len(some)} thing{'s' if len(some) > 1 else ''}" for key, some in names.items()}
    also = f" Keep an eye on: {_lower(names[WATCH])}." if names[WATCH] else ""
    if grade == BAD:
        return grade, f"Act on {things[BAD]}: {_lower(names[BAD])}.{also}"
    if grade == WATCH:
        return grade, f"Keep an eye on {things[WATCH]}: {_lower(names[WATCH])}."
    good = [name for name in names[GOOD] if name != "Run"]
    sound = f" {_lower(good).capitalize()} look{'s' if len(good) == 1 else ''} sound." if good else ""
    if grade == GOOD and sound:
        return grade, f"Nothing wrong was found.{sound}"
    if not sound:
        return OPEN, f"Nothing can be said yet. {next(one.seen for one in verdicts if one.subject == 'Run')}"
    return OPEN, f"Nothing wrong was found so far.{sound}"


def _lower(names: Iterable[str]) -> str:
    return listed([name[:1].lower() + name[1:] for name in names])
