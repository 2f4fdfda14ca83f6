"""What the held-out loops and trainers share: encoders, loops that must climb, trainers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.first.bodies import encoder
from tests.judgement.first.loop_materials import looped
from tests.judgement.first.slots_of_texts import Kind
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped
from tests.judgement.stage import Stage
from tests.judgement.truth import keep, truth


def encoder_of(stage: Stage, texts: Kind, *behind: Any, extras: str = "", **options: Any) -> Any:
    """A fresh encoder with the words of a kind of texts."""
    return encoder(stage, texts.all_texts(extras), *behind, **options)


def adamw(*modules: Any, rate: float = 2e-3, decay: float = 0.01) -> torch.optim.Optimizer:
    """AdamW over the trainable weights of modules."""
    weights = [row for module in modules for row in module.parameters() if row.requires_grad]
    return torch.optim.AdamW(weights, lr=rate, weight_decay=decay)


def climbs(
    stage: Stage,
    model: Any,
    loss: Callable[..., Tensor],
    update: Callable[[Any, int], None],
    score: Callable[[Any], float],
    *,
    steps: int = 80,
    least: float = 0.1,
    modules: tuple[Any, ...] = (),
) -> None:
    """Play a loop whose ``update(criterion, step)`` does a step; its score must rise."""

    def trained(criterion: Any, step: int) -> None:
        for module in (model, *modules):
            module.train()
        update(criterion, step)

    def of_evaluation(trained_model: Any) -> float:
        for module in (trained_model, *modules):
            module.eval()
        return score(trained_model)

    before, after = looped(stage, model, loss, trained, steps=steps, score=of_evaluation)
    keep(stage, before=before, after=after)
    assert after >= before + least, truth(stage)


def pretrain(
    model: Any, table: Mapping[str, Any], *, steps: int = 60, rate: float = 2e-3, size: int = 24
) -> Any:
    """Train an encoder by pairs beforehand, as the model from which a tuning starts."""
    rows, optimizer = Rows(dict(list(table.items())[:2]), size, seed=9), adamw(model, rate=rate)
    model.train()
    for _ in range(steps):
        stepped(optimizer, infonce(*(embed(model, column) for column in rows())))
    return model.eval()


def unit(rows: Tensor) -> Tensor:
    return F.normalize(rows, dim=-1)


def own_rows(count: int) -> Tensor:
    return torch.arange(count)


__all__ = ["Rows", "adamw", "climbs", "cosines", "embed", "encoder_of", "infonce", "own_rows",
           "pretrain", "stepped", "unit"]  # fmt: skip
