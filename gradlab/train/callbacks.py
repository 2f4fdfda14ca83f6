"""What happens during a run beside training, each on its own schedule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gradlab.gradient.diagnostics import batch_statistics
from gradlab.monitor.probe import Statistics

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
    cost no forward pass; with the negatives that the loss saw.
    """

    def __init__(self, every: int, statistics: Statistics = batch_statistics) -> None:
        """Measure every so many steps (0: never); what, see `gradlab.gradient.diagnostics.batch_statistics`."""
        self._every, self._statistics = every, statistics

    def on_start(self, trainer: TrainerState) -> None:
        """Record the state before training, where there are held-out sentences."""
        if self._every and trainer.step == 0:
            self._measure(trainer, [])

    def on_step(self, trainer: TrainerState, output: Output) -> None:
        """Record on schedule."""
        if trainer.due(self._every):
            self._measure(trainer, [output])

    def _measure(self, trainer: TrainerState, batch: Iterable[Output]) -> None:
        """Batches without negatives do not count: their loss is that of a queue that is empty yet."""
        if not trainer.processes.is_main:
            return
        probe, told = trainer.probe, trainer.probe.note
        aside = len(trainer.corpus.held_out) > 0
        outputs = trainer.held_out(trainer.config.analysis_batches) if aside else batch
        snapshots = (output.snapshot() for output in outputs if output.has_negatives)
        trainer.recorder.measure(trainer.step, probe, snapshots, statistics=self._statistics)
        if probe.note != told:
            trainer.say(probe.note)
        trainer.judge()
