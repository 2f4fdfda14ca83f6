"""`learnable`: a loss whose hyper-parameters are trained."""

from __future__ import annotations

import dataclasses
from typing import Any

from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss
from gradlab.losses.softmax_family import SoftmaxTemperature
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
        super().__init__(_learning(get_loss(loss)), share=share)
        if not list(self.parameters()):
            raise GradlabError(f"{self.loss.name} learns no hyper-parameter; use the loss as it is")

    @property
    def start(self) -> Loss:
        """The loss with the values that training starts from."""
        found: Loss = self.loss
        return found


def _learning(loss: Any) -> Any:
    """The same loss, in which all temperatures of softmaxes are learned."""
    if isinstance(loss, tuple):
        return tuple(map(_learning, loss))
    if not isinstance(loss, Loss) or not loss.closed_form:
        return loss
    changes = {
        field.name: _learning(getattr(loss, field.name)) for field in dataclasses.fields(loss) if field.init
    }
    changes = {name: value for name, value in changes.items() if value is not getattr(loss, name)}
    if isinstance(loss, SoftmaxTemperature) and not loss.learned:
        changes["learnable"] = True
    return dataclasses.replace(loss, **changes) if changes else loss
