"""Collapse, told while a run goes, with what in its configuration lets it happen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlab.report.findings import DIAGNOSTICS, collapse
from gradlab.report.history import History
from gradlab.train.callbacks import Callback

if TYPE_CHECKING:
    from gradlab.train.config import TrainConfig
    from gradlab.train.loop import Trainer
    from gradlab.train.outputs import Output


class CollapseWatch(Callback):
    """Warns once when the recorded diagnostics show that the embeddings collapse.

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
        finding = collapse(of_encoder(trainer.history), DIAGNOSTICS)
        if finding is not None:
            self.step = finding.step
            advice = reason(trainer.config) or finding.advice
            trainer.say(f"Warning, step {finding.step}: {finding.headline} {advice}")


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
    """What in a configuration is known to let embeddings collapse (MoCoSE, A.2); None if nothing is."""
    follows_at_once = config.momentum_schedule == "constant" and config.momentum == 0
    if config.momentum_use != "positives" or not follows_at_once:
        return None
    if config.predictor_layers == 0:
        return (
            "Both branches are the same, since momentum is 0 and there is no predictor, and no gradient flows into "
            "the second one: moving all sentences away from the queue together lowers the loss as well as telling "
            "them apart (MoCoSE, A.2). Raise momentum, add predictor_layers, or turn in_batch_negatives on."
        )
    return (
        "The momentum branch has no inertia, since momentum is 0: the predictor alone makes it differ from the "
        "trained one, which need not suffice (MoCoSE, A.2). Raise momentum, or turn in_batch_negatives on."
    )
