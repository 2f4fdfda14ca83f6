"""Sound loops of one's own: nested dimensions, resumption, thawing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.loop_helpers import (
    Rows,
    adamw,
    climbs,
    embed,
    encoder_of,
    infonce,
    pretrain,
    stepped,
)
from tests.judgement.first.texts_of_every_day import RECIPES
from tests.judgement.first.texts_of_trades import LABORATORY
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank


@sound("nested dimensions, taken up again from a file")
def laboratory_nested_and_resumed(stage: Stage) -> None:
    """Matryoshka by hand at 8, 16 and 48 dimensions; halfway, weights and moments are reloaded."""
    model = encoder_of(stage, LABORATORY)
    rows, state = Rows(LABORATORY.table(500), 32), {"optimizer": adamw(model)}

    def nested(first: Tensor, second: Tensor) -> Tensor:
        return sum((infonce(first[:, :size], second[:, :size]) for size in (8, 16, 48)),
                   start=torch.zeros(())) / 3  # fmt: skip

    def update(criterion: Any, step: int) -> None:
        if step == 60:
            saved = {"model": model.state_dict(), "optimizer": state["optimizer"].state_dict()}
            torch.save(saved, stage.folder / "halfway.pt")
            loaded = torch.load(stage.folder / "halfway.pt")
            model.load_state_dict(loaded["model"])
            state["optimizer"] = adamw(model)
            state["optimizer"].load_state_dict(loaded["optimizer"])
        stepped(state["optimizer"], criterion(*(embed(model, column) for column in rows())))

    def short(encoder: Any) -> float:
        columns = LABORATORY.table(60, held=True, seed=5).values()
        return reciprocal_rank(*(encoder.encode(texts)[:, :16] for texts in columns))

    climbs(stage, model, nested, update, short, steps=120)


@sound("half precision, slower lower layers, gradual thawing")
def recipes_thawed_by_layers(stage: Stage) -> None:
    """Words and lower layer rest for 20 steps, then learn at lower rates; bfloat16 autocast."""
    model = pretrain(encoder_of(stage, RECIPES), RECIPES.table(100, seed=3), steps=12, rate=1e-3)
    network = model[0].auto_model
    lower = [network.embeddings, network.encoder.layer[0]]
    optimizer = torch.optim.AdamW([
        {"params": network.embeddings.parameters(), "lr": 5e-4},
        {"params": network.encoder.layer[0].parameters(), "lr": 8e-4},
        {"params": network.encoder.layer[1].parameters(), "lr": 1.2e-3},
    ])  # fmt: skip
    rows = Rows(RECIPES.table(480), 24)

    def update(criterion: Any, step: int) -> None:
        for module in lower:
            module.requires_grad_(step >= 20)
        with torch.autocast("cpu", torch.bfloat16):
            first, second = (embed(model, column) for column in rows())
        stepped(optimizer, criterion(first.float(), second.float()))

    climbs(stage, model, infonce, update, RECIPES.sought, steps=110)
