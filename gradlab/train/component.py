"""What an objective is composed of beside encoder and loss: each part with the moments at which it acts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from gradlab.train.outputs import Output


class Component(nn.Module):
    """Base of the parts of an objective; override the moments that matter.

    A component that an objective holds as an attribute is called by it, and its parameters, buffers
    and extra state are in the checkpoints.
    """

    def after_batch(self, output: Output) -> None:
        """Called after the backward pass of each batch, of which a step may have several."""

    def before_step(self) -> None:
        """Called when the gradients of a step are complete."""

    def after_step(self) -> None:
        """Called after each optimiser step, without gradient."""

    def statistics(self, output: Output) -> dict[str, float]:
        """Numbers to record of the last step, from its last batch."""
        return {}
