"""What happens during a run beside training, each on its own schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gradlab.gradient.diagnostics import batch_statistics
from gradlab.monitor.measurement import Statistics
from gradlab.seeds import seed_everything, undisturbed

if TYPE_CHECKING:
    from gradlab.train.outputs import Output
    from gradlab.train.state import TrainerState


class Callback:
    """Base of what is called during a run; override what you need.

    Callbacks run in every process. What they must remember over a crash goes through :meth:`state`.
    """

    def on_start(self, trainer: TrainerState) -> None:
        """Called once, before the first step of this process."""

    def on_step(self, trainer: TrainerState, output: Output) -> None:
        """Called after each optimiser step, with the last batch's output."""

    def on_end(self, trainer: TrainerState) -> None:
        """Called once, after the last step."""

    def state(self) -> Any:
        """JSON-ready content for the checkpoint."""
        return None

    def restore(self, state: Any) -> None:
        """Take back what :meth:`state` gave."""


class Diagnostics(Callback):
    """Measures every so many steps what the loss does to the embeddings, without touching training.

    On the held-out sentences if there are some, otherwise on the embeddings of the batch just trained on, which
    cost no forward pass.
    """

    def __init__(self, every: int, statistics: Statistics = batch_statistics) -> None:
        """Measure every so many steps (0: never), see `measure`."""
        self._every, self._statistics = every, statistics

    def on_start(self, trainer: TrainerState) -> None:
        """Record the state before training, where there are held-out sentences."""
        if self._every and trainer.step == 0 and len(trainer.corpus.held_out):
            measure(trainer, held_out(trainer, trainer.config.analysis_batches), self._statistics)

    def on_step(self, trainer: TrainerState, output: Output) -> None:
        """Record on schedule."""
        if trainer.due(self._every):
            aside = len(trainer.corpus.held_out) > 0
            outputs = held_out(trainer, trainer.config.analysis_batches) if aside else [output]
            measure(trainer, outputs, self._statistics)


def held_out(trainer: TrainerState, batches: int) -> Iterator[Output]:
    """Batches of held-out sentences as the loss sees them, under dropout.

    Sentences and dropout masks are the same whenever it is called in runs of one seed, so that only the encoder differs.

    Args:
        trainer: the run.
        batches: how many; fewer where fewer sentences are held out.
    """
    rows, objective, seed = trainer.corpus.held_out, trainer.objective, trainer.config.seed
    size = min(trainer.config.analysis_batch, len(rows))
    # Held-out rows are in the order of the file; a batch should not be one article.
    order = np.random.default_rng([seed, len(rows)]).permutation(rows)
    for batch in range(min(batches, len(rows) // size)):
        with undisturbed(), torch.no_grad():
            seed_everything(seed, batch)
            chosen = order[batch * size : (batch + 1) * size]
            sequences = trainer.corpus.take(chosen)
            output = objective.evaluate(objective.prepare(*sequences, sentences=chosen))
        yield output


def measure(
    trainer: TrainerState, outputs: Iterable[Output], statistics: Statistics = batch_statistics
) -> None:
    """Record what the loss does to the embeddings of these batches, with the negatives that it saw.

    Batches without negatives do not count: their loss is that of a queue that is empty yet.

    Args:
        trainer: the run.
        outputs: of batches of one size.
        statistics: what to measure, see `gradlab.gradient.diagnostics.batch_statistics`.
    """
    if not trainer.processes.is_main:
        return
    recorder, probe = trainer.recorder, trainer.probe
    note = probe.note
    with recorder.timed():
        snapshots = (output.snapshot() for output in outputs if output.has_negatives)
        recorder.measure(trainer.step, probe, snapshots, statistics=statistics)
    if probe.note != note:
        trainer.say(probe.note)
    trainer.judge()
