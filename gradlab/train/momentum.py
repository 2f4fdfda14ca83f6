"""Momentum branch: moving average of trained modules (MoCo; ESimCSE Eq. 6; MoCoSE Algorithm 1)."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from gradlab.errors import GradlabError
from gradlab.train.objective_parts import CountingComponent, Output
from gradlab.train.settings import ModelSettings

# Modules that can be averaged; modules that are not averaged are copied from the trained branch.
MODULES = ("embeddings", "encoder", "head", "projection")


class Momentum(CountingComponent):
    """Copies that follow trained modules: ``target ← η target + (1 - η) online`` after each step.

    No gradient reaches the averages. ``count`` is the number of updates.
    """

    def __init__(
        self, modules: Mapping[str, nn.Module], settings: ModelSettings, steps: int = 1
    ) -> None:
        """Copy ``modules``: an encoder under "encoder", others under names of :data:`MODULES`.

        Among averaged modules, "embeddings" is the encoder's embedding layer and "encoder" the rest
        of it. The schedule has ``steps`` steps.
        """
        super().__init__()
        self._settings, self._steps = settings, steps
        self.last_decay = math.nan  # η of the last update
        averaged = settings.momentum_modules.replace(",", " ").split()
        if unknown := sorted(set(averaged) - set(MODULES)):
            raise GradlabError(f"momentum_modules are of {', '.join(MODULES)}, not {unknown[0]!r}")
        self.copies = nn.ModuleDict({name: _copy(module) for name, module in modules.items()})
        self.copies.requires_grad_(False)
        # Pairs of a copy and its trained tensor, in lists: the latter are registered elsewhere.
        self._averaged: list[tuple[Tensor, Tensor]] = []
        self._shared: list[tuple[Tensor, Tensor]] = []
        for name, module in modules.items():
            layer = embedding_layer(module.model) if name == "encoder" else nn.Identity()
            embeddings = {id(parameter) for parameter in layer.parameters()}
            for pair in zip(self.copies[name].parameters(), module.parameters(), strict=True):
                module_name = "embeddings" if id(pair[1]) in embeddings else name
                (self._averaged if module_name in averaged else self._shared).append(pair)
            self._shared += zip(self.copies[name].buffers(), module.buffers(), strict=True)
        if settings.keys_gradient:
            shared = [target for target, _ in self._shared if isinstance(target, nn.Parameter)]
            if not shared:
                raise GradlabError("keys_gradient needs a module that is not in momentum_modules")
            nn.ParameterList(shared).requires_grad_()

    def train(self, mode: bool = True) -> Self:
        """Set training mode, without dropout if ``momentum_dropout`` is off."""
        super().train(mode)
        self.copies.train(mode and self._settings.momentum_dropout)
        return self

    @torch.no_grad()
    def after_step(self) -> None:
        """Update the averages, and copy the shared parameters, after an optimiser step."""
        start, end = self._settings.momentum, self._settings.momentum_end
        assert start is not None
        schedule = self._settings.momentum_schedule
        self.last_decay = decay(start, end, schedule, self.count, self._steps)
        if self._averaged:
            targets, online = zip(*self._averaged, strict=True)
            torch._foreach_lerp_(targets, online, 1 - self.last_decay)
        if self._shared:
            targets, online = zip(*self._shared, strict=True)
            torch._foreach_copy_(targets, online)
        self.count += 1

    def before_step(self) -> None:
        """Add the gradients of the copies of shared parameters to those of the trained ones."""
        for target, online in self._shared:
            if target.grad is not None:
                online.grad = target.grad if online.grad is None else online.grad + target.grad
                target.grad = None

    def statistics(self, output: Output) -> dict[str, float]:
        return {"momentum_decay": self.last_decay}


def decay(start: float, end: float, schedule: str, step: int, steps: int) -> float:
    """Return the weight ``η`` of the old average in update ``step`` (from 0) of ``steps``.

    The first update has exactly ``start`` and the last exactly ``end``; between them, the weight
    follows half a cosine or a line.
    """
    if schedule == "constant" or step <= 0:
        return start
    if step >= steps - 1:
        return end
    progress = step / (steps - 1)
    if schedule == "cosine":
        progress = (1 - math.cos(math.pi * progress)) / 2
    return start + (end - start) * progress


def embedding_layer(model: Any) -> nn.Module:
    """Return the layer from token ids to the first transformer layer's input, or else the table."""
    layer = getattr(model, "embeddings", None)
    if isinstance(layer, nn.Module):
        return layer
    table: nn.Module = model.get_input_embeddings()
    return table


def _copy(module: nn.Module) -> nn.Module:
    tokenizer = getattr(module, "tokenizer", None)  # which both branches share
    return copy.deepcopy(module, {id(tokenizer): tokenizer})
