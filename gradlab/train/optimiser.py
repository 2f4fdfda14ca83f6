"""How fast does each parameter learn in each step?"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from gradlab.train.objective import Objective
from gradlab.train.settings import OptimiserSettings


def learning_rates(settings: OptimiserSettings, steps: int) -> list[float]:
    """Return the learning rate of each step: warm-up from 0, then a schedule.

    It depends on the step only, so that a resumed run needs no state of a scheduler.
    """
    peak, warmup = settings.learning_rate, settings.warmup_steps
    factor: Callable[[float], float] = {
        "linear": lambda progress: 1 - progress,
        "cosine": lambda progress: (1 + math.cos(math.pi * progress)) / 2,
        "constant": lambda progress: 1.0,
    }[settings.schedule]
    length = max(1, steps - warmup)
    rising = [peak * step / warmup for step in range(warmup)]
    return rising + [peak * factor(step / length) for step in range(steps - warmup)]


def build_optimiser(objective: Objective, settings: OptimiserSettings) -> torch.optim.AdamW:
    """Return fused AdamW without weight decay of biases and layer norms, as usual for BERT.

    Each group has a ``factor`` on the learning rate: ``settings.head_rate`` for heads, else 1.
    """
    heads = nn.ModuleList([objective.head, objective.projection, objective.predictor])
    of_heads = {id(parameter) for parameter in heads.parameters()}
    groups: dict[tuple[float, bool], dict[str, Any]] = {}
    for parameter in objective.trained_parameters():
        if parameter.requires_grad:
            factor = settings.head_rate if id(parameter) in of_heads else 1.0
            matrix = parameter.ndim > 1
            decay = settings.weight_decay if matrix else 0.0
            group = {"params": [], "weight_decay": decay, "factor": factor}
            groups.setdefault((factor, matrix), group)["params"].append(parameter)
    return torch.optim.AdamW(groups.values(), lr=settings.learning_rate, fused=True)
