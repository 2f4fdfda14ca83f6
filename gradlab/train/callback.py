"""`Callback`: where a user's code acts during a run."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gradlab.losses.components import Components
from gradlab.train.outputs import Output


class Callback:
    """Base class of callbacks of a run; override the methods that you need.

    Callbacks run in every process. They receive the run as a `gradlab.train.trainer.Trainer`.
    Content that must survive a crash goes through :meth:`state`.
    """

    def on_start(self, trainer: Any) -> None:
        """Called once, before the first step of this process."""

    def on_step(self, trainer: Any, output: Output) -> None:
        """Called after each optimiser step, with the output of the last batch."""

    def statistics(
        self, anchors: Tensor, positives: Tensor, gradient: Components | None
    ) -> dict[str, float]:
        """Return numbers to record when the run measures its loss on embeddings.

        ``anchors`` and ``positives`` are (N, D) unit rows in float64. ``gradient`` holds the
        components of the loss on them, or is None if they are unknown.
        """
        return {}

    def on_end(self, trainer: Any) -> None:
        """Called once, after the last step."""

    def state(self) -> Any:
        """Return JSON-ready content for the checkpoint."""
        return None

    def restore(self, state: Any) -> None:
        """Restore what :meth:`state` returned."""
