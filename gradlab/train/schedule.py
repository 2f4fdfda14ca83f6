"""Learning rate by step, and the optimiser."""

from __future__ import annotations

import math

import torch

from gradlab.train.config import OptimiserSettings
from gradlab.train.objective import Objective


def learning_rate(settings: OptimiserSettings, step: int, steps: int) -> float:
    """Learning rate of step ``step`` (from 0) of ``steps``: warm-up from 0, then the schedule's decay to 0.

    A function of the step alone, so that a resumed run needs no scheduler's memory.
    """
    if step < settings.warmup_steps:
        return settings.learning_rate * step / settings.warmup_steps
    done = (step - settings.warmup_steps) / max(1, steps - settings.warmup_steps)
    factor = {"linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2, "constant": 1.0}[
        settings.schedule
    ]
    return settings.learning_rate * factor


def build_optimiser(objective: Objective, settings: OptimiserSettings) -> torch.optim.AdamW:
    """AdamW in one fused kernel; biases and layer norms do not decay, as usual for BERT.

    Each group has a ``factor`` on the learning rate, that of the heads being ``settings.head_rate``.
    """
    heads = {
        id(one)
        for part in ("head", "projection", "predictor")
        for one in getattr(objective, part).parameters()
    }
    parameters = [one for one in objective.trained_parameters() if one.requires_grad]
    factors = [1.0] if settings.head_rate == 1 else [1.0, settings.head_rate]
    groups = []
    for place, factor in enumerate(factors):
        mine = [one for one in parameters if len(factors) == 1 or (id(one) in heads) == bool(place)]
        groups += [
            {
                "params": [p for p in mine if p.ndim > 1],
                "weight_decay": settings.weight_decay,
                "factor": factor,
            },
            {"params": [p for p in mine if p.ndim <= 1], "weight_decay": 0.0, "factor": factor},
        ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, fused=True)
