"""What happens during a run beside training, each on its own schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from gradlab.losses.components import Components

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

    def statistics(self, anchors: Tensor, positives: Tensor, gradient: Components | None) -> dict[str, float]:
        """Numbers to record whenever the run measures what its loss does to the embeddings, beside its own.

        Args:
            anchors, positives: (N, D) unit rows in float64.
            gradient: the loss's components on them, or None where they are not known.
        """
        return {}

    def on_end(self, trainer: TrainerState) -> None:
        """Called once, after the last step."""

    def state(self) -> Any:
        """JSON-ready content for the checkpoint."""
        return None

    def restore(self, state: Any) -> None:
        """Take back what :meth:`state` gave."""
