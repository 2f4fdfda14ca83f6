"""`LightningWatch`: a watched loss in Lightning, with the trainer's steps, scores and loggers."""

from __future__ import annotations

import math
import sys
from typing import Any

from gradlab.errors import GradlabError, first_line
from gradlab.monitor.metrics import DIAGNOSTICS, EVALUATION
from gradlab.monitor.watch import caution
from gradlab.monitor.watched_loss import WatchedLoss

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    try:
        from pytorch_lightning.callbacks import Callback  # type: ignore[assignment,no-redef]
    except ImportError:
        raise GradlabError(
            "this needs lightning, which is not installed; pip install lightning"
        ) from None


class LightningWatch(Callback):
    """Gives the watch of a loss the steps, planned length and validation scores of a Trainer.

    Numbers go to the trainer's loggers as ``train/gradlab/NAME``.

    Args:
        criterion: the loss that the module's ``training_step`` calls, as `gradlab.watch` returned
            it.

    Example:
        >>> criterion = gradlab.watch(gradlab.blockwise("infonce"), output="run")  # doctest: +SKIP
        >>> trainer = Trainer(callbacks=[LightningWatch(criterion)])  # doctest: +SKIP
    """

    def __init__(self, criterion: WatchedLoss) -> None:
        if not isinstance(criterion, WatchedLoss):
            raise GradlabError(
                "LightningWatch takes the loss that gradlab.watch returned, not "
                f"{type(criterion).__name__}"
            )
        self.watch = criterion.watch
        self._sent = -1  # step of the record that loggers have got last
        self._loggers_down = False

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin a recording, or continue it where the trainer resumes."""
        planned = trainer.estimated_stepping_batches
        total = int(planned) if math.isfinite(planned) and planned > 0 else None
        if trainer.is_global_zero:
            self.watch.start(trainer.global_step, total)

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Tell the watch the number of updates; accumulated batches share one."""
        self.watch.step = trainer.global_step

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Send a new record to the loggers."""
        self.watch.catch_up(wait=False)
        step, numbers = self.watch.history.latest(DIAGNOSTICS)
        if step <= self._sent or not trainer.is_global_zero or self._loggers_down:
            return
        self._sent = step
        logged_numbers = {f"train/gradlab/{name}": number for name, number in numbers.items()}
        try:
            for logger in trainer.loggers:
                logger.log_metrics(logged_numbers, step=step)
        except Exception as error:  # services raise anything when they are down
            self._loggers_down = True
            caution(
                "gradlab cannot write to the trainer's loggers and leaves them out; training and "
                f"recording continue. {type(error).__name__}: {first_line(error)}"
            )

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Record what the module has logged in validation."""
        if trainer.sanity_checking or not trainer.is_global_zero:
            return
        scores = {
            name if name.startswith("eval_") else f"eval_{name}": float(score)
            for name, score in trainer.callback_metrics.items()
            if name.startswith(("val", "eval"))
        }
        self.watch.log(trainer.global_step, EVALUATION, scores)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """End the recording and print what it found."""
        if trainer.is_global_zero:
            print(self.watch.finish(), file=sys.stderr)
