"""Learning rate by step, and the optimiser."""

from __future__ import annotations

import math

import torch
from torch import nn

from gradlab.train.config import TrainConfig


def learning_rate(config: TrainConfig, step: int, steps: int) -> float:
    """Learning rate of step ``step`` (from 0) of ``steps``: warm-up from 0, then the schedule's decay to 0.

    A function of the step alone, so that a resumed run needs no scheduler's memory.
    """
    if step < config.warmup_steps:
        return config.learning_rate * step / config.warmup_steps
    done = (step - config.warmup_steps) / max(1, steps - config.warmup_steps)
    factor = {"linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2, "constant": 1.0}[
        config.schedule
    ]
    return config.learning_rate * factor


def build_optimiser(module: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW in one fused kernel; biases and layer norms do not decay, as usual for BERT."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, fused=True)
