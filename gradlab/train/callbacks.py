"""What happens during a run beside training, each on its own schedule."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gradlab.geometry.views import unit_rows
from gradlab.gradient.diagnostics import diagnose, effective_rank
from gradlab.train.random_state import seed_everything, undisturbed

if TYPE_CHECKING:
    from gradlab.train.loop import Trainer
    from gradlab.train.outputs import Output


class Callback:
    """Base of what is called during a run; override what you need.

    Callbacks run in every process. What they must remember over a crash goes through :meth:`state`.
    """

    def on_start(self, trainer: Trainer) -> None:
        """Called once, before the first step of this process."""

    def on_step(self, trainer: Trainer, output: Output) -> None:
        """Called after each optimiser step, with the last batch's output."""

    def on_end(self, trainer: Trainer) -> None:
        """Called once, after the last step."""

    def state(self) -> Any:
        """JSON-ready content for the checkpoint."""
        return None

    def restore(self, state: Any) -> None:
        """Take back what :meth:`state` gave."""


class Diagnostics(Callback):
    """Records `gradlab.gradient.diagnostics.diagnose` every so many steps, without touching training.

    On the held-out sentences if there are some, otherwise on the embeddings of the batch just trained on, which
    cost no forward pass. Held-out batches are the same each time, with the same dropout masks, so that
    only the encoder differs between two records.
    """

    def __init__(self, every: int) -> None:
        """``seconds`` adds up what recording has cost so far."""
        self._every = every
        self.seconds = 0.0

    def on_start(self, trainer: Trainer) -> None:
        """Record the state before training, where there are held-out sentences."""
        if self._every and trainer.step == 0 and len(trainer.corpus.held_out):
            self._record(trainer, None)

    def on_step(self, trainer: Trainer, output: Output) -> None:
        """Record on schedule."""
        if self._every and (trainer.step % self._every == 0 or trainer.step == trainer.steps):
            self._record(trainer, output)

    def _record(self, trainer: Trainer, output: Output | None) -> None:
        if not trainer.processes.is_main:
            return
        began = time.perf_counter()
        config, rows = trainer.config, trainer.corpus.held_out
        if len(rows):
            size = min(config.analysis_batch, len(rows))
            batches = [
                rows[i * size : (i + 1) * size]
                for i in range(min(config.analysis_batches, len(rows) // size))
            ]
            found = [self._held_out(trainer, batch) for batch in batches]
        else:
            assert output is not None
            found = [_diagnose(trainer, output)]
        found = [one for one in found if one]
        if not found:
            return
        trainer.record(
            "diagnostics", {name: float(np.mean([one[name] for one in found])) for name in found[0]}
        )
        self.seconds += time.perf_counter() - began

    def _held_out(self, trainer: Trainer, rows: np.ndarray[Any, Any]) -> dict[str, float]:
        objective = trainer.objective
        with undisturbed(), torch.no_grad():
            seed_everything(trainer.config.seed)
            return _diagnose(trainer, objective.evaluate(objective.prepare(*trainer.corpus.take(rows))))


def _diagnose(trainer: Trainer, output: Output) -> dict[str, float]:
    """What the loss does to the embeddings, with the negatives that it saw; nothing while there are none."""
    if not output.has_negatives:
        return {}
    anchors, positives = output.anchors.detach().double(), output.positives.detach().double()
    extra = None if output.extra_negatives is None else output.extra_negatives.detach().double()
    found = diagnose(
        trainer.objective.loss,
        anchors,
        positives,
        extra,
        normalize=True,
        in_batch_negatives=output.in_batch_negatives,
    )
    if output.encoded is not None:
        rows = unit_rows(output.encoded.double())
        found |= {"encoder_cosine": mean_cosine(rows), "encoder_rank": effective_rank(rows)}
    return found


def mean_cosine(rows: Tensor) -> float:
    """Mean cosine of different unit rows (N, D): 1 where all are one point."""
    count = len(rows)
    return (float(rows.sum(0).square().sum()) - count) / (count * (count - 1))
