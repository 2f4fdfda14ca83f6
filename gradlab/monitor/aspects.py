"""What each thing about a run looks like: good, to be watched, bad, or not to be judged yet."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from gradlab.monitor.advice import HARDEST, LEARNING, LossInUse, change
from gradlab.monitor.failures import (
    COLLAPSE,
    FALLEN,
    HARM,
    NOT_FINITE,
    NOTHING_TO_LEARN,
    RATIO_TOO_LOW,
    SAME_VIEWS,
    TOO_HIGH,
    Failure,
)
from gradlab.monitor.history import DIAGNOSTICS, TRAIN, History
from gradlab.monitor.numbers import percent, score, short
from gradlab.monitor.recording import CRASHED, ENDED, FINISHED, RUNNING, STOPPED, Recording
from gradlab.monitor.scores import scores_of
from gradlab.monitor.thresholds import (
    ALL_LEARN,
    COINCIDE,
    COLD,
    ENOUGH,
    FEW_LEARN,
    GUESSING,
    MANY_COPIES,
    MOST,
    NARROW,
    NEAR_UNIFORM,
    NEARLY_ALL,
    NO_TREND,
    NOTHING,
    PERSISTENT,
    SILENT,
    SILENT_SECONDS,
    TREND,
    TUNED,
    VANISHED,
    WIDE,
    WORSE,
)

BAD, WATCH, OPEN, GOOD = "bad", "watch", "open", "good"
SYMPTOMS = {
    NOT_FINITE: "loss-nan", NOTHING_TO_LEARN: "loss-zero", TOO_HIGH: "temperature", RATIO_TOO_LOW: "positives-fall",
    COLLAPSE: "cosines-above-0-9", SAME_VIEWS: "loss-zero", HARM: "score-falls", FALLEN: "score-falls",
}  # fmt: skip
UNTOLD = "Check that the two texts of a row belong together; train longer, or at a higher learning rate."
BATCH_STATISTICS = ("negative_cosine", "positive_cosine", "uniformity", "alignment", "effective_rank")


@dataclass(frozen=True)
class Verdict:
    """What one thing about a run looks like.

    Attributes:
        subject: what it is about.
        grade: `GOOD`, `WATCH`, `BAD`, or `OPEN` for what cannot be judged (yet).
        seen: what was seen, in everyday words.
        change: what to change; empty where nothing is wrong.
        terms: the same for researchers, in the terms of the papers.
        symptom: what `gradlab explain` calls it; empty where it has no name.
    """

    subject: str
    grade: str
    seen: str
    change: str = ""
    terms: str = ""
    symptom: str = ""

    @property
    def about(self) -> str:
        """The name of its subject in the explanations of the report, such as ``hard-negatives``."""
        return self.subject.partition(",")[0].lower().replace(" ", "-")


def told(subject: str, failure: Failure, terms: str = "") -> Verdict:
    """The verdict on a known failure."""
    seen = f"{failure.headline} (Seen at step {failure.step}.)"
    return Verdict(subject, BAD, seen, failure.advice, terms, SYMPTOMS[failure.name])


def records(history: History) -> int:
    """How often the embeddings were measured."""
    groups = [group for group in history.groups() if group.startswith(DIAGNOSTICS)]
    counts = [len(history.series(group, name)[0]) for group in groups for name in history.names(group)]
    return max(counts, default=0)


def standing(run: Recording) -> Verdict:
    """How far the run got, and whether there is enough to judge."""
    step, total, why = run.history.last_step(), run.history.total_steps, run.manifest.get("why", "")
    at = f"step {step}" + (f" of {total}" if total else "")
    steps, seconds = _pause(run.history)
    unfinished = total is not None and step + steps < total
    silence, count = time.time() - run.written, records(run.history)
    grade, seen, mend = GOOD, f"The run has finished, at {at}.", ""
    if total is not None and not unfinished:
        seen = f"The run has finished its {total} steps; the last record is of step {step}."
    if run.status == CRASHED:
        grade, seen = BAD, f"The run ended at {at} with an error: {why}."
        mend = "Fix the error, and resume from a checkpoint."
    elif run.status == STOPPED:
        grade, seen = (
            WATCH,
            f"Recording stopped at {at} while training went on: {why}. What came after is not judged.",
        )
        mend = "Fix what the error names, and watch again."
    elif run.status == ENDED and unfinished:
        grade, seen = WATCH, f"The process ended at {at} without an error."
        mend = "Find out why it ended, and resume from a checkpoint."
    elif run.status == RUNNING and unfinished and silence > max(SILENT_SECONDS, SILENT * seconds):
        grade, seen = (
            WATCH,
            f"Nothing has been recorded for {_duration(silence)}, since {at}: the run was probably aborted.",
        )
        mend = "Check whether it still runs. If not, resume from a checkpoint."
    elif 0 < count < PERSISTENT:
        grade, seen = (
            OPEN,
            f"The embeddings were measured {'once' if count == 1 else 'twice'}, which is too little to judge.",
        )
        mend = "Record more often: every=, or --diagnostics-every."
    elif run.status == RUNNING:
        grade, seen = OPEN, f"The run is at {at}."
    elif run.status not in (FINISHED, ENDED):
        grade, seen = OPEN, f"The recording goes to {at}; it does not say whether the run has finished."
    return Verdict("Run", grade, seen, mend)


def _pause(history: History) -> tuple[int, float]:
    """Steps and seconds from one record to the next, as usual."""
    steps, seconds = history.series("watch", "run_seconds")
    if len(steps) < 2:
        return 0, 0.0
    gaps = [after - before for before, after in itertools.pairwise(steps)]
    waits = [after - before for before, after in itertools.pairwise(seconds)]
    return int(statistics.median(gaps)), statistics.median(waits)


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}s"
    return f"{seconds:.0f} seconds"


class Embeddings:
    """What a loss does to the embeddings, aspect by aspect; each is a verdict, or None where nothing can be said.

    Attributes:
        dataset: whose loss it is, where each has its own; else empty.
    """

    def __init__(self, run: Recording, group: str) -> None:
        """Take a run and a group of its diagnostics."""
        self.dataset = group.removeprefix(DIAGNOSTICS).strip()
        self._history, self._group, self._running = run.history, group, run.status == RUNNING
        self._used = run.losses.get(self.dataset, LossInUse())
        self._failures = {one.name: one for one in run.failures if one.dataset == self.dataset}

    def verdicts(self) -> list[Verdict]:
        """All that can be said."""
        found = (self.learning(), self.hard_negatives(), self.pull_and_push(), self.spread(), self.views(),
                 self.progress(), self.duplicates())  # fmt: skip
        return [one for one in found if one]

    def learning(self) -> Verdict | None:
        """Whether sentences still get a gradient."""
        mean, active = self._ends("gradient_dissipation"), self._ends("active")
        if mean is None or active is None:
            return None
        terms = f"Mean gradient dissipation {_went(mean)}; the share of anchors above 0.01 {_went(active)}."
        if NOTHING_TO_LEARN in self._failures:
            return told("Learning", self._failures[NOTHING_TO_LEARN], terms)
        last, alive = self._last("gradient_dissipation"), self._last("active")
        if max(alive) > 0:
            share = statistics.fmean(alive)
            few = percent(share) if share >= 0.001 else "Fewer than 0.1%"
            taught = any(base.needs_teacher for base in self._used.bases)
            others = "agree with the teacher" if taught else "are far enough from their negatives"
            seen = f"{few} of the sentences in a batch are learning; the others {others}."
            if share < FEW_LEARN and not taught:
                seen += " That is usual for a loss that works; harder negatives or larger batches would give it more to learn."
            if share > ALL_LEARN:
                seen = "All sentences of a batch are learning."
            return Verdict("Learning", GOOD, seen, "", terms)
        settings = change(self._used, LEARNING, raises=True)
        mend = "Stop here, or make the task harder: harder negatives, larger batches"
        mend += f"; or {settings}." if settings else "."
        if max(last) < VANISHED:
            seen = (
                f"No sentence learns any more: the gradient has vanished (mean dissipation {last[-1]:.1g})."
            )
            return Verdict("Learning", BAD, seen, mend, terms, "loss-zero")
        return Verdict("Learning", WATCH, "No sentence of the last batches learns any more.", mend, terms)

    def hard_negatives(self) -> Verdict | None:
        """How the push is divided among negatives."""
        share, equal = self._ends("hardest_share"), self._ends("uniform_share")
        if share is None or equal is None:
            return None
        terms = f"The hardest negative's share of the weight {_went(share)}; uniform: {short(equal[1])}."
        if TOO_HIGH in self._failures:
            return told("Hard negatives", self._failures[TOO_HIGH], terms)
        count, cosine, temperature = 1 / equal[1], self._ends("negative_cosine"), self._used.temperature
        flat = share[1] < NEAR_UNIFORM * equal[1]
        seen = f"The hardest of {count:.0f} negatives receives {percent(share[1])} of the weight"
        if temperature is not None and temperature <= COLD and share[1] > NEARLY_ALL and count > 2:
            mend = _sentence(change(self._used, HARDEST, raises=False))
            return Verdict(
                "Hard negatives", WATCH, f"{seen}: only that one counts.", mend, terms, "temperature"
            )
        if count < ENOUGH or (flat and cosine and cosine[1] >= TUNED):
            return None  # too few negatives, or too near to each other, to tell hard ones from easy ones
        if flat:
            mend = _sentence(change(self._used, HARDEST, raises=True))
            return Verdict(
                "Hard negatives",
                WATCH,
                f"{seen}, hardly more than an equal share.",
                mend,
                terms,
                "temperature",
            )
        return Verdict(
            "Hard negatives", GOOD, f"{seen}; an equal share would be {percent(equal[1])}.", "", terms
        )

    def pull_and_push(self) -> Verdict | None:
        """Whether steps bring sentences closer to their positives."""
        share = self._ends("lemma_share")
        terms = self._terms(
            ("The median ratio", "ratio_median"),
            ("The share of triples that satisfy Lemma 1", "lemma_share"),
            ("Pull over push of both views together", "ratio_both_sides"),
            ("Hubness (Gini coefficient of what sentences receive as negatives)", "hubness"),
        )
        if RATIO_TOO_LOW in self._failures:
            return told("Pull and push", self._failures[RATIO_TOO_LOW], terms)
        if share is None:
            return None
        if share[1] >= MOST:
            most = "Steps" if share[1] >= NEARLY_ALL else "Most steps"
            return Verdict(
                "Pull and push", GOOD, f"{most} bring sentences closer to their positives.", "", terms
            )
        dissipation, cosine = self._ends("gradient_dissipation"), self._ends("positive_cosine")
        if (dissipation and dissipation[1] < NOTHING) or (cosine and cosine[1] >= COINCIDE):
            return None  # nothing moves, or positives cannot come closer
        seen = f"Only {percent(share[1])} of the last steps bring a sentence closer to its positive."
        mend = "Use views that are closer to each other, or lower the learning rate."
        return Verdict("Pull and push", WATCH, seen, mend, terms, "positives-fall")

    def spread(self) -> Verdict | None:
        """Whether different sentences are told apart."""
        positive, negative, rank = (
            self._ends(n) for n in ("positive_cosine", "negative_cosine", "effective_rank")
        )
        terms = self._terms(
            ("The effective rank of a batch", "effective_rank"),
            ("Before any head, different sentences' mean cosine", "encoder_cosine"),
        )
        if COLLAPSE in self._failures:
            return told("Spread", self._failures[COLLAPSE], terms)
        if not (positive and negative):
            return (
                Verdict("Spread", OPEN, f"A batch uses {short(rank[1])} dimensions.", "", terms)
                if rank
                else None
            )
        cosines = (
            f"the two views of a sentence have a mean cosine of {score(positive[1])} (at first {score(positive[0])}), and "
            f"different sentences one of {score(negative[1])} (at first {score(negative[0])})."
        )
        gap = positive[1] - negative[1]
        if gap > NARROW:
            how = "clearly told apart" if gap > WIDE else "told apart, though not by much"
            return Verdict("Spread", GOOD, f"Sentences are {how}: {cosines}", "", terms)
        grade, seen = OPEN if self._running else WATCH, f"Sentences are hardly told apart: {cosines}"
        return Verdict("Spread", grade, seen, UNTOLD, terms, "loss-at-chance")

    def views(self) -> Verdict | None:
        """Whether the two views of a sentence differ."""
        return told("Batch", self._failures[SAME_VIEWS]) if SAME_VIEWS in self._failures else None

    def progress(self) -> Verdict | None:
        """Whether anything about the embeddings has changed since the beginning."""
        trends = [_trend(*self._history.series(self._group, name)) for name in BATCH_STATISTICS]
        known = [trend for trend in trends if trend is not None]
        if NOTHING_TO_LEARN in self._failures or len(known) < 2 or any(trend > NO_TREND for trend in known):
            return None
        seen = "The embeddings look as they did at the beginning: no measured quantity has changed."
        mend = (
            "Check that the learning rate is above 0, that the encoder's weights require gradients and are in the "
            "optimiser, and that the embeddings are not detached."
        )
        return Verdict("Progress", WATCH, seen, mend, symptom="weights-do-not-move")

    def duplicates(self) -> Verdict | None:
        """Negatives as near as positives, with a gap below them: the same text twice in a batch."""
        positives, negatives = (
            self._history.histograms(f"{kind}_cosine") for kind in ("positive", "negative")
        )
        equal, late = (
            self._ends("uniform_share"),
            sorted(positives.keys() & negatives.keys())[-PERSISTENT * 3 :],
        )
        if self.dataset or len(late) < PERSISTENT or equal is None:
            return None
        near = between = middle = 0.0
        for step in late:
            edge, centre = _median_bin(positives[step]), _median_bin(negatives[step])
            near += sum(share for low, share in negatives[step].items() if low >= edge)
            between += sum(share for low, share in negatives[step].items() if 2 * edge - 1 <= low < edge)
            middle += edge - centre
        each = 2 * near / len(late) / equal[1]  # half of them lie below the median of the positives
        if middle / len(late) < WIDE or each < MANY_COPIES or near <= 2 * between:
            return None
        seen = (
            f"About {percent(each)} of the sentences meet a copy of themselves among their negatives: some negatives are "
            "as near as positives, and there is a gap below them."
        )
        mend = (
            "Find them with gradlab inspect FILE; in sentence-transformers set "
            "batch_sampler=BatchSamplers.NO_DUPLICATES."
        )
        return Verdict("Duplicates", WATCH, seen, mend, symptom="false-negatives")

    def _ends(self, name: str) -> tuple[float, float] | None:
        """The first finite value of a series, and the middle one of its last three; None if there is none."""
        values = [value for value in self._history.series(self._group, name)[1] if math.isfinite(value)]
        return (values[0], statistics.median_low(values[-PERSISTENT:])) if values else None

    def _last(self, name: str) -> list[float]:
        values = self._history.series(self._group, name)[1]
        return [value for value in values if math.isfinite(value)][-PERSISTENT:]

    def _terms(self, *named: tuple[str, str]) -> str:
        """How series went that researchers ask for, a sentence each."""
        found = [(words, self._ends(name)) for words, name in named]
        return " ".join(f"{words} {_went(ends)}." for words, ends in found if ends)


def _went(ends: tuple[float, float]) -> str:
    first, last = short(ends[0]), short(ends[1])
    return f"stayed at {first}" if first == last else f"went from {first} to {last}"


def _trend(steps: Sequence[int], values: Sequence[float]) -> float | None:
    """How far a series moves, in standard errors of its slope, or of its scatter after a jump from the first record.

    None if there are too few points.
    """
    points = [(step, value) for step, value in zip(steps, values, strict=True) if math.isfinite(value)]
    if len(points) < TREND:
        return None
    x, y = zip(*points, strict=True)
    slope, start = statistics.linear_regression(x, y)
    rest = sum((value - start - slope * step) ** 2 for step, value in points)
    error = math.sqrt(rest / (len(points) - 2) / (statistics.pvariance(x) * len(x)))
    moves = ((slope, error), (0.75 * (y[0] - statistics.fmean(y[1:])), statistics.stdev(y[1:])))
    return max(abs(move) / scale if scale else math.inf if move else 0.0 for move, scale in moves)


def _median_bin(shares: dict[float, float]) -> float:
    """The lower edge of the bin in which the median lies."""
    edges = sorted(shares)
    reached = list(itertools.accumulate(shares[low] for low in edges))
    return next(low for low, total in zip(edges, reached, strict=True) if total >= reached[-1] / 2)


def training_loss(run: Recording) -> Verdict | None:
    """Where the value of the loss begins and ends, and what guessing would give."""
    series = [run.history.series(TRAIN, name)[1] for name in ("batch_loss", "loss")]
    values = [value for value in next(filter(None, series), []) if math.isfinite(value)]
    if not values:
        return None
    used = run.losses.get("", LossInUse())
    if len(values) >= PERSISTENT and not any(values[-PERSISTENT:]):
        settings = change(used, LEARNING, raises=True)
        mend = "In fp16, compute the loss in fp32; otherwise make the task harder"
        mend += f", or {settings}." if settings else "."
        return Verdict("Loss", BAD, "The loss is exactly 0: nothing is learned.", mend, symptom="loss-zero")
    if used.loss is not None and used.loss.surrogate:
        return None  # its value says nothing
    ends, third = (values[0], statistics.median_low(values[-PERSISTENT:])), len(values) // 3
    rises = third >= 3 and min(values[-third:]) > WORSE * max(values[:third]) > 0
    # A queue that fills makes the task harder; a mean over the triplets that are not yet solved keeps the hardest.
    active = any(
        getattr(base, "mean_over", "") == "active" for used in run.losses.values() for base in used.bases
    )
    if rises and not (run.config or {}).get("queue_size") and not active:
        return Verdict("Loss", WATCH, f"The loss rises: it {_went(ends)}.", "Lower the learning rate.")
    negative = run.history.series(DIAGNOSTICS, "negative_cosine")[1][:1]
    guessing = run.loss_at(negative[0], negative[0]) if negative else None
    if guessing and len(values) >= 3 * PERSISTENT and ends[1] >= GUESSING * guessing:
        seen = f"The loss is that of guessing: it is {short(ends[1])}, and {short(guessing)} if nothing is told apart."
        return Verdict("Loss", WATCH, seen, UNTOLD, symptom="loss-at-chance")
    if ends[1] >= ends[0]:
        return None
    compared = f"; guessing would give {short(guessing)}" if guessing and guessing > ends[1] else ""
    return Verdict("Loss", GOOD, f"The loss {_went(ends)}{compared}.")


def evaluations(run: Recording) -> Verdict | None:
    """Each score before training, at best and at last; of losses, the lowest is the best."""
    for failure in run.failures:
        if failure.name in (HARM, FALLEN):
            return told("Scores", failure)
    parts = []
    for one in scores_of(run.history):
        before, best, last = one.before, one.best, one.last
        if best is None or last is None:
            continue
        if one.is_quality and math.isnan(last[1]):
            seen = f"{one.title} cannot be computed at step {last[0]}: the embeddings are constant."
            mend = "Lower the learning rate, and use an earlier encoder."
            return Verdict("Scores", BAD, seen, mend, symptom="cosines-above-0-9")
        if one.is_quality and before is not None and best[1] <= before:
            seen = f"{one.title} has not improved: {score(before)} before training, at best {score(best[1])} (step {best[0]})."
            mend = "Lower the learning rate, or use data nearer to what the score measures."
            return Verdict("Scores", WATCH, seen, mend, symptom="score-does-not-rise")
        late = [value for _, value in one.points[-PERSISTENT:]]
        if one.is_loss and len(one.points) > PERSISTENT and min(late) > WORSE * best[1] > 0:
            seen = (
                f"{one.title} rises since step {best[0]}: it was {score(best[1])} and is {score(last[1])}. The encoder "
                "learns its training data by heart."
            )
            mend = f"Use the encoder from about step {best[0]}; train for fewer steps, or on more data."
            return Verdict("Scores", WATCH, seen, mend)
        start = f"{score(before)} before training, " if before is not None else ""
        end = f", last {score(last[1])}" if last != best else ""
        parts.append(f"{one.title}: {start}best {score(best[1])} at step {best[0]}{end}.")
    return Verdict("Scores", GOOD, " ".join(parts)) if parts else None


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}." if words else ""
