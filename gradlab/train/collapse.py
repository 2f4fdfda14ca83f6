"""Collapse, told while a run goes, with what in its configuration lets it happen."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from gradlab.report.findings import DIAGNOSTICS, collapse
from gradlab.report.history import History
from gradlab.train.callbacks import Callback

if TYPE_CHECKING:
    from gradlab.train.config import TrainConfig
    from gradlab.train.loop import Trainer
    from gradlab.train.outputs import Output

# Squared distance of a sentence's views, as a share of that of different sentences: a healthy run begins near .75, for
# dropout alone, and falls from there.
INDISTINCT = 0.9
# Records that must show it, which need not follow each other since such runs oscillate; more of them where new heads
# make it so from the beginning.
RECORDS, RECORDS_OF_NEW_HEADS = 3, 6
# Training hurts for good if the score is below this share of the one before training, twice in a row.
RUINED = 0.75


class Evidence(NamedTuple):
    """That a run collapses.

    Attributes:
        step: where it was seen for sure.
        headline: what was seen, one sentence.
        advice: what to do, if nothing is known of the configuration.
    """

    step: int
    headline: str
    advice: str = "Lower the learning rate, or use other negatives."


class CollapseWatch(Callback):
    """Warns once when a run collapses: see :func:`evidence`.

    Attributes:
        step: where it was seen; None if it was not.
    """

    def __init__(self) -> None:
        self.step: int | None = None

    def on_step(self, trainer: Trainer, output: Output) -> None:
        """Look at what has been recorded so far, after each record of the diagnostics."""
        every = trainer.config.diagnostics_every
        if self.step is not None or not every or trainer.step % every:
            return
        found = evidence(trainer.history, trainer.scores)
        if found is not None:
            self.step = found.step
            trainer.say(
                f"Warning, step {found.step}: {found.headline} {reason(trainer.config) or found.advice}"
            )


def evidence(history: History, scores: Mapping[int, float]) -> Evidence | None:
    """The first of these that a run shows, or None.

    What the encoder gives becomes one point; what the loss compares no longer tells a sentence's own view from others;
    the score on STS-B dev falls far below the one before training (MoCoSE, A.2, judges by this).

    Args:
        history: what was recorded, with diagnostics.
        scores: step -> Spearman's correlation; step 0 is before training.
    """
    point = collapse(of_encoder(history), DIAGNOSTICS)
    if point is not None:
        return Evidence(point.step, point.headline, point.advice)
    return indistinct(history) or ruined(scores)


def indistinct(history: History) -> Evidence | None:
    """Whether the two views of a sentence are no closer to each other than to other sentences."""
    steps, positives = history.series(DIAGNOSTICS, "positive_cosine")
    negatives = dict(zip(*history.series(DIAGNOSTICS, "negative_cosine"), strict=True))
    shown = [
        (step, positive, negatives[step])
        for step, positive in zip(steps, positives, strict=True)
        if 1 - positive > INDISTINCT * (1 - negatives[step])
    ]
    began_so = bool(shown) and shown[0][0] == steps[0]
    needed = RECORDS_OF_NEW_HEADS if began_so else RECORDS
    # New heads know nothing; once they have told sentences apart, falling back counts like everything else.
    if began_so and len(shown) < len(steps):
        first_apart = min(set(steps) - {step for step, _, _ in shown})
        shown, needed = [one for one in shown if one[0] > first_apart], RECORDS
    if len(shown) < needed:
        return None
    step, positive, negative = shown[needed - 1]
    return Evidence(
        step,
        f"The loss's embeddings collapse: a sentence's own view has a cosine of {positive:.3f}, the views of others "
        f"{negative:.3f}.",
    )


def ruined(scores: Mapping[int, float]) -> Evidence | None:
    """Whether the score has fallen far below the one before training, twice in a row."""
    steps = sorted(step for step in scores if step > 0)
    if 0 not in scores or not scores[0] > 0:
        return None
    low = [step for step in steps if not scores[step] >= RUINED * scores[0]]
    for before, step in itertools.pairwise(steps):
        if before in low and step in low:
            return Evidence(
                step,
                f"STS-B dev was {scores[0]:.3f} before training and is {scores[step]:.3f}: training hurts the encoder.",
            )
    return None


def of_encoder(history: History) -> History:
    """The spread of what the encoder gives, where heads make the loss see something else; else that of the loss."""
    steps, cosines = history.series(DIAGNOSTICS, "encoder_cosine")
    if not steps:
        return history
    found = History(history.total_steps)
    for step, cosine in zip(steps, cosines, strict=True):
        rank = history.at(DIAGNOSTICS, "encoder_rank", step)
        found.add(step, DIAGNOSTICS, {"negative_cosine": cosine, "effective_rank": rank or 0.0})
    return found


def reason(config: TrainConfig) -> str | None:
    """What in a configuration is known to let embeddings collapse; None if nothing is."""
    if not config.queue_size or config.in_batch_negatives:
        return None
    shared = (
        "All negatives come from earlier steps (in_batch_negatives is off): moving all sentences together, away from the "
        "queue, lowers the loss as well as telling them apart does. "
    )
    at_once = config.momentum_schedule == "constant" and config.momentum == 0
    if not at_once or config.momentum_use != "positives":
        return shared + "Turn in_batch_negatives on, lower the learning rate, or raise momentum."
    if config.predictor_layers == 0:
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
