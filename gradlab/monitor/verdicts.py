"""A recorded run judged once: the headline of its report, its cards and the lines at the shell come from here.

Each thing about it is good, to be watched, bad, or not to be judged yet.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gradlab.errors import listed
from gradlab.monitor import failures
from gradlab.monitor import thresholds as limit
from gradlab.monitor.advice import HARDEST, LEARNING, LossInUse, change
from gradlab.monitor.failures import Failure, sentence
from gradlab.monitor.history import DIAGNOSTICS, TRAIN, History
from gradlab.monitor.numbers import percent, score, short
from gradlab.monitor.recording import CRASHED, ENDED, FINISHED, RUNNING, STOPPED, Recording
from gradlab.monitor.scores import Score, scores_of

# From the worst to the best.
BAD, WATCH, OPEN, GOOD = GRADES = "bad", "watch", "open", "good"
UNTOLD = "Check that the two texts of a row belong together; train longer, or at a higher learning rate."
BATCH_STATISTICS = ("negative_cosine", "positive_cosine", "uniformity", "alignment", "effective_rank")
# What researchers ask for beside a verdict, by its subject: words, and the series whose course follows them.
TERMS = {
    "Learning": {
        "Mean gradient dissipation": "gradient_dissipation",
        "The share of anchors above 0.01": "active",
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
# Grade, what was seen, what to change, and the symptom; the last two where there are any. None: nothing can be said.
Seen = tuple[str, ...] | None


@dataclass(frozen=True)
class Verdict:
    """What one thing about a run looks like.

    Attributes:
        subject: what it is about.
        grade: `GOOD`, `WATCH`, `BAD`, or `OPEN` for what cannot be judged (yet).
        seen: what was seen, in everyday words.
        change: what to change; empty where nothing is wrong.
        symptom: what `gradlab explain` calls it; empty where it has no name.
        terms: the same for researchers, in the terms of the papers.
    """

    subject: str
    grade: str
    seen: str
    change: str = ""
    symptom: str = ""
    terms: str = ""

    @property
    def about(self) -> str:
        """The name of its subject in the explanations of the report, such as ``hard-negatives``."""
        return self.subject.partition(",")[0].lower().replace(" ", "-")


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
    found = [Verdict("Run", *standing(run))]
    found += [told("Numbers", one) for one in run.failures if one.name == failures.NOT_FINITE]
    for group in run.history.groups():
        found += Embeddings(run, group).verdicts() if group.startswith(DIAGNOSTICS) else []
    if loss := training_loss(run):
        found.append(Verdict("Loss", *loss))
    if scores := evaluations(run):
        found.append(scores)
    if records(run.history) < limit.PERSISTENT:  # then nothing is good
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


def told(subject: str, failure: Failure, terms: str = "") -> Verdict:
    """The verdict on a known failure."""
    seen = f"{failure.headline} (Seen at step {failure.step}.)"
    return Verdict(subject, BAD, seen, failure.advice, failures.SYMPTOMS[failure.name], terms)


def records(history: History) -> int:
    """How often the embeddings were measured."""
    groups = [group for group in history.groups() if group.startswith(DIAGNOSTICS)]
    counts = [len(history.series(group, name)[0]) for group in groups for name in history.names(group)]
    return max(counts, default=0)


def standing(run: Recording) -> tuple[str, ...]:
    """How far the run got, and whether there is enough to judge."""
    step, total, why = run.history.last_step(), run.history.total_steps, run.manifest.get("why", "")
    at = f"step {step}" + (f" of {total}" if total else "")
    steps, seconds = _pause(run.history)
    unfinished = total is not None and step + steps < total
    silence, count = time.time() - run.written, records(run.history)
    if run.status == CRASHED:
        mend = "Fix the error, and resume from a checkpoint."
        return BAD, f"The run ended at {at} with an error: {why}.", mend
    if run.status == STOPPED:
        seen = f"Recording stopped at {at} while training went on: {why}. What came after is not judged."
        return WATCH, seen, "Fix what the error names, and watch again."
    if run.status == ENDED and unfinished:
        mend = "Find out why it ended, and resume from a checkpoint."
        return WATCH, f"The process ended at {at} without an error.", mend
    if run.status == RUNNING and unfinished and silence > max(limit.SILENT_SECONDS, limit.SILENT * seconds):
        seen = (
            f"Nothing has been recorded for {_duration(silence)}, since {at}: the run was probably aborted."
        )
        return WATCH, seen, "Check whether it still runs. If not, resume from a checkpoint."
    if 0 < count < limit.PERSISTENT:
        times = "once" if count == 1 else "twice"
        seen = f"The embeddings were measured {times}, which is too little to judge."
        return OPEN, seen, "Record more often: every=, or --diagnostics-every."
    if run.status == RUNNING:
        return OPEN, f"The run is at {at}."
    if run.status not in (FINISHED, ENDED):
        return OPEN, f"The recording goes to {at}; it does not say whether the run has finished."
    if total is None or unfinished:
        return GOOD, f"The run has finished, at {at}."
    return GOOD, f"The run has finished its {total} steps; the last record is of step {step}."


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
    """What a loss does to the embeddings, aspect by aspect, by one group of a run's diagnostics."""

    def __init__(self, run: Recording, group: str) -> None:
        self.dataset = group.removeprefix(DIAGNOSTICS).strip()
        self._history, self._group, self._running = run.history, group, run.status == RUNNING
        self._used = run.losses.get(self.dataset, LossInUse())
        self._failures = {one.name: one for one in run.failures if one.dataset == self.dataset}

    def verdicts(self) -> list[Verdict]:
        """All that can be said: of each aspect the failure that it has shown or, without one, what it looks like."""
        aspects: tuple[tuple[str, str, Callable[[], Seen]], ...] = (
            ("Learning", failures.NOTHING_TO_LEARN, self._learning),
            ("Hard negatives", failures.TOO_HIGH, self._hard_negatives),
            ("Pull and push", failures.RATIO_TOO_LOW, self._pull_and_push),
            ("Spread", failures.COLLAPSE, self._spread),
            ("Batch", failures.SAME_VIEWS, lambda: None),
            ("Progress", "", self._progress),
            ("Duplicates", "", self._duplicates),
        )
        found = []
        for aspect, failure, look in aspects:
            subject = f"{aspect}, {self.dataset}" if self.dataset else aspect
            courses = {words: self._ends(name) for words, name in TERMS.get(aspect, {}).items()}
            terms = " ".join(f"{words} {_went(ends)}." for words, ends in courses.items() if ends)
            if failure in self._failures:
                found.append(told(subject, self._failures[failure], terms))
            elif (seen := look()) is not None:
                found.append(dataclasses.replace(Verdict(subject, *seen), terms=terms))
        return found

    def _learning(self) -> Seen:
        """Whether sentences still get a gradient."""
        last, alive = self._last("gradient_dissipation"), self._last("active")
        if not last or not alive:
            return None
        if max(alive) > 0:
            share = statistics.fmean(alive)
            if share > limit.ALL_LEARN:
                return GOOD, "All sentences of a batch are learning."
            few = percent(share) if share >= 0.001 else "Fewer than 0.1%"
            taught = any(base.needs_teacher for base in self._used.bases)
            others = "agree with the teacher" if taught else "are far enough from their negatives"
            seen = f"{few} of the sentences in a batch are learning; the others {others}."
            if share < limit.FEW_LEARN and not taught:
                seen += " That is usual for a loss that works; harder negatives or larger batches would give it more to learn."
            return GOOD, seen
        settings = change(self._used, LEARNING, raises=True)
        mend = "Stop here, or make the task harder: harder negatives, larger batches"
        mend += f"; or {settings}." if settings else "."
        if max(last) < limit.VANISHED:
            seen = (
                f"No sentence learns any more: the gradient has vanished (mean dissipation {last[-1]:.1g})."
            )
            return BAD, seen, mend, "loss-zero"
        return WATCH, "No sentence of the last batches learns any more.", mend

    def _hard_negatives(self) -> Seen:
        """How the push is divided among negatives."""
        share, equal = self._end("hardest_share"), self._end("uniform_share")
        if math.isnan(share) or math.isnan(equal):
            return None
        count, cosine, temperature = 1 / equal, self._end("negative_cosine"), self._used.temperature
        flat = share < limit.NEAR_UNIFORM * equal
        seen = f"The hardest of {count:.0f} negatives receives {percent(share)} of the weight"
        if temperature is not None and temperature <= limit.COLD and share > limit.NEARLY_ALL and count > 2:
            mend = sentence(change(self._used, HARDEST, raises=False))
            return WATCH, f"{seen}: only that one counts.", mend, "temperature"
        if count < limit.ENOUGH or (flat and cosine >= limit.TUNED):
            return None  # too few negatives, or too near to each other, to tell hard ones from easy ones
        if flat:
            mend = sentence(change(self._used, HARDEST, raises=True))
            return WATCH, f"{seen}, hardly more than an equal share.", mend, "temperature"
        return GOOD, f"{seen}; an equal share would be {percent(equal)}."

    def _pull_and_push(self) -> Seen:
        """Whether steps bring sentences closer to their positives."""
        share = self._end("lemma_share")
        if math.isnan(share):
            return None
        if share >= limit.MOST:
            most = "Steps" if share >= limit.NEARLY_ALL else "Most steps"
            return GOOD, f"{most} bring sentences closer to their positives."
        if (
            self._end("gradient_dissipation") < limit.NOTHING
            or self._end("positive_cosine") >= limit.COINCIDE
        ):
            return None  # nothing moves, or positives cannot come closer
        seen = f"Only {percent(share)} of the last steps bring a sentence closer to its positive."
        mend = "Use views that are closer to each other, or lower the learning rate."
        return WATCH, seen, mend, "positives-fall"

    def _spread(self) -> Seen:
        """Whether different sentences are told apart."""
        positive, negative = self._ends("positive_cosine"), self._ends("negative_cosine")
        if not (positive and negative):
            rank = self._ends("effective_rank")
            return (OPEN, f"A batch uses {short(rank[1])} dimensions.") if rank else None
        cosines = (
            f"the two views of a sentence have a mean cosine of {score(positive[1])} (at first {score(positive[0])}), and "
            f"different sentences one of {score(negative[1])} (at first {score(negative[0])})."
        )
        gap = positive[1] - negative[1]
        if gap > limit.NARROW:
            how = "clearly told apart" if gap > limit.WIDE else "told apart, though not by much"
            return GOOD, f"Sentences are {how}: {cosines}"
        grade = OPEN if self._running else WATCH
        return grade, f"Sentences are hardly told apart: {cosines}", UNTOLD, "loss-at-chance"

    def _progress(self) -> Seen:
        """Whether anything about the embeddings has changed since the beginning."""
        trends = [_trend(*self._history.series(self._group, name)) for name in BATCH_STATISTICS]
        known = [trend for trend in trends if trend is not None]
        if failures.NOTHING_TO_LEARN in self._failures or len(known) < 2 or max(known) > limit.NO_TREND:
            return None
        seen = "The embeddings look as they did at the beginning: no measured quantity has changed."
        mend = (
            "Check that the learning rate is above 0, that the encoder's weights require gradients and are in the "
            "optimiser, and that the embeddings are not detached."
        )
        return WATCH, seen, mend, "weights-do-not-move"

    def _duplicates(self) -> Seen:
        """Negatives as near as positives, with a gap below them: the same text twice in a batch."""
        positives, negatives = (
            self._history.histograms(f"{kind}_cosine") for kind in ("positive", "negative")
        )
        equal = self._end("uniform_share")
        late = sorted(positives.keys() & negatives.keys())[-limit.PERSISTENT * 3 :]
        if self.dataset or len(late) < limit.PERSISTENT or math.isnan(equal):
            return None
        near = between = middle = 0.0
        for step in late:
            edge, centre = _median_bin(positives[step]), _median_bin(negatives[step])
            near += sum(share for low, share in negatives[step].items() if low >= edge)
            between += sum(share for low, share in negatives[step].items() if 2 * edge - 1 <= low < edge)
            middle += edge - centre
        each = 2 * near / len(late) / equal  # half of them lie below the median of the positives
        if middle / len(late) < limit.WIDE or each < limit.MANY_COPIES or near <= 2 * between:
            return None
        seen = (
            f"About {percent(each)} of the sentences meet a copy of themselves among their negatives: some negatives are "
            "as near as positives, and there is a gap below them."
        )
        mend = (
            "Find them with gradlab inspect FILE; in sentence-transformers set "
            "batch_sampler=BatchSamplers.NO_DUPLICATES."
        )
        return WATCH, seen, mend, "false-negatives"

    def _finite(self, name: str) -> list[float]:
        return [value for value in self._history.series(self._group, name)[1] if math.isfinite(value)]

    def _ends(self, name: str) -> tuple[float, float] | None:
        return _ends(self._finite(name))

    def _end(self, name: str) -> float:
        """The middle one of the last three finite values of a series; NaN if there is none."""
        ends = self._ends(name)
        return ends[1] if ends else math.nan

    def _last(self, name: str) -> list[float]:
        return self._finite(name)[-limit.PERSISTENT :]


def _ends(values: Sequence[float]) -> tuple[float, float] | None:
    """The first of some values, and the middle one of the last three; None if there is none."""
    return (values[0], statistics.median_low(values[-limit.PERSISTENT :])) if values else None


def _went(ends: tuple[float, float]) -> str:
    first, last = short(ends[0]), short(ends[1])
    return f"stayed at {first}" if first == last else f"went from {first} to {last}"


def _trend(steps: Sequence[int], values: Sequence[float]) -> float | None:
    """How far a series moves, in standard errors of its slope, or of its scatter after a jump from the first record.

    None if there are too few points.
    """
    points = [(step, value) for step, value in zip(steps, values, strict=True) if math.isfinite(value)]
    if len(points) < limit.TREND:
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


def training_loss(run: Recording) -> Seen:
    """Where the value of the loss begins and ends, and what guessing would give."""
    series = [run.history.series(TRAIN, name)[1] for name in ("batch_loss", "loss")]
    values = [value for value in next(filter(None, series), []) if math.isfinite(value)]
    ends = _ends(values)
    if ends is None:
        return None
    used = run.losses.get("", LossInUse())
    if len(values) >= limit.PERSISTENT and not any(values[-limit.PERSISTENT :]):
        settings = change(used, LEARNING, raises=True)
        mend = "In fp16, compute the loss in fp32; otherwise make the task harder"
        mend += f", or {settings}." if settings else "."
        return BAD, "The loss is exactly 0: nothing is learned.", mend, "loss-zero"
    if used.loss is not None and used.loss.surrogate:
        return None  # its value says nothing
    third = len(values) // 3
    rises = third >= 3 and min(values[-third:]) > limit.WORSE * max(values[:third]) > 0
    # A queue that fills makes the task harder; a mean over the triplets that are not yet solved keeps the hardest.
    active = any(
        getattr(base, "mean_over", "") == "active" for used in run.losses.values() for base in used.bases
    )
    if rises and not (run.config or {}).get("queue_size") and not active:
        return WATCH, f"The loss rises: it {_went(ends)}.", "Lower the learning rate."
    negative = run.history.series(DIAGNOSTICS, "negative_cosine")[1][:1]
    guessing = run.loss_at(negative[0], negative[0]) if negative else None
    if guessing and len(values) >= 3 * limit.PERSISTENT and ends[1] >= limit.GUESSING * guessing:
        seen = f"The loss is that of guessing: it is {short(ends[1])}, and {short(guessing)} if nothing is told apart."
        return WATCH, seen, UNTOLD, "loss-at-chance"
    if ends[1] >= ends[0]:
        return None
    compared = f"; guessing would give {short(guessing)}" if guessing and guessing > ends[1] else ""
    return GOOD, f"The loss {_went(ends)}{compared}."


def evaluations(run: Recording) -> Verdict | None:
    """Each score before training, at best and at last; of losses, the lowest is the best."""
    for failure in run.failures:
        if failure.name in (failures.HARM, failures.FALLEN):
            return told("Scores", failure)
    found = [seen for one in scores_of(run.history) if (seen := _score(one)) is not None]
    wrong = next((seen for seen in found if seen[0] != GOOD), None)
    if wrong is not None:
        return Verdict("Scores", *wrong)
    return Verdict("Scores", GOOD, " ".join(words for _, words in found)) if found else None


def _score(one: Score) -> Seen:
    before, best, last = one.before, one.best, one.last
    if best is None or last is None:
        return None
    if one.is_quality and math.isnan(last[1]):
        seen = f"{one.title} cannot be computed at step {last[0]}: the embeddings are constant."
        return BAD, seen, "Lower the learning rate, and use an earlier encoder.", "cosines-above-0-9"
    if one.is_quality and before is not None and best[1] <= before:
        seen = f"{one.title} has not improved: {score(before)} before training, at best {score(best[1])} (step {best[0]})."
        mend = "Lower the learning rate, or use data nearer to what the score measures."
        return WATCH, seen, mend, "score-does-not-rise"
    late = [value for _, value in one.points[-limit.PERSISTENT :]]
    if one.is_loss and len(one.points) > limit.PERSISTENT and min(late) > limit.WORSE * best[1] > 0:
        seen = (
            f"{one.title} rises since step {best[0]}: it was {score(best[1])} and is {score(last[1])}. The encoder "
            "learns its training data by heart."
        )
        mend = f"Use the encoder from about step {best[0]}; train for fewer steps, or on more data."
        return WATCH, seen, mend
    start = f"{score(before)} before training, " if before is not None else ""
    end = f", last {score(last[1])}" if last != best else ""
    return GOOD, f"{one.title}: {start}best {score(best[1])} at step {best[0]}{end}."
