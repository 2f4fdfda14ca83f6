"""Learning rate by step, and the optimiser."""

from __future__ import annotations

import math

import torch
from torch import nn

from gradlab.train.config import OptimiserSettings
from gradlab.train.objective import Objective


def learning_rate(settings: OptimiserSettings, step: int, steps: int) -> float:
    """Learning rate of step ``step`` (from 0) of ``steps``: warm-up from 0, then the schedule's decay to 0.

    A function of the step alone, so that a resumed run needs no scheduler's memory.
    """
    if step < settings.warmup_steps:
        return settings.learning_rate * step / settings.warmup_steps
    done = (step - settings.warmup_steps) / max(1, steps - settings.warmup_steps)
    factors = {"linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2, "constant": 1.0}
    return settings.learning_rate * factors[settings.schedule]


def build_optimiser(objective: Objective, settings: OptimiserSettings) -> torch.optim.AdamW:
    """AdamW in one fused kernel; biases and layer norms do not decay, as usual for BERT.

    Each group has a ``factor`` on the learning rate, that of the heads being ``settings.head_rate``.
    """
    heads = nn.ModuleList([objective.head, objective.projection, objective.predictor])
    of_heads = {id(one) for one in heads.parameters()}
    parameters = [one for one in objective.trained_parameters() if one.requires_grad]
    parts = [(1.0, parameters)]
    if settings.head_rate != 1:
        others = [one for one in parameters if id(one) not in of_heads]
        parts = [(1.0, others), (settings.head_rate, [p for p in parameters if id(p) in of_heads])]
    groups = []
    for factor, mine in parts:
        matrices, vectors = [p for p in mine if p.ndim > 1], [p for p in mine if p.ndim <= 1]
        groups.append({"params": matrices, "weight_decay": settings.weight_decay, "factor": factor})
        groups.append({"params": vectors, "weight_decay": 0.0, "factor": factor})
    return torch.optim.AdamW(groups, lr=settings.learning_rate, fused=True)
