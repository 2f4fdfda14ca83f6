"""`Judge` recognises failures from a run's records; `Course` assesses the embeddings at the end.

Each aspect of the embeddings, such as how the push is divided among negatives, has its failure and
its final assessment side by side. `gradlab.monitor.thresholds` holds the limits of both.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradlab.monitor import thresholds as limit
from gradlab.monitor.history import BATCH_LOSS, DIAGNOSTICS, EVALUATION, History, Score, of_dataset
from gradlab.monitor.numbers import percent, score, short
from gradlab.monitor.setting_advice import (
    HARDEST,
    LEARNING,
    PULL,
    LossInUse,
    alternative,
    change,
    sentence,
)
from gradlab.monitor.words import OPEN, WATCH, Verdict, entries, say

LOSSES = ("loss", BATCH_LOSS, "eval_loss")
STATISTICS = ("negative_cosine", "positive_cosine", "uniformity", "alignment", "effective_rank")
# Returns the value of a quantity by name, at the latest record or at the end.
Reading = Callable[[str], float]


@dataclass(frozen=True)
class Failure:
    """A known failure of a training run."""

    name: str
    step: int  # step at which it was confirmed
    headline: str  # what is wrong, in one sentence
    advice: str
    dataset: str = ""  # dataset whose loss shows it, if each dataset has its own loss

    @property
    def aspect(self) -> str:
        """Aspect of the run that fails, such as ``"Learning"``."""
        return entries()[self.name]["aspect"]

    @property
    def symptom(self) -> str:
        return entries()[self.name]["symptom"]

    def __str__(self) -> str:
        where = f" ({self.dataset})" if self.dataset else ""
        return f"Step {self.step}{where}: {self.headline} {self.advice}"


class Judge:
    """Recognises known failures from a run's records, which it sees once each, in step order."""

    def __init__(
        self,
        total_steps: int | None = None,
        config: Mapping[str, Any] | None = None,
        losses: Mapping[str, LossInUse] | None = None,
    ) -> None:
        """Prepare to judge a run of ``total_steps`` steps.

        Args:
            config: settings by name of a run of `gradlab train`; None for other runs. They help to
                explain a collapse. Only in such a run is it a failure if the views of a sentence
                are no closer than different sentences; other pairs may be that far apart before
                they are learned.
            losses: the loss in use by dataset, or by ``""`` if there is only one; advice names its
                settings.
        """
        self.history = History(total_steps)  # what was seen
        # In order of appearance; the first of each name and dataset.
        self.failures: list[Failure] = []
        self.courses: dict[str, Course] = {}
        self._config, self._losses = config, losses or {}

    def see(self, step: int, group: str, values: Mapping[str, float]) -> None:
        self.history.add(step, group, values)
        found, dataset = [_not_finite(values)], ""
        if group.startswith(DIAGNOSTICS):
            dataset = group.removeprefix(DIAGNOSTICS).strip()
            if dataset not in self.courses:
                used = self._losses.get(dataset, LossInUse())
                self.courses[dataset] = Course(self.history, dataset, used, self._config)
            found += self.courses[dataset].see(step, values)
        elif group == EVALUATION:
            found += [self._score(self.history.score(name)) for name in values]
        for one in filter(None, found):
            known = [(failure.name, failure.dataset) for failure in self.failures]
            if (one.subject, dataset) not in known:
                self.failures.append(Failure(one.subject, step, one.seen, one.change, dataset))

    def anew(self, history: History) -> Judge:
        """Return a judge of the same losses that has seen a whole history."""
        judge = Judge(history.total_steps, self._config, self._losses)
        for step, group, values in history.records():
            judge.see(step, group, values)
        return judge

    def _score(self, one: Score) -> Verdict | None:
        ruined = self._ruined(one) if one.name == "stsb_dev" else None
        return ruined or self._fallen(one)

    def _ruined(self, one: Score) -> Verdict | None:
        """The score was far below that before training, twice in a row (as in MoCoSE, A.2)."""
        before, trained = one.before, [value for step, value in one.points if step > 0][-2:]
        if before is None or not before > 0 or len(trained) < 2:
            return None
        if any(value >= limit.RUINED * before for value in trained):
            return None
        words = say("training hurts", title=one.title, before=before, now=trained[-1])
        return _because(self._config, words)

    def _fallen(self, one: Score) -> Verdict | None:
        """At the end of the run, a correlation or nDCG is below its best.

        If the planned length is unknown, several evaluations in a row must show the fall instead.
        """
        best, last, total = one.best, one.last, self.history.total_steps
        if not one.is_quality or best is None or last is None or last[1] >= best[1] - limit.FALL:
            return None
        if any(known.name == "training hurts" for known in self.failures):
            return None
        steps = [step for step, _ in one.points]
        to_come = len(steps) > 1 and last[0] + (last[0] - steps[-2]) <= (total or 0)
        low = [not value >= best[1] - limit.FALL for _, value in one.points[-limit.PERSISTENT :]]
        if to_come or (total is None and sum(low) < limit.PERSISTENT):
            return None
        then = "; the embeddings have become constant since"
        if math.isfinite(last[1]):
            then = f" and has fallen since, to {last[1]:.3f}"
        where = f"Use the encoder of about step {best[0]}"
        if self._config is not None:
            where = f"The encoder of step {best[0]} is kept, in the folder best"
        at = {"step": best[0], "best": best[1]}
        return say("score fell", title=one.title, **at, then=then, where=where)


def _not_finite(values: Mapping[str, float]) -> Verdict | None:
    """The loss or an embedding is NaN or infinite."""
    share = values.get("not_finite", 0.0)
    losses = [name for name in values if name in LOSSES or name.startswith(f"{BATCH_LOSS} ")]
    lost = next((name for name in losses if not math.isfinite(values[name])), None)
    if lost is None and not share:
        return None
    what = f"{share:.0%} of the embeddings are NaN or infinite"
    if lost is not None:
        where = " on held-out data" if lost == "eval_loss" else ""
        what = f"The loss{where} has become {'NaN' if math.isnan(values[lost]) else 'infinite'}"
    return say("not finite", what=what)


class Course:
    """The diagnostics of one loss in a history that grows, seen record by record."""

    def __init__(
        self, history: History, dataset: str, used: LossInUse, config: Mapping[str, Any] | None
    ) -> None:
        """Take the loss ``used`` for a dataset; for ``config`` see `Judge`."""
        self.dataset, self._group = dataset, of_dataset(DIAGNOSTICS, dataset)
        self._history, self._used, self._config = history, used, config
        # Latest step, and steps since the record before.
        self._step, self._since = 0, 0
        self._streaks, self._told_apart = Counter[str](), False

    def see(self, step: int, values: Mapping[str, float]) -> list[Verdict | None]:
        """Return the failures that a record confirms, which is in the history already."""
        self._step, self._since = step, step - self._step
        checks = {
            self._nothing_to_learn: "gradient_dissipation",
            self._too_high: "hardest_share",
            self._too_low: "lemma_share",
            self._same_views: "positive_cosine",
            self._one_point: "negative_cosine",
            self._indistinct: "negative_cosine",
        }
        return [check() for check, needed in checks.items() if needed in values]

    def looks(
        self, failed: Mapping[str, Failure], running: bool
    ) -> Iterator[tuple[str, Failure | Verdict | None]]:
        """Yield each aspect with its failure or, if there is none, its assessment at the end."""
        looks: dict[str, Callable[[], Verdict | None]] = {
            "Learning": self._learning,
            "Hard negatives": self._hard_negatives,
            "Pull and push": self._pull_and_push,
            "Spread": lambda: self._spread(running),
            "Batch": lambda: None,
            "Progress": lambda: None if "Learning" in failed else self._progress(),
            "Duplicates": lambda: None if self.dataset else self._duplicates(),
        }
        for aspect, look in looks.items():
            yield aspect, failed.get(aspect) or look()

    # Learning: do sentences receive a gradient?

    def _nothing_to_learn(self) -> Verdict | None:
        """Dissipation is near zero early in training: no anchor receives a gradient."""
        value, total = self._latest("gradient_dissipation"), self._history.total_steps
        records = len(self._points("gradient_dissipation"))
        early = records <= (limit.PERSISTENT if total else limit.EARLY_RECORDS)
        early = early or self._step <= limit.EARLY * (total or 0)
        if not (self._persists("nothing to learn", value < limit.NOTHING) and early):
            return None
        alternatives = alternative(self._used, LEARNING, raises=True)
        return say("nothing to learn", dissipation=value, alternative=alternatives)

    def _learning(self) -> Verdict | None:
        names = "gradient_dissipation", "active"
        last, alive = (self._finite(name)[-limit.PERSISTENT :] for name in names)
        if not last or not alive:
            return None
        if max(alive) == 0:
            name = "gradient has vanished" if max(last) < limit.VANISHED else "none learns"
            alternatives = alternative(self._used, LEARNING, raises=True)
            return say(name, dissipation=last[-1], alternative=alternatives)
        share = statistics.fmean(alive)
        if share > limit.ALL_LEARN:
            return say("all learn")
        taught = any(base.needs_teacher for base in self._used.bases)
        others = "agree with the teacher" if taught else "are far enough from their negatives"
        return say(
            "few learn" if share < limit.FEW_LEARN and not taught else "some learn",
            share=percent(share) if share >= 0.001 else "Fewer than 0.1%",
            others=others,
        )

    # Hard negatives: how is the push divided among negatives?

    def _too_high(self) -> Verdict | None:
        lasts = self._persists("temperature too high", self._flat(self._latest))
        return self._too_flat(self._latest) if lasts else None

    def _flat(self, now: Reading) -> bool:
        """The hardest of enough well-spread negatives counts little more than the average one."""
        share, equal = now("hardest_share"), now("uniform_share")
        flat = share < limit.NEAR_UNIFORM * equal <= limit.NEAR_UNIFORM / limit.ENOUGH
        return flat and not now("negative_cosine") >= limit.TUNED

    def _too_flat(self, now: Reading) -> Verdict:
        share, equal = now("hardest_share"), now("uniform_share")
        settings = sentence(change(self._used, HARDEST, raises=True))
        settings = settings or "Use a loss that weighs hard negatives more."
        return say(
            "temperature too high", count=1 / equal, share=share, equal=equal, settings=settings
        )

    def _hard_negatives(self) -> Verdict | None:
        if self._flat(self._end):
            return self._too_flat(self._end)
        share, equal = self._end("hardest_share"), self._end("uniform_share")
        seen = {"count": 1 / equal, "share": percent(share), "equal": percent(equal)}
        cold = self._used.temperature is not None and self._used.temperature <= limit.COLD
        if cold and share > limit.NEARLY_ALL and 2 * equal < 1:
            settings = sentence(change(self._used, HARDEST, raises=False))
            return say("only the hardest counts", **seen, settings=settings)
        if equal * limit.ENOUGH <= 1 and share >= limit.NEAR_UNIFORM * equal:
            return say("hard negatives count more", **seen)
        return None  # negatives too few or too close together to tell hard ones from easy ones

    # Pull and push: do steps bring sentences closer to their positives?

    def _too_low(self) -> Verdict | None:
        lasts = self._persists("ratio too low", self._outweighed(self._latest))
        return self._too_little_pull(self._latest) if lasts else None

    def _outweighed(self, now: Reading) -> bool:
        """Most steps bring the anchor no closer to its positive (Lemma 1), although they could."""
        moves = now("gradient_dissipation") >= limit.NOTHING
        could = moves and not now("positive_cosine") >= limit.COINCIDE
        return could and now("lemma_share") < limit.MOST

    def _too_little_pull(self, now: Reading) -> Verdict:
        ratio = now("ratio_median")
        median = f" (median ratio {ratio:.2f})" if math.isfinite(ratio) else ""
        settings = change(self._used, PULL, raises=True)
        views = "use views of a sentence that are closer to each other"
        advice = f"{settings}, or {views}." if settings else f"{views}, or lower the learning rate."
        share = now("lemma_share")
        return say("ratio too low", share=share, median=median, settings=sentence(advice, ""))

    def _pull_and_push(self) -> Verdict | None:
        if self._outweighed(self._end):
            return self._too_little_pull(self._end)
        share = self._end("lemma_share")
        steps = "Steps" if share >= limit.NEARLY_ALL else "Most steps"
        return say("steps bring closer", steps=steps) if share >= limit.MOST else None

    # Spread and batch: are different sentences told apart, and do a sentence's two views differ?

    def _same_views(self) -> Verdict | None:
        """Both views of every sentence have had the same embedding from the beginning."""
        name, apart = "positive_cosine", not self._latest("negative_cosine") >= limit.APART
        same = self._first(name) > limit.SAME and self._latest(name) > limit.SAME
        return say("identical views") if self._persists("identical views", same and apart) else None

    def _one_point(self) -> Verdict | None:
        """Different sentences have nearly the same embedding, measured before any head."""
        name, rank = "negative_cosine", "effective_rank"
        if self._points("encoder_cosine"):
            name, rank = "encoder_cosine", "encoder_rank"
        cosine, start = self._latest(name), self._first(name)
        close = cosine > limit.ONE_POINT
        narrower = self._persists("collapse", close and 1 - cosine < (1 - start) / 2)
        still = self._persists("still one point", close, limit.PATIENCE)
        if not (narrower or still):
            return None
        has_rank = bool(self._points(rank))
        dimensions = f" and an effective rank of {self._latest(rank):.1f}" if has_rank else ""
        alternatives = alternative(self._used, PULL, raises=False)
        words = say("collapse", cosine=cosine, dimensions=dimensions, alternative=alternatives)
        return _because(self._config, words)

    def _indistinct(self) -> Verdict | None:
        """A sentence's views are no closer than different sentences, in a run of gradlab train."""
        if self._config is None or self.dataset:
            return None
        positive, negative = self._latest("positive_cosine"), self._latest("negative_cosine")
        shown = 1 - positive > limit.INDISTINCT * (1 - negative)
        # New heads begin like this; once they have told sentences apart, a relapse is a failure.
        if not (shown or self._told_apart):
            self._told_apart, self._streaks["indistinct"] = True, 0
        self._streaks["indistinct"] += shown
        ends = self._step + self._since > (self._history.total_steps or math.inf)
        is_last = ends and len(self._points("negative_cosine")) > 1
        most = limit.PERSISTENT if self._told_apart or is_last else limit.RECORDS_OF_NEW_HEADS
        if not shown or self._streaks["indistinct"] < most:
            return None
        words = say("collapse of the loss's embeddings", positive=positive, negative=negative)
        return _because(self._config, dataclasses.replace(words, subject="collapse"))

    def _spread(self, running: bool) -> Verdict | None:
        positive, negative = self.ends("positive_cosine"), self.ends("negative_cosine")
        if not (positive and negative):
            rank = self.ends("effective_rank")
            return say("dimensions", rank=short(rank[1])) if rank else None
        ends = {"positive": score(positive[1]), "positive_before": score(positive[0])}
        ends |= {"negative": score(negative[1]), "negative_before": score(negative[0])}
        gap = positive[1] - negative[1]
        if gap > limit.NARROW:
            how = "clearly told apart" if gap > limit.WIDE else "told apart, though not by much"
            return say("told apart", how=how, **ends)
        return say("hardly told apart", grade=OPEN if running else WATCH, **ends)

    # Progress and duplicates, which are judged at the end only.

    def _progress(self) -> Verdict | None:
        """No statistic of the embeddings has changed since the beginning."""
        trends = [_trend(self._points(name)) for name in STATISTICS]
        known = [trend for trend in trends if trend is not None]
        return say("no progress") if len(known) >= 2 and max(known) <= limit.NO_TREND else None

    def _duplicates(self) -> Verdict | None:
        """Some negatives are as close as positives, with a gap below: texts repeated in a batch."""
        positives, negatives = (
            self._history.histograms(f"{kind}_cosine") for kind in ("positive", "negative")
        )
        equal = self._end("uniform_share")
        late = sorted(positives.keys() & negatives.keys())[-limit.PERSISTENT * 3 :]
        if len(late) < limit.PERSISTENT or math.isnan(equal):
            return None
        near = between = middle = 0.0
        for step in late:
            edge, centre = _median_bin(positives[step]), _median_bin(negatives[step])
            for low, share in negatives[step].items():
                near += share * (low >= edge)
                between += share * (2 * edge - 1 <= low < edge)
            middle += edge - centre
        # Half of the copies lie below the median of the positives.
        each = 2 * near / len(late) / equal
        if middle / len(late) < limit.WIDE or each < limit.MANY_COPIES or near <= 2 * between:
            return None
        return say("duplicates", share=percent(each))

    # Access to the records.

    def records(self) -> int:
        """Return the number of records, which is that of the longest series."""
        names = self._history.names(self._group)
        return max((len(self._points(name)) for name in names), default=0)

    def ends(self, name: str) -> tuple[float, float] | None:
        """Return `ends_of` the finite values of a quantity."""
        return ends_of(self._finite(name))

    def _points(self, name: str) -> dict[int, float]:
        return self._history.points(self._group, name)

    def _finite(self, name: str) -> list[float]:
        return [value for value in self._points(name).values() if math.isfinite(value)]

    def _end(self, name: str) -> float:
        ends = self.ends(name)
        return ends[1] if ends else math.nan

    def _first(self, name: str) -> float:
        return next(iter(self._points(name).values()), math.nan)

    def _latest(self, name: str) -> float:
        return next(reversed(self._points(name).values()), math.nan)

    def _persists(self, name: str, fails: bool, records: int = limit.PERSISTENT) -> bool:
        """Count records in a row with a failure; return whether they are exactly ``records``."""
        self._streaks[name] = self._streaks[name] + 1 if fails else 0
        return self._streaks[name] == records


def ends_of(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the first value and the lower median of the last three; None without any values."""
    return (values[0], statistics.median_low(values[-limit.PERSISTENT :])) if values else None


def _trend(points: Mapping[int, float]) -> float | None:
    """Return how far a series moves; None if there are too few points.

    The unit is the standard error of the slope, or the scatter after a jump from the first record.
    """
    from scipy.stats import linregress  # slow to import

    finite = {step: value for step, value in points.items() if math.isfinite(value)}
    if len(finite) < limit.TREND:
        return None
    y = list(finite.values())
    if min(y) == max(y):  # for which linregress may return NaN
        return 0.0
    line = linregress(list(finite), y)
    jump = 0.75 * (y[0] - statistics.fmean(y[1:]))
    moves = (line.slope, line.stderr), (jump, statistics.stdev(y[1:]))
    return max(abs(move) / scale if scale else math.inf if move else 0.0 for move, scale in moves)


def _median_bin(shares: dict[float, float]) -> float:
    """Return the lower edge of the bin that holds the median."""
    reached = np.cumsum(list(shares.values()))
    return list(shares)[int(np.searchsorted(reached, reached[-1] / 2))]


def _because(config: Mapping[str, Any] | None, words: Verdict) -> Verdict:
    """Return the words on a collapse, with advice on `gradlab train` settings known to allow it."""
    if config is None or not config.get("queue_size") or config.get("in_batch_negatives", True):
        return words
    at_once = (
        config.get("momentum") == 0
        and config.get("momentum_schedule", "constant") == "constant"
        and config.get("momentum_use", "positives") == "positives"
    )
    cause = "the momentum branch moves"
    if at_once:
        predicts = config.get("predictor_layers")
        cause = "only the predictor differs" if predicts else "both branches are the same"
    return dataclasses.replace(words, change=say(f"queue: {cause}").seen)
