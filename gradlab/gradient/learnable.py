"""`learnable`: a loss whose hyper-parameters are trained."""

from __future__ import annotations

from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss
from gradlab.settings.module import LossModule


def learnable(loss: str | Loss, *, share: float = 1.0) -> LearnableLoss:
    """A loss as a module whose parameters are the hyper-parameters that it learns.

    The temperature of a softmax is always learned here; elsewhere, as in ``gradlab train --loss``, it is where the loss says
    ``infonce(learnable=true)``. With ``clamp=0.01`` it does not fall below 0.01, as in open_clip, and is free to rise again.
    Other losses name what they learn in `gradlab.Loss.learned`. In a combinator every loss has its own:
    ``symmetric(siglip(bias=-2), reverse=siglip(bias=3))`` trains two temperatures and two biases, and
    ``symmetric(siglip)`` one of each, since both directions share the loss.

    Args:
        loss: a loss that learns some, such as ``"infonce"`` or ``"siglip"``, a combinator of one, or their names.
        share: factor on the parameters' gradient; 1/P if P processes compute the same loss and add up
            their gradients.

    Raises:
        GradlabError: an unknown loss, one that learns nothing, or one that learns what cannot be trained
            (see `gradlab.settings.module.learned_settings`).

    Example:
        >>> import torch
        >>> criterion = learnable("siglip")
        >>> optimiser = torch.optim.AdamW(criterion.parameters(), lr=0.01)
        >>> sorted(name for name, _ in criterion.named_parameters())
        ['values.bias', 'values.log_temperature']
    """
    return LearnableLoss(loss, share=share)


class LearnableLoss(LossModule):
    """A `LossModule` of a loss that learns something; see `learnable`."""

    def __init__(self, loss: str | Loss, *, share: float = 1.0) -> None:
        super().__init__(get_loss(loss), learnable=True, share=share)

    @property
    def start(self) -> Loss:
        """The loss with the values that training starts from."""
        found: Loss = self.loss
        return found
