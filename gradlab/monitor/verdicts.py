"""Judges a recorded run for the headline of its report, its cards and the lines at the shell.

Each aspect of a run is good, to be watched, bad, or not to be judged yet.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gradlab.errors import listed
from gradlab.gradient.diagnostics import ACTIVE
from gradlab.monitor import thresholds as limit
from gradlab.monitor.history import BATCH_LOSS, TRAIN, History, Score, of_dataset
from gradlab.monitor.judge import Failure, ends_of
from gradlab.monitor.numbers import counted, score, short
from gradlab.monitor.run_reader import CRASHED, ENDED, FINISHED, RUNNING, STOPPED, Recording
from gradlab.monitor.setting_advice import LEARNING, change
from gradlab.monitor.words import BAD, GOOD, GRADES, OPEN, WATCH, Verdict, say

# Statistics for researchers, by subject: words, and the series whose first and last values follow.
TERMS = {
    "Learning": {
        "Mean gradient dissipation": "gradient_dissipation",
        f"The share of anchors above {ACTIVE:g}": "active",
    },
    "Hard negatives": {
        "The hardest negative's share of the weight": "hardest_share",
        "An equal share": "uniform_share",
    },
    "Pull and push": {
        "The median ratio": "ratio_median",
        "The share of triples that satisfy Lemma 1": "lemma_share",
        "Pull over push of both views together": "ratio_both_sides",
        "Hubness (Gini coefficient of what sentences receive as negatives)": "hubness",
    },
    "Spread": {
        "The effective rank of a batch": "effective_rank",
        "Before any head, different sentences' mean cosine": "encoder_cosine",
    },
}


@dataclass(frozen=True)
class Judgement:
    """Assessment of a whole run."""

    # The worst grade of the verdicts; at best `OPEN` unless the run is known to have finished.
    grade: str
    headline: str  # assessment of the run, in a sentence or two
    verdicts: tuple[Verdict, ...]  # from the worst to the best


def judge_run(run: Recording) -> Judgement:
    """Judge a run by all of its records."""
    records = max((course.records() for course in run.judge.courses.values()), default=0)
    verdicts = []
    for one in filter(None, _verdicts(run, records)):
        early = one.grade == GOOD and records < limit.PERSISTENT  # too little to call it good
        verdicts.append(dataclasses.replace(one, grade=OPEN) if early else one)
    verdicts.sort(key=lambda one: GRADES.index(one.grade))
    return Judgement(*_headline(verdicts), tuple(verdicts))


def _verdicts(run: Recording, records: int) -> Iterator[Verdict | None]:
    yield _verdict("Run", _standing(run, records))
    for failure in run.failures:
        if failure.aspect == "Numbers":
            yield _verdict("Numbers", failure)
    for dataset, course in run.judge.courses.items():
        failed = {one.aspect: one for one in reversed(run.failures) if one.dataset == dataset}
        for aspect, seen in course.looks(failed, running=run.status == RUNNING):
            ends = {words: course.ends(name) for words, name in TERMS.get(aspect, {}).items()}
            terms = " ".join(f"{words} {_went(some)}." for words, some in ends.items() if some)
            yield _verdict(f"{aspect}, {dataset}" if dataset else aspect, seen, terms)
    for dataset in run.losses:
        yield _verdict(f"Loss, {dataset}" if dataset else "Loss", _training_loss(run, dataset))
    yield _verdict("Scores", _evaluations(run))


def _verdict(subject: str, found: Failure | Verdict | None, terms: str = "") -> Verdict | None:
    """Return the verdict on a subject: failure or assessment; None if there is nothing to say."""
    if isinstance(found, Failure):
        seen = f"{found.headline} (Seen at step {found.step}.)"
        return Verdict(subject, BAD, seen, found.advice, found.symptom, terms)
    return dataclasses.replace(found, subject=subject, terms=terms) if found else None


def _headline(verdicts: Sequence[Verdict]) -> tuple[str, str]:
    grade = verdicts[0].grade
    bad, watch, good = (
        [one.subject[:1].lower() + one.subject[1:] for one in verdicts if one.grade == level]
        for level in (BAD, WATCH, GOOD)
    )
    if grade == BAD:
        also = f" Keep an eye on: {listed(watch)}." if watch else ""
        return grade, f"Act on {counted(len(bad), 'thing')}: {listed(bad)}.{also}"
    if grade == WATCH:
        return grade, f"Keep an eye on {counted(len(watch), 'thing')}: {listed(watch)}."
    good = [name for name in good if name != "run"]
    if not good:
        standing = next(one.seen for one in verdicts if one.subject == "Run")
        return OPEN, f"Nothing can be said yet. {standing}"
    sound = f"{listed(good).capitalize()} look{'s' if len(good) == 1 else ''} sound."
    return grade, f"Nothing wrong was found{'' if grade == GOOD else ' so far'}. {sound}"


def _standing(run: Recording, records: int) -> Verdict:
    """Return how far the run got, and whether there are enough records to judge it."""
    status, step, total = run.status, run.history.last_step(), run.history.total_steps
    steps, seconds = _pause(run.history)
    unfinished = total is not None and step + steps < total
    silence = time.time() - run.written
    silent = silence > max(limit.SILENT_SECONDS, limit.SILENT * seconds)
    holds = {
        "crashed": status == CRASHED,
        "recording stopped": status == STOPPED,
        "ended early": status == ENDED and unfinished,
        "silent": status == RUNNING and unfinished and silent,
        "few records": 0 < records < limit.PERSISTENT,
        "running": status == RUNNING,
        "status unknown": status not in (FINISHED, ENDED),
        "finished": total is None or unfinished,
        "finished all steps": True,
    }
    return say(
        next(name for name, applies in holds.items() if applies),
        at=f"step {step}" + (f" of {total}" if total else ""),
        step=step,
        total=total,
        why=run.manifest.get("why", ""),
        times="once" if records == 1 else "twice",
        silence=_duration(silence),
    )


def _pause(history: History) -> tuple[int, float]:
    """Return the largest step and median time (seconds) between records; (0, 0.0) without two."""
    steps, seconds = history.series("watch", "run_seconds")
    if len(steps) < 2:
        return 0, 0.0
    # If datasets take turns, records of different datasets lie close together.
    return int(np.diff(steps).max()), float(np.median(np.diff(seconds)))


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}s"
    return f"{seconds:.0f} seconds"


def _went(ends: tuple[float, float]) -> str:
    first, last = short(ends[0]), short(ends[1])
    return f"stayed at {first}" if first == last else f"went from {first} to {last}"


def _training_loss(run: Recording, dataset: str) -> Verdict | None:
    """Assess the loss, or that of one dataset, by its course and by the loss of guessing."""
    names = [of_dataset(BATCH_LOSS, dataset)] if dataset else [BATCH_LOSS, "loss"]
    series = (run.history.series(TRAIN, name)[1] for name in names)
    values = [value for value in next(filter(None, series), []) if math.isfinite(value)]
    ends, used = ends_of(values), run.losses[dataset]
    if ends is None:
        return None
    if len(values) >= limit.PERSISTENT and not any(values[-limit.PERSISTENT :]):
        settings = change(used, LEARNING, raises=True)
        return say("loss is 0", alternative=f", or {settings}" if settings else "")
    if used.loss is not None and used.loss.surrogate:
        return None  # the value of a surrogate says nothing
    third = len(values) // 3
    rises = third >= 3 and min(values[-third:]) > limit.WORSE * max(values[:third]) > 0
    # The loss may rise while a queue fills, or if it averages unsolved triplets, which get harder.
    active = any(getattr(base, "mean_over", "") == "active" for base in used.bases)
    if rises and not (run.config or {}).get("queue_size") and not active:
        return say("loss rises", went=_went(ends))
    guessing = run.guessing(dataset)
    if guessing and len(values) >= 3 * limit.PERSISTENT and ends[1] >= limit.GUESSING * guessing:
        return say("loss of guessing", last=short(ends[1]), guessing=short(guessing))
    if ends[1] >= ends[0]:
        return None
    compared = f"; guessing would give {short(guessing)}" if guessing and guessing > ends[1] else ""
    return say("loss falls", went=_went(ends), compared=compared)


def _evaluations(run: Recording) -> Failure | Verdict | None:
    """Return what is wrong with a score, or each score before training, at best and at the end."""
    for failure in run.failures:
        if failure.aspect == "Scores":
            return failure
    found = [words for one in run.history.scores() if (words := _score(one)) is not None]
    wrong = next((words for words in found if words.grade != GOOD), None)
    if wrong is not None or not found:
        return wrong
    return dataclasses.replace(found[0], seen=" ".join(words.seen for words in found))


def _score(one: Score) -> Verdict | None:
    before, best, last = one.before, one.best, one.last
    if best is None or last is None:
        return None
    seen = {"title": one.title, "step": best[0], "best": score(best[1]), "last": score(last[1])}
    if one.is_quality and math.isnan(last[1]):
        return say("score is undefined", title=one.title, step=last[0])
    if one.is_quality and before is not None and best[1] <= before:
        return say("score does not improve", **seen, before=score(before))
    late = [value for _, value in one.points[-limit.PERSISTENT :]]
    if one.is_loss and len(one.points) > limit.PERSISTENT and min(late) > limit.WORSE * best[1] > 0:
        return say("held-out loss rises", **seen)
    start = f"{score(before)} before training, " if before is not None else ""
    end = f", last {score(last[1])}" if last != best else ""
    return say("score", **seen, start=start, end=end)
