"""Sound set-ups: loops of one's own over pairs, triplets and grades."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.fields_of_cheers_and_shells import (
    CHEERS,
    NEWS,
    PLANTS,
    QUERIES,
    RAILWAY,
    REACTIONS,
    SHELL,
    TURKISH,
    WEATHER,
    adamw,
    model_of,
    score_of,
    simple,
)
from tests.judgement.first.turns import Rows, cosines, counted, embed, infonce, stepped, turn
from tests.judgement.stage import Stage


@sound("ranking in bfloat16, clipped gradients")
def bfloat_ranking_of_esters(stage: Stage) -> None:
    model = model_of(stage, REACTIONS)
    rows, optimizer = Rows(REACTIONS.table(240), 24), adamw(model)

    def update(criterion: Any, step: int) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            first, second = (embed(model, column) for column in rows())
        value = criterion(first.float(), second.float())
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    turn(stage, model, infonce, update, score_of(REACTIONS), steps=50)


@sound("gradient cache: embeddings first, then chunks with their gradients")
def gradient_cache_of_shell_commands(stage: Stage) -> None:
    model = model_of(stage, SHELL, dropout=0.0)
    rows, optimizer = Rows(SHELL.table(384), 64), adamw(model, rate=3e-3)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            wholes = [embed(model, column) for column in columns]
        leaves = [whole.requires_grad_() for whole in wholes]
        optimizer.zero_grad()
        criterion(*leaves).backward()
        for column, leaf in zip(columns, leaves, strict=True):
            for start in range(0, len(column), 16):
                chunk = embed(model, column[start : start + 16])
                chunk.backward(leaf.grad[start : start + 16])
        optimizer.step()

    turn(stage, model, infonce, update, score_of(SHELL), steps=40)


@sound("both directions ranked, a temperature that is learned")
def learned_temperature_of_two_scripts(stage: Stage) -> None:
    model = model_of(stage, WEATHER)
    scale = nn.Parameter(torch.tensor(2.5))
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters(), "weight_decay": 0.01},
         {"params": [scale], "weight_decay": 0.0}], lr=2e-3,
    )  # fmt: skip

    def loss(first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) * scale.clamp(max=4.6).exp()
        own = torch.arange(len(first))
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2

    turn(stage, model, loss, simple(model, WEATHER.table(280), optimizer), score_of(WEATHER))


@sound("positive left out of the denominator")
def decoupled_ranking_of_plants(stage: Stage) -> None:
    def loss(first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) / 0.1
        own = torch.eye(len(first), dtype=torch.bool)
        return (logits.masked_fill(own, -1e4).logsumexp(1) - logits.diagonal()).mean()

    model = model_of(stage, PLANTS)
    turn(stage, model, loss, simple(model, PLANTS.table(300), adamw(model), 32), score_of(PLANTS),
         steps=60)  # fmt: skip


@sound("an additive margin on the positive, in both directions")
def additive_margin_for_turkish_sentences(stage: Stage) -> None:
    def loss(first: Tensor, second: Tensor) -> Tensor:
        own = torch.arange(len(first))
        logits = (cosines(first, second) - 0.2 * torch.eye(len(first))) * 20
        return F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)

    model = model_of(stage, TURKISH)
    turn(stage, model, loss, simple(model, TURKISH.table(320), adamw(model)), score_of(TURKISH),
         steps=60)  # fmt: skip


@sound("hard negatives among the candidates of every anchor, accumulation of batches")
def hard_negatives_of_sql_with_accumulation(stage: Stage) -> None:
    def loss(first: Tensor, second: Tensor, negative: Tensor) -> Tensor:
        logits = cosines(first, torch.cat([second, negative])) / 0.07
        return F.cross_entropy(logits, torch.arange(len(first)))

    model = model_of(stage, QUERIES)
    table = QUERIES.table(280) | {"negative": QUERIES.near(280, slot=1)}
    rows, optimizer = Rows(table, 16), adamw(model)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(2):
            (criterion(*(embed(model, column) for column in rows())) / 2).backward()
        optimizer.step()

    turn(stage, model, loss, update, score_of(QUERIES), steps=40)


@sound("queue of passages from a slow copy")
def queue_of_a_slow_copy_for_news(stage: Stage) -> None:
    model = model_of(stage, NEWS)
    slow = copy.deepcopy(model).eval().requires_grad_(False)
    rows, optimizer = Rows(NEWS.table(300), 20), adamw(model)
    queue: list[Tensor] = []

    def loss(first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, torch.cat([second, *queue])) / 0.07
        return F.cross_entropy(logits, torch.arange(len(first)))

    def update(criterion: Any, step: int) -> None:
        if step % 15 == 0:  # a new epoch: its rows may stand in the queue
            queue.clear()
        headlines, articles = rows()
        with torch.no_grad():
            targets = embed(slow, articles)
        stepped(optimizer, criterion(embed(model, headlines), targets))
        queue.insert(0, targets)
        del queue[4:]
        with torch.no_grad():
            for mean, weight in zip(slow.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.1)

    turn(stage, model, loss, update, score_of(NEWS), steps=90)


@sound("circle loss over the pairs of a batch")
def circle_loss_for_cheers(stage: Stage) -> None:
    def loss(first: Tensor, second: Tensor) -> Tensor:
        near = cosines(first, second)
        own = torch.eye(len(first), dtype=torch.bool)
        positives, negatives = near.diagonal(), near.masked_fill(own, -1)
        pull = -16 * F.relu(1.25 - positives.detach()) * (positives - 0.75)
        push = 16 * F.relu(negatives.detach() + 0.25) * (negatives - 0.25)
        return F.softplus(push.masked_fill(own, -1e4).logsumexp(1) + pull).mean()

    model = model_of(stage, CHEERS)
    turn(stage, model, loss, simple(model, CHEERS.table(190), adamw(model), 20), score_of(CHEERS),
         steps=60)  # fmt: skip


@sound("triplets by distance, the negative drawn from another row")
def distances_of_railway_triplets(stage: Stage) -> None:
    def loss(first: Tensor, second: Tensor) -> Tensor:
        first, second = F.normalize(first), F.normalize(second)
        return F.triplet_margin_loss(first, second, second.roll(1, 0), margin=0.5)

    model = model_of(stage, RAILWAY, spread=0.05)
    update = simple(model, RAILWAY.table(300), adamw(model), 32, bound=1.0)
    turn(stage, model, loss, update, score_of(RAILWAY), steps=80)
