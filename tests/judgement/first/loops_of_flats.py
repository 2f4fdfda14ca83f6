"""Sound loops of one's own over pairs: optimisers, schedules, caches, towers and negatives."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first import fields_of_flats_and_threads as fields
from tests.judgement.first.fields_of_flats_and_threads import held_out, of, two, with_negatives
from tests.judgement.first.turns import Rows, cosines, counted, embed, infonce, stepped, turn
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank


def adam(*modules: nn.Module, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW([row for module in modules for row in module.parameters()], lr=rate)


@sound("gradients of embeddings cached over small chunks")
def cached_gradients_of_long_adverts(stage: Stage) -> None:
    """GradCache: embeddings without a graph, their gradient, then chunks again with a graph."""
    field = fields.FLATS
    model = of(stage, field, dropout=0.0)
    rows, optimizer = Rows(two(field.table(320)), 48), adam(model)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            caches = [embed(model, column) for column in columns]
        leaves = [cache.requires_grad_() for cache in caches]
        criterion(*leaves).backward()
        optimizer.zero_grad()
        for column, leaf in zip(columns, leaves, strict=True):
            for start in range(0, len(column), 16):
                chunk = slice(start, start + 16)
                (embed(model, column[chunk]) * leaf.grad[chunk]).sum().backward()
        optimizer.step()

    turn(stage, model, infonce, update, held_out(field), steps=30)


class Warm(nn.Module):
    """InfoNCE in both directions with a temperature that is learned within limits."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(10.0).log())

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) * self.scale.clamp(max=4.6).exp()
        labels = torch.arange(len(first))
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2


@sound("learned temperature, not decayed")
def learned_temperature_over_synthesis_schemes(stage: Stage) -> None:
    field = fields.CHEMISTRY
    model, loss = of(stage, field), Warm()
    optimizer = torch.optim.AdamW(
        [
            {"params": model.parameters(), "weight_decay": 0.01},
            {"params": loss.parameters(), "weight_decay": 0.0},
        ],
        lr=2e-3,
    )
    rows = Rows(two(field.table(320)), 32)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, loss, update, held_out(field))


@sound("an encoder for either language")
def towers_for_japanese_and_english(stage: Stage) -> None:
    field = fields.JAPANESE
    towers = [of(stage, field, name=f"tower{seed}", seed=seed) for seed in (3, 4)]
    rows, optimizer = Rows(two(field.table(320)), 32), adam(*towers)
    table = two(field.table(60, seed=11))

    def update(criterion: Any, step: int) -> None:
        for tower in towers:
            tower.train()
        columns = zip(towers, rows(), strict=True)
        stepped(optimizer, criterion(*(embed(tower, column) for tower, column in columns)))

    def score(model: Any) -> float:
        return reciprocal_rank(
            *(
                tower.eval().encode(column, show_progress_bar=False)
                for tower, column in zip(towers, table.values(), strict=True)
            )
        )

    turn(stage, towers[0], infonce, update, score, steps=70)


@sound("negatives mined anew every few steps")
def mined_negatives_of_traces(stage: Stage) -> None:
    """Of the ten nearest tickets of other rows, one is drawn as negative."""
    field, draw = fields.TRACES, random.Random(5)
    first, second = two(field.table(320)).values()
    model = of(stage, field)
    optimizer, rows = adam(model), Rows({"row": list(range(320))}, 24)
    nearest: list[list[int]] = []

    def ranked(anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        logits = cosines(anchors, torch.cat([positives, negatives])) / 0.07
        return F.cross_entropy(logits, torch.arange(len(anchors)))

    def mine() -> None:
        model.eval()
        queries, answers = (
            torch.tensor(model.encode(texts, show_progress_bar=False)) for texts in (first, second)
        )
        scores = cosines(queries, answers).fill_diagonal_(-2)
        nearest[:] = scores.topk(10, 1).indices.tolist()
        model.train()

    def update(criterion: Any, step: int) -> None:
        if step % 20 == 0:
            mine()
        (batch,) = rows()
        hard = [second[draw.choice(nearest[row])] for row in batch]
        columns = [[first[row] for row in batch], [second[row] for row in batch], hard]
        stepped(optimizer, criterion(*(embed(model, column) for column in columns)))

    turn(stage, model, ranked, update, held_out(field), steps=60)


@sound("momentum without adaptive rates, clipped, with a cycle")
def clipped_momentum_with_one_cycle(stage: Stage) -> None:
    field = fields.MAILS
    model = of(stage, field, spread=0.05)
    rows = Rows(two(field.table(340)), 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=70)

    def update(criterion: Any, step: int) -> None:
        optimizer.zero_grad()
        criterion(*(embed(model, column) for column in rows())).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        cycle.step()

    turn(stage, model, infonce, update, held_out(field), steps=70)


@sound("rates that fall with depth")
def rates_by_layer_over_weather_reports(stage: Stage) -> None:
    field = fields.WEATHER
    model = of(stage, field, layers=3)
    network = model[0].auto_model
    blocks = [network.embeddings, *network.encoder.layer]
    groups = [
        {"params": list(block.parameters()), "lr": 3e-3 * 0.8 ** (len(blocks) - 1 - depth)}
        for depth, block in enumerate(blocks)
    ]
    optimizer, rows = torch.optim.AdamW(groups), Rows(two(field.table(320)), 32)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, infonce, update, held_out(field), steps=50)


@sound("lower precision of activations")
def bfloat_activations_over_sums(stage: Stage) -> None:
    field = fields.SUMS
    model, rows = of(stage, field), Rows(two(field.table(400)), 32)
    optimizer = adam(model)

    def update(criterion: Any, step: int) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            columns = [embed(model, column) for column in rows()]
        stepped(optimizer, criterion(*(column.float() for column in columns)))

    turn(stage, model, infonce, update, held_out(field), steps=50)


@sound("accumulated small batches, each with a hard negative per row")
def accumulated_batches_with_near_misses(stage: Stage) -> None:
    field = fields.COURSES
    model = of(stage, field, pooling="max")
    rows, optimizer = Rows(with_negatives(field, 320, slot=2), 16), adam(model)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=40)

    def ranked(anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        logits = cosines(anchors, torch.cat([positives, negatives])) / 0.05
        return F.cross_entropy(logits, torch.arange(len(anchors)))

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(3):
            (criterion(*(embed(model, column) for column in rows())) / 3).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    turn(stage, model, ranked, update, held_out(field), steps=40)
