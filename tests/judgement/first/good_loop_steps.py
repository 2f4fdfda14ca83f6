"""Loops of one's own whose steps are made in other ways: caches, precision, averages, rates."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import (
    CLINIC,
    KITCHEN,
    PAPERS,
    SCENES,
)
from tests.judgement.first.good_fields import LOGS, SONGS, minutes
from tests.judgement.first.good_loops import adamw, stepping
from tests.judgement.first.good_materials import looped, sought, started, two
from tests.judgement.first.turns import Rows, cosines, counted, embed, infonce
from tests.judgement.stage import Stage


@sound("loop in autocast to bfloat16 with clipping")
def autocast_loop_with_clipping(stage: Stage) -> None:
    table = two(PAPERS.table(300))
    model = encoder(stage, words_of([table]), width=48, spread=0.05)
    optimizer, rows = adamw(model), Rows(table, 24)

    def update(criterion: Any, step: int) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            first, second = (embed(model, column) for column in rows())
        optimizer.zero_grad(set_to_none=True)
        criterion(first.float(), second.float()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    looped(stage, model, infonce, update, PAPERS.sought, steps=40)


@sound("loop with a gradient cache of one's own")
def gradient_cache_by_hand(stage: Stage) -> None:
    """Embeddings of the batch without a graph, the loss's gradient by them, then chunk by chunk."""
    table = two(LOGS.table(320))
    model = encoder(stage, words_of([table]), width=48, spread=0.05, dropout=0.0)
    optimizer, rows = adamw(model, 3e-3), Rows(table, 64)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            leaves = [embed(model, column).requires_grad_() for column in columns]
        optimizer.zero_grad()
        criterion(*leaves).backward()
        for column, leaf in zip(columns, leaves, strict=True):
            for start in range(0, 64, 16):
                embed(model, column[start : start + 16]).backward(leaf.grad[start : start + 16])
        optimizer.step()

    looped(stage, model, infonce, update, LOGS.sought, steps=30)


@sound("loop whose lower layers are released one by one")
def layers_released_one_by_one(stage: Stage) -> None:
    """As ULMFiT: the last layer first, one more every twelve steps."""
    table = two(CLINIC.table(210))
    model = started(stage, table, CLINIC, steps=5, layers=3)
    inner = model[0].model
    layers = [
        inner.encoder.layer[2],
        inner.encoder.layer[1],
        inner.encoder.layer[0],
        inner.embeddings,
    ]
    plain = stepping(model, table, adamw(model, 2e-3), size=24)
    for layer in layers[1:]:
        layer.requires_grad_(False)

    def update(criterion: Any, step: int) -> None:
        if step % 12 == 0 and step // 12 < len(layers):
            layers[step // 12].requires_grad_(True)
        plain(criterion, step)

    looped(stage, model, infonce, update, CLINIC.sought)


@sound("loop with two batches an update and a rate that waits for a plateau")
def plateau_after_epochs(stage: Stage) -> None:
    """The rate halves when the mean loss of an epoch has not fallen for two epochs."""
    table = minutes(256)
    model = encoder(stage, words_of([table]), width=40, spread=0.05)
    optimizer, rows, losses = adamw(model, 3e-3), Rows(table, 16), list[float]()
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=2)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(2):
            mean = criterion(*(embed(model, column) for column in rows())) / 2
            mean.backward()
            losses.append(2 * mean.item())
        optimizer.step()
        if (step + 1) % 8 == 0:
            schedule.step(sum(losses) / len(losses))
            losses.clear()

    looped(stage, model, infonce, update, sought(minutes(60, seed=11)), steps=40)


@sound("loop with disturbed word embeddings")
def disturbed_word_embeddings(stage: Stage) -> None:
    """As FGM: a second backward pass with word embeddings moved along their gradient."""
    table = two(SONGS.table(300))
    model = encoder(stage, words_of([table]), width=32, spread=0.05)
    optimizer, rows = adamw(model), Rows(table, 16)
    words = model[0].model.embeddings.word_embeddings.weight

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        columns = rows()
        optimizer.zero_grad()
        criterion(*(embed(model, column) for column in columns)).backward()
        change = 0.02 * words.grad / (words.grad.norm() + 1e-12)
        with torch.no_grad():
            words.add_(change)
        criterion(*(embed(model, column) for column in columns)).backward()
        with torch.no_grad():
            words.sub_(change)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    looped(stage, model, infonce, update, SONGS.sought, steps=45)


@sound("loop with a mean of late weights put into use")
def mean_of_late_weights(stage: Stage) -> None:
    """As SWA: the mean of the weights of the last fifteen steps is what is used in the end."""
    table = two(KITCHEN.table(320))
    model = encoder(stage, words_of([table]), width=48, spread=0.05)
    average = torch.optim.swa_utils.AveragedModel(model)
    plain = stepping(model, table, adamw(model), size=24)

    def update(criterion: Any, step: int) -> None:
        plain(criterion, step)
        if step >= 35:
            average.update_parameters(model)
        if step == 49:
            model.load_state_dict(average.module.state_dict())

    looped(stage, model, infonce, update, KITCHEN.sought)


@sound("loop with a temperature that falls, on scenes")
def temperature_that_halves(stage: Stage) -> None:
    table, settings = two(SCENES.table(190)), {"temperature": 0.1}
    model = encoder(stage, words_of([table]), width=40, spread=0.05)
    plain = stepping(model, table, adamw(model), size=32)

    def loss(first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) / settings["temperature"]
        return F.cross_entropy(logits, torch.arange(len(first)))

    def update(criterion: Any, step: int) -> None:
        settings["temperature"] = 0.1 - 0.05 * step / 50
        plain(criterion, step)

    looped(stage, model, loss, update, SCENES.sought)
