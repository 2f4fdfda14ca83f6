"""Measures whether the running statistics of a batch norm fit what is trained, for JSON.

The function returns the arguments of that of the same name in `gradlab.diagnosis.encoder_verdicts`,
or None where there is nothing to measure.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import nn

from gradlab.diagnosis.observation import Observation
from gradlab.seeds import random_state_kept


def running(observation: Observation) -> dict[str, Any] | None:
    """Return how much of its running statistics a batch norm keeps until the end of the run.

    ``cosine`` is the lowest mean cosine of a batch's embeddings by the statistics of the batch and
    by the running ones, without dropout.
    """
    model, plan = observation.trainer.model, observation.trials.get("schedule")
    fixed = _fixed(model)
    norms = [
        (name, module) for name, module in getattr(model, "named_modules", list)()
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is not None
        and module.momentum is not None and name not in fixed
    ]  # fmt: skip
    columns = [column for batch in observation.batches for column in batch.columns]
    if not norms or not plan or not columns:
        return None
    name, slowest = min(norms, key=lambda entry: float(entry[1].momentum or 0))
    momentum = float(slowest.momentum or 0)
    passes = int(plan["steps"]) * len(observation.batches[0].columns)
    modes = [(module, module.training) for module in model.modules()]
    momenta = [(module, module.momentum) for _, module in norms]
    cosines = []
    with contextlib.suppress(Exception), random_state_kept(), torch.no_grad():
        try:
            model.eval()
            for column in columns:
                by_running = model(dict(column))["sentence_embedding"].double()
                for _, module in norms:
                    module.training, module.momentum = True, 0.0  # which updates nothing
                by_batch = model(dict(column))["sentence_embedding"].double()
                for _, module in norms:
                    module.training = False
                cosines.append(nn.functional.cosine_similarity(by_running, by_batch).mean())
        finally:
            for module, mode in modes:
                module.training = mode
            for module, configured in momenta:
                module.momentum = configured
    if not cosines:
        return None
    return {
        "name": name,
        "momentum": momentum,
        "kept": (1 - momentum) ** passes,
        "cosine": float(min(cosines)),
    }


def _fixed(model: Any) -> set[str]:
    """Return the names of modules that stay in evaluation mode while a model trains."""
    if not isinstance(model, nn.Module):
        return set()
    modes = [(module, module.training) for module in model.modules()]
    model.train()
    names = {name for name, module in model.named_modules() if not module.training}
    for module, mode in modes:
        module.training = mode
    return names


OF_TRAINER = (running,)
