"""Known failures of contrastive training, told from records as they come."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gradlab.monitor.advice import HARDEST, LEARNING, PULL, LossInUse, change
from gradlab.monitor.history import DIAGNOSTICS, EVALUATION, History
from gradlab.monitor.scores import Score
from gradlab.monitor.thresholds import (
    APART,
    COINCIDE,
    EARLY,
    EARLY_RECORDS,
    ENOUGH,
    FALL,
    INDISTINCT,
    MOST,
    NEAR_UNIFORM,
    NOTHING,
    ONE_POINT,
    PATIENCE,
    PERSISTENT,
    RECORDS_OF_NEW_HEADS,
    RUINED,
    SAME,
    TUNED,
)

NOT_FINITE, NOTHING_TO_LEARN, TOO_HIGH = "not finite", "nothing to learn", "temperature too high"
RATIO_TOO_LOW, COLLAPSE, SAME_VIEWS = "ratio too low", "collapse", "identical views"
HARM, FALLEN = "training hurts", "score fell"
LOSSES = ("loss", "batch_loss", "eval_loss")


@dataclass(frozen=True)
class Failure:
    """A failure that training shows.

    Attributes:
        name: a short name.
        step: where it was first seen for sure.
        headline: what is wrong, one sentence.
        advice: what to do about it.
        dataset: whose loss shows it, where each dataset has its own.
    """

    name: str
    step: int
    headline: str
    advice: str
    dataset: str = ""

    def __str__(self) -> str:
        where = f" ({self.dataset})" if self.dataset else ""
        return f"Step {self.step}{where}: {self.headline} {self.advice}"


@dataclass
class _Group:
    """What the checks remember of one group of diagnostics."""

    latest: dict[str, float] = field(default_factory=dict)
    records: Counter[str] = field(default_factory=Counter)
    streaks: Counter[str] = field(default_factory=Counter)
    first: dict[str, float] = field(default_factory=dict)
    told_apart: bool = False


class Judge:
    """Tells known failures from the records of a run, each of which it sees once, in the order of their steps.

    Attributes:
        failures: those found so far, in order of appearance; of several with one name, of a dataset, the first.
        total_steps: planned length of the run, or None.
    """

    def __init__(
        self,
        total_steps: int | None = None,
        config: Mapping[str, Any] | None = None,
        losses: Mapping[str, LossInUse] | None = None,
    ) -> None:
        """Prepare to judge.

        Args:
            total_steps: planned length of the run, or None.
            config: settings by name of a run of `gradlab train`; None for any other. They tell why a run may
                collapse; and views of a sentence that are not told from those of others are a failure of such a run
                alone, since other pairs may be as far apart as different sentences before they are learned.
            losses: the loss in use by dataset, of a single one by ``""``; they decide what is advised.
        """
        self.failures: list[Failure] = []
        self.total_steps = total_steps
        self._config, self._losses = config, losses or {}
        self._groups: dict[str, _Group] = {}
        self._scores: dict[str, list[tuple[int, float]]] = {}
        self._last_step: int | None = None

    def see(self, step: int, group: str, values: Mapping[str, float]) -> list[Failure]:
        """Take in a record; returns the failures that can be told since the last one."""
        found = [self._not_finite(step, group, values)]
        dataset = ""
        if group.startswith(DIAGNOSTICS):
            dataset = group.removeprefix(DIAGNOSTICS).strip()
            found += self._diagnostics(step, group, values)
        elif group == EVALUATION:
            found += [self._score(step, name, value) for name, value in values.items()]
        before = len(self.failures)
        for one in filter(None, found):
            if not any((one.name, dataset) == (known.name, known.dataset) for known in self.failures):
                self.failures.append(dataclasses.replace(one, dataset=dataset))
        return self.failures[before:]

    def anew(self, history: History) -> Judge:
        """A judge of the same losses who has seen everything in a history."""
        judge = Judge(history.total_steps, self._config, self._losses)
        for step, group, values in history.records():
            judge.see(step, group, values)
        return judge

    def _not_finite(self, step: int, group: str, values: Mapping[str, float]) -> Failure | None:
        """The loss, or an embedding, is NaN or infinite."""
        share = values.get("not_finite", 0.0)
        lost = next((n for n in LOSSES if not math.isfinite(values.get(n, 0.0))), None)
        if lost is None and not share:
            return None
        what = "The loss on held-out data" if lost == "eval_loss" else "The loss"
        is_what = "NaN" if lost and math.isnan(values[lost]) else "infinite"
        headline = (
            f"{share:.0%} of the embeddings are NaN or infinite."
            if lost is None
            else f"{what} has become {is_what}."
        )
        return Failure(
            NOT_FINITE,
            step,
            headline,
            "Go back to a checkpoint from before that step. Lower the learning rate, or clip gradients; in fp16, train in "
            "bf16 or fp32; look for empty texts.",
        )

    def _diagnostics(self, step: int, group: str, values: Mapping[str, float]) -> list[Failure | None]:
        state = self._groups.setdefault(group, _Group())
        state.latest |= values
        for name, value in values.items():
            state.records[name] += 1
            state.first.setdefault(name, value)
        used = self._losses.get(group.removeprefix(DIAGNOSTICS).strip(), LossInUse())
        checks: tuple[tuple[Callable[..., Failure | None], str], ...] = (
            (self._nothing_to_learn, "gradient_dissipation"),
            (self._temperature_too_high, "hardest_share"),
            (self._ratio_too_low, "lemma_share"),
            (self._same_views, "positive_cosine"),
            (self._one_point, "negative_cosine"),
        )
        found = [check(step, state, used) for check, needs in checks if needs in values]
        if self._config is not None and group == DIAGNOSTICS and "negative_cosine" in values:
            found.append(self._indistinct(step, state))
        return found

    def _nothing_to_learn(self, step: int, state: _Group, used: LossInUse) -> Failure | None:
        """Dissipation near zero early: negatives are all far enough, so that no anchor gets a gradient."""
        number, value = state.records["gradient_dissipation"], state.latest["gradient_dissipation"]
        early = number <= EARLY_RECORDS
        if self.total_steps:
            early = number <= PERSISTENT or step <= EARLY * self.total_steps
        if not (_persists(state, NOTHING_TO_LEARN, value < NOTHING) and early):
            return None
        settings = change(used, LEARNING, raises=True)
        return Failure(
            NOTHING_TO_LEARN,
            step,
            f"Almost no sentence learns: the gradient is near zero already (mean dissipation {value:.1g}).",
            "The task is too easy for this loss: use harder negatives or larger batches, or views that differ more"
            + (f"; or {settings}." if settings else "."),
        )

    def _temperature_too_high(self, step: int, state: _Group, used: LossInUse) -> Failure | None:
        """The hardest negative counts hardly more than any other."""
        share, equal = state.latest["hardest_share"], state.latest.get("uniform_share") or math.nan
        flat = share < NEAR_UNIFORM * equal <= NEAR_UNIFORM / ENOUGH
        apart = state.latest.get("negative_cosine", 0.0) < TUNED
        if not _persists(state, TOO_HIGH, flat and apart):
            return None
        settings = change(used, HARDEST, raises=True)
        return Failure(
            TOO_HIGH,
            step,
            f"The loss hardly tells hard negatives from easy ones: the hardest of {1 / equal:.0f} negatives receives "
            f"{share:.1%} of the weight, and an equal share would be {equal:.1%}.",
            f"{_sentence(settings)}" if settings else "Use a loss that weighs hard negatives more.",
        )

    def _ratio_too_low(self, step: int, state: _Group, used: LossInUse) -> Failure | None:
        """For most triples the step does not bring the anchor closer to its positive (Lemma 1)."""
        share, cosine = state.latest["lemma_share"], state.latest.get("positive_cosine", 0.0)
        moves = state.latest.get("gradient_dissipation", 0.0) >= NOTHING
        if not _persists(state, RATIO_TOO_LOW, share < MOST and moves and cosine < COINCIDE):
            return None
        ratio, settings = state.latest.get("ratio_median", math.nan), change(used, PULL, raises=True)
        return Failure(
            RATIO_TOO_LOW,
            step,
            f"Only {share:.0%} of the steps bring a sentence closer to its positive; in the others the push from the "
            "negatives outweighs the pull"
            + (f" (median ratio {ratio:.2f})." if math.isfinite(ratio) else "."),
            f"{_sentence(settings, end=', or use')} views of a sentence that are closer to each other."
            if settings
            else "Use views of a sentence that are closer to each other, or lower the learning rate.",
        )

    def _same_views(self, step: int, state: _Group, used: LossInUse) -> Failure | None:
        """Both views of every sentence have the same embedding from the beginning."""
        same = state.first["positive_cosine"] > SAME and state.latest["positive_cosine"] > SAME
        apart = state.latest.get("negative_cosine", 0.0) < APART
        if not _persists(state, SAME_VIEWS, same and apart):
            return None
        return Failure(
            SAME_VIEWS,
            step,
            "Both views of every sentence are identical, so there is no positive to learn from.",
            "Give two different texts, or one text twice with dropout on (model.train(); dropout above 0).",
        )

    def _one_point(self, step: int, state: _Group, used: LossInUse) -> Failure | None:
        """Different sentences have nearly the same embedding: the encoder's, where heads make the loss see another."""
        behind = "encoder_cosine" in state.latest
        cosine = state.latest["encoder_cosine" if behind else "negative_cosine"]
        start = state.first["encoder_cosine" if behind else "negative_cosine"]
        narrower = _persists(state, COLLAPSE, cosine > ONE_POINT and 1 - cosine < (1 - start) / 2)
        still = _persists(state, "still one point", cosine > ONE_POINT, PATIENCE)
        if not (narrower or still):
            return None
        rank = state.latest.get("encoder_rank" if behind else "effective_rank")
        settings = change(used, PULL, raises=False)
        return Failure(
            COLLAPSE,
            step,
            f"The embeddings collapse: different sentences have a mean cosine of {cosine:.3f}"
            + (f" and an effective rank of {rank:.1f}." if rank is not None else "."),
            reason(self._config)
            or "Check that the two texts of a row belong together. Lower the learning rate, or use more negatives"
            + (f"; or {settings}." if settings else "."),
        )

    def _indistinct(self, step: int, state: _Group) -> Failure | None:
        """The two views of a sentence are not closer to each other than to other sentences."""
        positive, negative = state.latest.get("positive_cosine", math.nan), state.latest["negative_cosine"]
        shown = 1 - positive > INDISTINCT * (1 - negative)
        # New heads know nothing; once they have told sentences apart, falling back counts like everything else.
        if not (shown or state.told_apart):
            state.told_apart, state.streaks["indistinct"] = True, 0
        state.streaks["indistinct"] += shown
        often = state.streaks["indistinct"]
        previous, self._last_step = self._last_step, step
        over = previous is not None and 2 * step - previous > (self.total_steps or math.inf)
        at = PERSISTENT if state.told_apart or over else RECORDS_OF_NEW_HEADS
        if not shown or often < at:
            return None
        return Failure(
            COLLAPSE,
            step,
            f"The loss's embeddings collapse: a sentence's own view has a cosine of {positive:.3f}, the views of "
            f"others {negative:.3f}.",
            reason(self._config) or "Lower the learning rate, or use other negatives.",
        )

    def _score(self, step: int, name: str, value: float) -> Failure | None:
        points = self._scores.setdefault(name, [])
        points.append((step, value))
        score = Score(name, tuple(points))
        ruined = self._ruined(score) if name == "stsb_dev" else None
        return ruined or self._fallen(score)

    def _ruined(self, score: Score) -> Failure | None:
        """The score has fallen far below the one before training, twice in a row (MoCoSE, A.2, judges by this)."""
        before, trained = score.before, [point for point in score.points if point[0] > 0][-2:]
        if before is None or not before > 0 or len(trained) < 2:
            return None
        if any(value >= RUINED * before for _, value in trained):
            return None
        step, value = trained[-1]
        return Failure(
            HARM,
            step,
            f"{score.title} was {before:.3f} before training and is {value:.3f}: training hurts the encoder.",
            reason(self._config) or "Lower the learning rate, or use other negatives.",
        )

    def _fallen(self, score: Score) -> Failure | None:
        """At the end of the run a correlation or nDCG is below its best.

        Where the planned length is not known, and so the end is not, it takes several evaluations in a row.
        """
        best, last = score.best, score.last
        if not score.is_quality or best is None or last is None or last[1] >= best[1] - FALL:
            return None
        if any(one.name == HARM for one in self.failures):
            return None
        steps = [step for step, _ in score.points]
        to_come = len(steps) > 1 and last[0] + (last[0] - steps[-2]) <= (self.total_steps or 0)
        low = [not value >= best[1] - FALL for _, value in score.points[-PERSISTENT:]]
        if to_come or (self.total_steps is None and sum(low) < PERSISTENT):
            return None
        kept = self._config is not None
        where = (
            f"The encoder of step {best[0]} is kept, in the folder best"
            if kept
            else f"Use the encoder of about step {best[0]}"
        )
        then = f"has fallen since, to {last[1]:.3f}"
        return Failure(
            FALLEN,
            last[0],
            f"{score.title} was best at step {best[0]} ({best[1]:.3f})"
            + (f" and {then}." if math.isfinite(last[1]) else "; the embeddings have become constant since."),
            f"{where}; to end there, train for fewer steps or at a lower learning rate.",
        )


def failures_of(
    history: History,
    config: Mapping[str, Any] | None = None,
    losses: Mapping[str, LossInUse] | None = None,
) -> list[Failure]:
    """The failures that a recorded run has shown, as they were told while it went on; arguments as of `Judge`."""
    return Judge(None, config, losses).anew(history).failures


def reason(config: Mapping[str, Any] | None) -> str | None:
    """What in a configuration is known to let embeddings collapse; None if nothing is.

    Args:
        config: settings of `gradlab train` by name; what is missing is as without a queue and a momentum branch.
    """
    if config is None or not config.get("queue_size") or config.get("in_batch_negatives", True):
        return None
    shared = (
        "All negatives come from earlier steps (in_batch_negatives is off): moving all sentences together, away from the "
        "queue, lowers the loss as well as telling them apart does. "
    )
    at_once = config.get("momentum_schedule", "constant") == "constant" and config.get("momentum") == 0
    if not at_once or config.get("momentum_use", "positives") != "positives":
        return shared + "Turn in_batch_negatives on, lower the learning rate, or raise momentum."
    if not config.get("predictor_layers"):
        return (
            shared
            + "Both branches are the same, since momentum is 0 and there is no predictor, so that nothing holds the "
            "keys back (MoCoSE, A.2). Raise momentum, add predictor_layers, or turn in_batch_negatives on."
        )
    return (
        shared
        + "The momentum branch has no inertia, since momentum is 0, and the predictor alone need not suffice "
        "(MoCoSE, A.2). Raise momentum, or turn in_batch_negatives on."
    )


def _persists(state: _Group, name: str, fails: bool, records: int = PERSISTENT) -> bool:
    """Whether a failure has now been there for as many records in a row."""
    state.streaks[name] = state.streaks[name] + 1 if fails else 0
    return state.streaks[name] == records


def _sentence(words: str, end: str = ".") -> str:
    return words[:1].upper() + words[1:] + end
