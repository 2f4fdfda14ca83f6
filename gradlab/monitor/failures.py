"""Known failures of contrastive training, told from records as they come."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gradlab.monitor import thresholds as limit
from gradlab.monitor.advice import HARDEST, LEARNING, PULL, LossInUse, change
from gradlab.monitor.history import DIAGNOSTICS, EVALUATION, History
from gradlab.monitor.scores import Score

NOT_FINITE, NOTHING_TO_LEARN, TOO_HIGH = "not finite", "nothing to learn", "temperature too high"
RATIO_TOO_LOW, COLLAPSE, SAME_VIEWS = "ratio too low", "collapse", "identical views"
HARM, FALLEN = "training hurts", "score fell"
# What `gradlab explain` calls them.
SYMPTOMS = {
    NOT_FINITE: "loss-nan", NOTHING_TO_LEARN: "loss-zero", TOO_HIGH: "temperature", RATIO_TOO_LOW: "positives-fall",
    COLLAPSE: "cosines-above-0-9", SAME_VIEWS: "loss-zero", HARM: "score-falls", FALLEN: "score-falls",
}  # fmt: skip
LOSSES = ("loss", "batch_loss", "eval_loss")
OTHER_NEGATIVES = "Lower the learning rate, or use other negatives."


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
    """What the checks remember of one group of diagnostics, of the loss ``used``."""

    used: LossInUse
    step: int = 0
    latest: dict[str, float] = field(default_factory=dict)
    records: Counter[str] = field(default_factory=Counter)
    streaks: Counter[str] = field(default_factory=Counter)
    first: dict[str, float] = field(default_factory=dict)
    told_apart: bool = False


# Name, headline and advice of a failure that shows, or None.
_Told = tuple[str, str, str] | None


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
        """Prepare to judge a run of ``total_steps`` steps.

        Args:
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

    def see(self, step: int, group: str, values: Mapping[str, float]) -> None:
        """Take in a record."""
        found, dataset = [self._not_finite(values)], ""
        if group.startswith(DIAGNOSTICS):
            dataset = group.removeprefix(DIAGNOSTICS).strip()
            found += self._diagnostics(step, dataset, values)
        elif group == EVALUATION:
            found += [self._score(step, name, value) for name, value in values.items()]
        for name, headline, advice in filter(None, found):
            if not any((name, dataset) == (known.name, known.dataset) for known in self.failures):
                self.failures.append(Failure(name, step, headline, advice, dataset))

    def anew(self, history: History) -> Judge:
        """A judge of the same losses who has seen everything in a history."""
        judge = Judge(history.total_steps, self._config, self._losses)
        for step, group, values in history.records():
            judge.see(step, group, values)
        return judge

    def _not_finite(self, values: Mapping[str, float]) -> _Told:
        """The loss, or an embedding, is NaN or infinite."""
        share = values.get("not_finite", 0.0)
        lost = next((n for n in LOSSES if not math.isfinite(values.get(n, 0.0))), None)
        if lost is None and not share:
            return None
        headline = f"{share:.0%} of the embeddings are NaN or infinite."
        if lost is not None:
            what = "The loss on held-out data" if lost == "eval_loss" else "The loss"
            headline = f"{what} has become {'NaN' if math.isnan(values[lost]) else 'infinite'}."
        advice = (
            "Go back to a checkpoint from before that step. Lower the learning rate, or clip gradients; in fp16, train in "
            "bf16 or fp32; look for empty texts."
        )
        return NOT_FINITE, headline, advice

    def _diagnostics(self, step: int, dataset: str, values: Mapping[str, float]) -> list[_Told]:
        state = self._groups.setdefault(dataset, _Group(self._losses.get(dataset, LossInUse())))
        state.latest |= values
        state.records.update(values.keys())
        for name, value in values.items():
            state.first.setdefault(name, value)
        checks: dict[str, Callable[[_Group], _Told]] = {
            "gradient_dissipation": self._nothing_to_learn,
            "hardest_share": self._temperature_too_high,
            "lemma_share": self._ratio_too_low,
            "positive_cosine": self._same_views,
            "negative_cosine": self._one_point,
        }
        previous, state.step = state.step, step
        found = [check(state) for needs, check in checks.items() if needs in values]
        if self._config is not None and not dataset and "negative_cosine" in values:
            found.append(self._indistinct(state, step - previous))
        return found

    def _nothing_to_learn(self, state: _Group) -> _Told:
        """Dissipation near zero early: negatives are all far enough, so that no anchor gets a gradient."""
        number, value = state.records["gradient_dissipation"], state.latest["gradient_dissipation"]
        early = number <= limit.EARLY_RECORDS
        if self.total_steps:
            early = number <= limit.PERSISTENT or state.step <= limit.EARLY * self.total_steps
        if not (_persists(state, NOTHING_TO_LEARN, value < limit.NOTHING) and early):
            return None
        settings = change(state.used, LEARNING, raises=True)
        headline = (
            f"Almost no sentence learns: the gradient is near zero already (mean dissipation {value:.1g})."
        )
        advice = "The task is too easy for this loss: use harder negatives or larger batches, or views that differ more"
        return NOTHING_TO_LEARN, headline, advice + (f"; or {settings}." if settings else ".")

    def _temperature_too_high(self, state: _Group) -> _Told:
        """The hardest negative counts hardly more than any other."""
        share, equal = state.latest["hardest_share"], state.latest.get("uniform_share") or math.nan
        flat = share < limit.NEAR_UNIFORM * equal <= limit.NEAR_UNIFORM / limit.ENOUGH
        apart = state.latest.get("negative_cosine", 0.0) < limit.TUNED
        if not _persists(state, TOO_HIGH, flat and apart):
            return None
        headline = (
            f"The loss hardly tells hard negatives from easy ones: the hardest of {1 / equal:.0f} negatives receives "
            f"{share:.1%} of the weight, and an equal share would be {equal:.1%}."
        )
        settings = change(state.used, HARDEST, raises=True)
        return TOO_HIGH, headline, sentence(settings) or "Use a loss that weighs hard negatives more."

    def _ratio_too_low(self, state: _Group) -> _Told:
        """For most triples the step does not bring the anchor closer to its positive (Lemma 1)."""
        share, cosine = state.latest["lemma_share"], state.latest.get("positive_cosine", 0.0)
        moves = state.latest.get("gradient_dissipation", 0.0) >= limit.NOTHING
        if not _persists(state, RATIO_TOO_LOW, share < limit.MOST and moves and cosine < limit.COINCIDE):
            return None
        ratio, settings = state.latest.get("ratio_median", math.nan), change(state.used, PULL, raises=True)
        headline = (
            f"Only {share:.0%} of the steps bring a sentence closer to its positive; in the others the push from the "
            f"negatives outweighs the pull{f' (median ratio {ratio:.2f})' if math.isfinite(ratio) else ''}."
        )
        advice = "Use views of a sentence that are closer to each other, or lower the learning rate."
        if settings:
            advice = sentence(settings, ", or use views of a sentence that are closer to each other.")
        return RATIO_TOO_LOW, headline, advice

    def _same_views(self, state: _Group) -> _Told:
        """Both views of every sentence have the same embedding from the beginning."""
        same = state.first["positive_cosine"] > limit.SAME and state.latest["positive_cosine"] > limit.SAME
        apart = state.latest.get("negative_cosine", 0.0) < limit.APART
        if not _persists(state, SAME_VIEWS, same and apart):
            return None
        headline = "Both views of every sentence are identical, so there is no positive to learn from."
        advice = (
            "Give two different texts, or one text twice with dropout on (model.train(); dropout above 0)."
        )
        return SAME_VIEWS, headline, advice

    def _one_point(self, state: _Group) -> _Told:
        """Different sentences have nearly the same embedding: the encoder's, where heads make the loss see another."""
        behind = "encoder_cosine" in state.latest
        name = "encoder_cosine" if behind else "negative_cosine"
        cosine, start = state.latest[name], state.first[name]
        narrower = _persists(state, COLLAPSE, cosine > limit.ONE_POINT and 1 - cosine < (1 - start) / 2)
        still = _persists(state, "still one point", cosine > limit.ONE_POINT, limit.PATIENCE)
        if not (narrower or still):
            return None
        rank = state.latest.get("encoder_rank" if behind else "effective_rank")
        headline = (
            f"The embeddings collapse: different sentences have a mean cosine of {cosine:.3f}"
            f"{f' and an effective rank of {rank:.1f}' if rank is not None else ''}."
        )
        settings = change(state.used, PULL, raises=False)
        advice = (
            "Check that the two texts of a row belong together. Lower the learning rate, or use more negatives"
            f"{f'; or {settings}' if settings else ''}."
        )
        return COLLAPSE, headline, reason(self._config) or advice

    def _indistinct(self, state: _Group, steps: int) -> _Told:
        """The two views of a sentence are not closer to each other than to other sentences; ``steps`` are those since the last record."""
        positive, negative = state.latest.get("positive_cosine", math.nan), state.latest["negative_cosine"]
        shown = 1 - positive > limit.INDISTINCT * (1 - negative)
        # New heads know nothing; once they have told sentences apart, falling back counts like everything else.
        if not (shown or state.told_apart):
            state.told_apart, state.streaks["indistinct"] = True, 0
        state.streaks["indistinct"] += shown
        is_last = state.records["negative_cosine"] > 1 and state.step + steps > (self.total_steps or math.inf)
        most = limit.PERSISTENT if state.told_apart or is_last else limit.RECORDS_OF_NEW_HEADS
        if not shown or state.streaks["indistinct"] < most:
            return None
        headline = (
            f"The loss's embeddings collapse: a sentence's own view has a cosine of {positive:.3f}, the views of "
            f"others {negative:.3f}."
        )
        return COLLAPSE, headline, reason(self._config) or OTHER_NEGATIVES

    def _score(self, step: int, name: str, value: float) -> _Told:
        points = self._scores.setdefault(name, [])
        points.append((step, value))
        score = Score(name, tuple(points))
        ruined = self._ruined(score) if name == "stsb_dev" else None
        return ruined or self._fallen(score)

    def _ruined(self, score: Score) -> _Told:
        """The score has fallen far below the one before training, twice in a row (MoCoSE, A.2, judges by this)."""
        before, trained = score.before, [value for step, value in score.points if step > 0][-2:]
        if before is None or not before > 0 or len(trained) < 2:
            return None
        if any(value >= limit.RUINED * before for value in trained):
            return None
        headline = f"{score.title} was {before:.3f} before training and is {trained[-1]:.3f}: training hurts the encoder."
        return HARM, headline, reason(self._config) or OTHER_NEGATIVES

    def _fallen(self, score: Score) -> _Told:
        """At the end of the run a correlation or nDCG is below its best.

        Where the planned length is not known, and so the end is not, it takes several evaluations in a row.
        """
        best, last = score.best, score.last
        if not score.is_quality or best is None or last is None or last[1] >= best[1] - limit.FALL:
            return None
        if any(one.name == HARM for one in self.failures):
            return None
        steps = [step for step, _ in score.points]
        to_come = len(steps) > 1 and last[0] + (last[0] - steps[-2]) <= (self.total_steps or 0)
        low = [not value >= best[1] - limit.FALL for _, value in score.points[-limit.PERSISTENT :]]
        if to_come or (self.total_steps is None and sum(low) < limit.PERSISTENT):
            return None
        then = "; the embeddings have become constant since."
        if math.isfinite(last[1]):
            then = f" and has fallen since, to {last[1]:.3f}."
        where = f"Use the encoder of about step {best[0]}"
        if self._config is not None:
            where = f"The encoder of step {best[0]} is kept, in the folder best"
        headline = f"{score.title} was best at step {best[0]} ({best[1]:.3f}){then}"
        return FALLEN, headline, f"{where}; to end there, train for fewer steps or at a lower learning rate."


def failures_of(
    history: History,
    config: Mapping[str, Any] | None = None,
    losses: Mapping[str, LossInUse] | None = None,
) -> list[Failure]:
    """The failures that a recorded run has shown, as they were told while it went on; arguments as of `Judge`."""
    return Judge(None, config, losses).anew(history).failures


def reason(config: Mapping[str, Any] | None) -> str | None:
    """What in the settings of a run of `gradlab train` is known to let embeddings collapse; None if nothing is."""
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


def _persists(state: _Group, name: str, fails: bool, records: int = limit.PERSISTENT) -> bool:
    """Whether a failure has now been there for as many records in a row."""
    state.streaks[name] = state.streaks[name] + 1 if fails else 0
    return state.streaks[name] == records


def sentence(words: str, end: str = ".") -> str:
    """The words as a sentence; no words, no sentence."""
    return words[:1].upper() + words[1:] + end if words else ""
