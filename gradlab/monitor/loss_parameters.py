"""`LossParameters`: the parameters of a loss itself, such as a temperature or a classifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from gradlab.settings.module import learned_numbers


class LossParameters:
    """Reads the parameters of a loss that is a module, without those of the models within it."""

    def __init__(self, loss: nn.Module, encoders: Callable[[], Sequence[nn.Module]]) -> None:
        """Take a loss; ``encoders`` returns modules within it whose parameters are not its own."""
        self._loss, self._encoders = loss, encoders

    def named(self) -> list[tuple[str, nn.Parameter]]:
        """Return the parameters with their names."""
        # Neither the trained model nor a guide is part of the loss.
        within_it = list(self._loss.modules())[1:]
        models = [module for module in within_it if callable(getattr(module, "encode", None))]
        within = {id(p) for module in [*self._encoders(), *models] for p in module.parameters()}
        return [(n, p) for n, p in self._loss.named_parameters() if id(p) not in within]

    def parameters(self) -> list[nn.Parameter]:
        return [parameter for _, parameter in self.named()]

    def numbers(self, value: Tensor | float | None) -> dict[str, float]:
        """Return what the loss has learned, and gradients of its ``value``, as numbers by name."""
        own = self.named()
        if not own:
            return {}
        trained = [p for _, p in own if p.requires_grad]
        if not (trained and isinstance(value, Tensor) and value.requires_grad):
            return learned_numbers(own, ())
        # Walks back from the value to these parameters only, and adds nothing to any .grad.
        slopes = torch.autograd.grad(value.mean(), trained, retain_graph=True, allow_unused=True)
        by_parameter = dict(zip(map(id, trained), slopes, strict=True))
        return learned_numbers(own, [by_parameter.get(id(p)) for _, p in own])
