"""`learnable`: a loss with trainable hyper-parameters."""

from __future__ import annotations

from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss
from gradlab.settings.module import LossModule


def learnable(loss: str | Loss, *, share: float = 1.0) -> LearnableLoss:
    """Return a loss as a module whose parameters are the hyper-parameters that it learns.

    The temperature of a softmax is always learned here. Elsewhere, as in ``gradlab train --loss``,
    it is learned only with ``infonce(learnable=true)``. With ``clamp=0.01`` it does not fall below
    0.01, as in open_clip, and can rise again. Other losses list what they learn in
    `gradlab.Loss.learned`. In a combinator, every loss has its own parameters:
    ``symmetric(siglip(bias=-2), reverse=siglip(bias=3))`` trains two temperatures and two biases,
    ``symmetric(siglip)`` one of each for both directions.

    Args:
        loss: a loss or combinator with learned hyper-parameters, or its name, such as ``"siglip"``.
        share: factor on parameters' gradients; 1/P if P processes sum gradients of the same loss.

    Raises:
        GradlabError: the loss is unknown, learns nothing, or learns a setting that cannot be
            trained (see `gradlab.settings.module.learned_settings`).

    Example:
        >>> import torch
        >>> criterion = learnable("siglip")
        >>> optimiser = torch.optim.AdamW(criterion.parameters(), lr=0.01)
        >>> sorted(name for name, _ in criterion.named_parameters())
        ['values.bias', 'values.log_temperature']
    """
    return LearnableLoss(loss, share=share)


class LearnableLoss(LossModule):
    """Module of a loss with learned hyper-parameters; see `learnable`."""

    def __init__(self, loss: str | Loss, *, share: float = 1.0) -> None:
        super().__init__(get_loss(loss), learnable=True, share=share)

    @property
    def start(self) -> Loss:
        """The loss with the initial values of its learned hyper-parameters."""
        loss: Loss = self.loss
        return loss
