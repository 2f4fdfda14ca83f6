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
from gradlab.monitor.advice import HARDEST, LEARNING, PULL, LossInUse, alternative, change, sentence
from gradlab.monitor.history import BATCH_LOSS, DIAGNOSTICS, EVALUATION, History, Score
from gradlab.monitor.numbers import percent, score, short
from gradlab.monitor.words import OPEN, WATCH, Verdict, say, symptom_of

NOT_FINITE, NOTHING_TO_LEARN, TOO_HIGH = "not finite", "nothing to learn", "temperature too high"
RATIO_TOO_LOW, COLLAPSE, SAME_VIEWS = "ratio too low", "collapse", "identical views"
HARM, FALLEN = "training hurts", "score fell"
# Failure -> the aspect of a run that it belongs to.
FAILURES = {
    NOT_FINITE: "Numbers",
    NOTHING_TO_LEARN: "Learning",
    TOO_HIGH: "Hard negatives",
    RATIO_TOO_LOW: "Pull and push",
    COLLAPSE: "Spread",
    SAME_VIEWS: "Batch",
    HARM: "Scores",
    FALLEN: "Scores",
}
LOSSES = ("loss", BATCH_LOSS, "eval_loss")
BATCH_STATISTICS = (
    "negative_cosine",
    "positive_cosine",
    "uniformity",
    "alignment",
    "effective_rank",
)
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
        return FAILURES[self.name]

    @property
    def symptom(self) -> str:
        return symptom_of(self.name)

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
        # In order of appearance; the first of each name and dataset.
        self.failures: list[Failure] = []
        self.courses: dict[str, Course] = {}
        self._total, self._config, self._losses = total_steps, config, losses or {}
        self._scores: dict[str, list[tuple[int, float]]] = {}

    def see(self, step: int, group: str, values: Mapping[str, float]) -> None:
        found, dataset = [_not_finite(values)], ""
        if group.startswith(DIAGNOSTICS):
            dataset = group.removeprefix(DIAGNOSTICS).strip()
            if dataset not in self.courses:
                used = self._losses.get(dataset, LossInUse())
                self.courses[dataset] = Course(dataset, used, self._total, self._config)
            found += self.courses[dataset].see(step, values)
        elif group == EVALUATION:
            found += [self._score(step, name, value) for name, value in values.items()]
        for one in filter(None, found):
            if not any(
                (one.subject, dataset) == (known.name, known.dataset) for known in self.failures
            ):
                self.failures.append(Failure(one.subject, step, one.seen, one.change, dataset))

    def anew(self, history: History) -> Judge:
        """Return a judge of the same losses that has seen a whole history."""
        judge = Judge(history.total_steps, self._config, self._losses)
        for step, group, values in history.records():
            judge.see(step, group, values)
        return judge

    def _score(self, step: int, name: str, value: float) -> Verdict | None:
        points = self._scores.setdefault(name, [])
        points.append((step, value))
        one = Score(name, tuple(points))
        ruined = self._ruined(one) if name == "stsb_dev" else None
        return ruined or self._fallen(one)

    def _ruined(self, one: Score) -> Verdict | None:
        """The score was far below that before training, twice in a row (as in MoCoSE, A.2)."""
        before, trained = one.before, [value for step, value in one.points if step > 0][-2:]
        if before is None or not before > 0 or len(trained) < 2:
            return None
        if any(value >= limit.RUINED * before for value in trained):
            return None
        return _because(self._config, say(HARM, title=one.title, before=before, now=trained[-1]))

    def _fallen(self, one: Score) -> Verdict | None:
        """At the end of the run, a correlation or nDCG is below its best.

        If the planned length is unknown, several evaluations in a row must show the fall instead.
        """
        best, last = one.best, one.last
        if not one.is_quality or best is None or last is None or last[1] >= best[1] - limit.FALL:
            return None
        if any(known.name == HARM for known in self.failures):
            return None
        steps = [step for step, _ in one.points]
        to_come = len(steps) > 1 and last[0] + (last[0] - steps[-2]) <= (self._total or 0)
        low = [not value >= best[1] - limit.FALL for _, value in one.points[-limit.PERSISTENT :]]
        if to_come or (self._total is None and sum(low) < limit.PERSISTENT):
            return None
        then = "; the embeddings have become constant since"
        if math.isfinite(last[1]):
            then = f" and has fallen since, to {last[1]:.3f}"
        where = f"Use the encoder of about step {best[0]}"
        if self._config is not None:
            where = f"The encoder of step {best[0]} is kept, in the folder best"
        return say(FALLEN, title=one.title, step=best[0], best=best[1], then=then, where=where)


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
    return say(NOT_FINITE, what=what)


class Course:
    """The diagnostics of one loss, seen record by record."""

    def __init__(
        self,
        dataset: str,
        used: LossInUse,
        total_steps: int | None,
        config: Mapping[str, Any] | None,
    ) -> None:
        """For the arguments see `Judge`."""
        self.dataset = dataset
        self._used, self._total, self._config = used, total_steps, config
        self._points: dict[str, list[tuple[int, float]]] = {}
        self._step, self._streaks, self._told_apart = 0, Counter[str](), False

    def see(self, step: int, values: Mapping[str, float]) -> list[Verdict | None]:
        for name, value in values.items():
            self._points.setdefault(name, []).append((step, value))
        previous, self._step = self._step, step
        checks: dict[str, Callable[[], Verdict | None]] = {
            "gradient_dissipation": self._nothing_to_learn,
            "hardest_share": lambda: self._lasting(TOO_HIGH, self._flat, self._too_flat),
            "lemma_share": lambda: self._lasting(
                RATIO_TOO_LOW, self._outweighed, self._too_little_pull
            ),
            "positive_cosine": self._same_views,
            "negative_cosine": self._one_point,
        }
        found = [check() for needs, check in checks.items() if needs in values]
        if self._config is not None and not self.dataset and "negative_cosine" in values:
            found.append(self._indistinct(step - previous))
        return found

    def looks(
        self, failed: Mapping[str, Failure], history: History, running: bool
    ) -> Iterator[tuple[str, Failure | Verdict | None]]:
        """Yield each aspect with its failure or, if there is none, its assessment at the end."""
        looks: dict[str, Callable[[], Verdict | None]] = {
            "Learning": self._learning,
            "Hard negatives": self._hard_negatives,
            "Pull and push": self._pull_and_push,
            "Spread": lambda: self._spread(running),
            "Batch": lambda: None,
            "Progress": lambda: None if "Learning" in failed else self._progress(),
            "Duplicates": lambda: None if self.dataset else self._duplicates(history),
        }
        for aspect, look in looks.items():
            yield aspect, failed.get(aspect) or look()

    # Learning: do sentences receive a gradient?

    def _nothing_to_learn(self) -> Verdict | None:
        """Dissipation is near zero early in training: no anchor receives a gradient."""
        number, value = (
            len(self._points["gradient_dissipation"]),
            self._latest("gradient_dissipation"),
        )
        early = number <= limit.EARLY_RECORDS
        if self._total:
            early = number <= limit.PERSISTENT or self._step <= limit.EARLY * self._total
        if not (self._persists(NOTHING_TO_LEARN, value < limit.NOTHING) and early):
            return None
        alternatives = alternative(self._used, LEARNING, raises=True)
        return say(NOTHING_TO_LEARN, dissipation=value, alternative=alternatives)

    def _learning(self) -> Verdict | None:
        last, alive = (
            self._finite(name)[-limit.PERSISTENT :] for name in ("gradient_dissipation", "active")
        )
        if not last or not alive:
            return None
        if max(alive) > 0:
            share = statistics.fmean(alive)
            if share > limit.ALL_LEARN:
                return say("all learn")
            taught = any(base.needs_teacher for base in self._used.bases)
            return say(
                "few learn" if share < limit.FEW_LEARN and not taught else "some learn",
                share=percent(share) if share >= 0.001 else "Fewer than 0.1%",
                others="agree with the teacher"
                if taught
                else "are far enough from their negatives",
            )
        name = "gradient has vanished" if max(last) < limit.VANISHED else "none learns"
        return say(
            name, dissipation=last[-1], alternative=alternative(self._used, LEARNING, raises=True)
        )

    # Hard negatives: how is the push divided among negatives?

    def _flat(self, now: Reading) -> bool:
        """The hardest of enough well-spread negatives counts little more than the average one."""
        share, equal = now("hardest_share"), now("uniform_share")
        flat = share < limit.NEAR_UNIFORM * equal <= limit.NEAR_UNIFORM / limit.ENOUGH
        return flat and not now("negative_cosine") >= limit.TUNED

    def _too_flat(self, now: Reading) -> Verdict:
        share, equal = now("hardest_share"), now("uniform_share")
        settings = sentence(change(self._used, HARDEST, raises=True))
        settings = settings or "Use a loss that weighs hard negatives more."
        return say(TOO_HIGH, count=1 / equal, share=share, equal=equal, settings=settings)

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

    def _outweighed(self, now: Reading) -> bool:
        """Most steps bring the anchor no closer to its positive (Lemma 1), although they could."""
        still = (
            not now("gradient_dissipation") >= limit.NOTHING
            or now("positive_cosine") >= limit.COINCIDE
        )
        return now("lemma_share") < limit.MOST and not still

    def _too_little_pull(self, now: Reading) -> Verdict:
        ratio = now("ratio_median")
        median = f" (median ratio {ratio:.2f})" if math.isfinite(ratio) else ""
        settings = change(self._used, PULL, raises=True)
        views = "use views of a sentence that are closer to each other"
        advice = f"{settings}, or {views}." if settings else f"{views}, or lower the learning rate."
        return say(
            RATIO_TOO_LOW, share=now("lemma_share"), median=median, settings=sentence(advice, "")
        )

    def _pull_and_push(self) -> Verdict | None:
        if self._outweighed(self._end):
            return self._too_little_pull(self._end)
        share = self._end("lemma_share")
        if not share >= limit.MOST:
            return None
        return say(
            "steps bring closer", steps="Steps" if share >= limit.NEARLY_ALL else "Most steps"
        )

    # Spread and batch: are different sentences told apart, and do a sentence's two views differ?

    def _same_views(self) -> Verdict | None:
        """Both views of every sentence have had the same embedding from the beginning."""
        cosines = self._points["positive_cosine"]
        same = all(value > limit.SAME for _, value in (cosines[0], cosines[-1]))
        if not self._persists(
            SAME_VIEWS, same and not self._latest("negative_cosine") >= limit.APART
        ):
            return None
        return say(SAME_VIEWS)

    def _one_point(self) -> Verdict | None:
        """Different sentences have nearly the same embedding, measured before any head."""
        behind = "encoder_cosine" in self._points
        name = "encoder_cosine" if behind else "negative_cosine"
        cosine, (_, start) = self._latest(name), self._points[name][0]
        narrower = self._persists(
            COLLAPSE, cosine > limit.ONE_POINT and 1 - cosine < (1 - start) / 2
        )
        still = self._persists("still one point", cosine > limit.ONE_POINT, limit.PATIENCE)
        if not (narrower or still):
            return None
        rank = "encoder_rank" if behind else "effective_rank"
        dimensions = (
            f" and an effective rank of {self._latest(rank):.1f}" if rank in self._points else ""
        )
        alternatives = alternative(self._used, PULL, raises=False)
        words = say(COLLAPSE, cosine=cosine, dimensions=dimensions, alternative=alternatives)
        return _because(self._config, words)

    def _indistinct(self, steps: int) -> Verdict | None:
        """A sentence's views are no closer than different sentences.

        ``steps`` is the number of steps since the last record.
        """
        positive, negative = self._latest("positive_cosine"), self._latest("negative_cosine")
        shown = 1 - positive > limit.INDISTINCT * (1 - negative)
        # New heads begin like this; once they have told sentences apart, a relapse is a failure.
        if not (shown or self._told_apart):
            self._told_apart, self._streaks["indistinct"] = True, 0
        self._streaks["indistinct"] += shown
        is_last = len(self._points["negative_cosine"]) > 1 and self._step + steps > (
            self._total or math.inf
        )
        most = limit.PERSISTENT if self._told_apart or is_last else limit.RECORDS_OF_NEW_HEADS
        if not shown or self._streaks["indistinct"] < most:
            return None
        words = say("collapse of the loss's embeddings", positive=positive, negative=negative)
        return _because(self._config, dataclasses.replace(words, subject=COLLAPSE))

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
        trends = [_trend(self._points.get(name, ())) for name in BATCH_STATISTICS]
        known = [trend for trend in trends if trend is not None]
        if len(known) < 2 or max(known) > limit.NO_TREND:
            return None
        return say("no progress")

    def _duplicates(self, history: History) -> Verdict | None:
        """Some negatives are as close as positives, with a gap below: texts repeated in a batch."""
        positives, negatives = (
            history.histograms(f"{kind}_cosine") for kind in ("positive", "negative")
        )
        equal = self._end("uniform_share")
        late = sorted(positives.keys() & negatives.keys())[-limit.PERSISTENT * 3 :]
        if len(late) < limit.PERSISTENT or math.isnan(equal):
            return None
        near = between = middle = 0.0
        for step in late:
            edge, centre = _median_bin(positives[step]), _median_bin(negatives[step])
            near += sum(share for low, share in negatives[step].items() if low >= edge)
            between += sum(
                share for low, share in negatives[step].items() if 2 * edge - 1 <= low < edge
            )
            middle += edge - centre
        # Half of the copies lie below the median of the positives.
        each = 2 * near / len(late) / equal
        if middle / len(late) < limit.WIDE or each < limit.MANY_COPIES or near <= 2 * between:
            return None
        return say("duplicates", share=percent(each))

    # Access to the records.

    def records(self) -> int:
        return max(map(len, self._points.values()), default=0)

    def ends(self, name: str) -> tuple[float, float] | None:
        """Return `ends_of` the finite values of a quantity."""
        return ends_of(self._finite(name))

    def _finite(self, name: str) -> list[float]:
        return [value for _, value in self._points.get(name, ()) if math.isfinite(value)]

    def _end(self, name: str) -> float:
        ends = self.ends(name)
        return ends[1] if ends else math.nan

    def _latest(self, name: str) -> float:
        return self._points[name][-1][1] if name in self._points else math.nan

    def _lasting(
        self, name: str, shows: Callable[[Reading], bool], told: Callable[[Reading], Verdict]
    ) -> Verdict | None:
        return told(self._latest) if self._persists(name, shows(self._latest)) else None

    def _persists(self, name: str, fails: bool, records: int = limit.PERSISTENT) -> bool:
        """Count records in a row with a failure; return whether they are exactly ``records``."""
        self._streaks[name] = self._streaks[name] + 1 if fails else 0
        return self._streaks[name] == records


def ends_of(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the first value and the lower median of the last three; None without any values."""
    return (values[0], statistics.median_low(values[-limit.PERSISTENT :])) if values else None


def _trend(points: Sequence[tuple[int, float]]) -> float | None:
    """Return how far a series moves; None if there are too few points.

    The unit is the standard error of the slope, or the scatter after a jump from the first record.
    """
    from scipy.stats import linregress  # slow to import

    points = [(step, value) for step, value in points if math.isfinite(value)]
    if len(points) < limit.TREND:
        return None
    x, y = zip(*points, strict=True)
    line = linregress(x, y)
    moves = (
        (line.slope, line.stderr),
        (0.75 * (y[0] - statistics.fmean(y[1:])), statistics.stdev(y[1:])),
    )
    return max(abs(move) / scale if scale else math.inf if move else 0.0 for move, scale in moves)


def _median_bin(shares: dict[float, float]) -> float:
    """Return the lower edge of the bin that holds the median."""
    edges = sorted(shares)
    reached = np.cumsum([shares[low] for low in edges])
    return edges[int(np.searchsorted(reached, reached[-1] / 2))]


def _because(config: Mapping[str, Any] | None, words: Verdict) -> Verdict:
    """Return the words on a collapse, with advice on `gradlab train` settings known to allow it."""
    if config is None or not config.get("queue_size") or config.get("in_batch_negatives", True):
        return words
    at_once = (
        config.get("momentum_schedule", "constant") == "constant" and config.get("momentum") == 0
    )
    if not at_once or config.get("momentum_use", "positives") != "positives":
        cause = "the momentum branch moves"
    else:
        cause = (
            "only the predictor differs"
            if config.get("predictor_layers")
            else "both branches are the same"
        )
    return dataclasses.replace(words, change=say(f"queue: {cause}").seen)
