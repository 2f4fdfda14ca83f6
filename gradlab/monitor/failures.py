"""Warnings of known failures, while a run goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlab.monitor.findings import findings
from gradlab.train.callbacks import Callback

if TYPE_CHECKING:
    from gradlab.train.loop import Trainer
    from gradlab.train.outputs import Output


class FailureWatch(Callback):
    """Warns once of each known failure that a run shows, as its report tells them: see `gradlab.monitor.findings`.

    Attributes:
        told: the step at which each was seen, by name.
    """

    def __init__(self) -> None:
        self.told: dict[str, int] = {}

    def on_step(self, trainer: Trainer, output: Output) -> None:
        """Look at what has been recorded so far, after each record of the diagnostics."""
        every = trainer.config.diagnostics_every
        if every and trainer.step % every == 0:
            self._look(trainer)

    def on_end(self, trainer: Trainer) -> None:
        """Look once more: the last evaluation comes after the last step."""
        self._look(trainer)

    def _look(self, trainer: Trainer) -> None:
        for finding in findings(trainer.history, trainer.config):
            if finding.name not in self.told:
                self.told[finding.name] = finding.step
                trainer.say(f"Warning, step {finding.step}: {finding.headline} {finding.advice}")
