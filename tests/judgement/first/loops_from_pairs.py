"""Sound set-ups: own loops with queues, momentum, towers, caches, accumulation, precision."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields_of_daily_use import (
    BIRDS,
    MAILS,
    NEWS,
    PATENTS,
    QUERIES,
    REACTIONS,
    RENTS,
    descent,
    finds,
    finds_letters,
    notes,
    starter,
    ward_words,
)
from tests.judgement.first.turns import (
    Rows,
    cosines,
    counted,
    embed,
    infonce,
    stepped,
    turn,
    warmed,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank


def adam(*models: torch.nn.Module, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW([w for model in models for w in model.parameters()], lr=rate)


class Queue:
    """InfoNCE with the keys of earlier batches as further negatives."""

    def __init__(self, size: int) -> None:
        self.keys, self._size = torch.empty(0, 48), size

    def __call__(self, queries: Tensor, keys: Tensor) -> Tensor:
        logits = cosines(queries, torch.cat([keys, self.keys])) / 0.07
        self.keys = torch.cat([keys.detach(), self.keys])[: self._size]
        return functional.cross_entropy(logits, torch.arange(len(queries)))


@sound("momentum encoder with a queue of its keys")
def flats_against_a_queue_of_momentum_keys(stage: Stage) -> None:
    """Words are sought among keys of the slow copy; the queue is shorter than an epoch."""
    table = RENTS.table(360)
    model = starter(stage, RENTS)
    slow, draw, optimizer = copy.deepcopy(model), Rows(table, 24), adam(model)

    def update(criterion: Any, step: int) -> None:
        wishes, adverts = draw()
        with torch.no_grad():
            keys = embed(slow, adverts)
        stepped(optimizer, criterion(embed(model, wishes), keys))
        with torch.no_grad():
            for late, weight in zip(slow.parameters(), model.parameters(), strict=True):
                late.lerp_(weight, 0.1)

    turn(stage, model, Queue(96), update, finds(RENTS), steps=110)


@sound("two towers")
def two_towers_for_wishes_and_queries(stage: Stage) -> None:
    wishes_tower = starter(stage, QUERIES, name="wishes", seed=1)
    queries_tower = starter(stage, QUERIES, name="queries", seed=2, layers=1)
    draw, optimizer = Rows(QUERIES.table(360), 32), adam(wishes_tower, queries_tower)

    def found_by_towers(model: Any) -> float:
        wishes, queries = QUERIES.table(80, seed=11).values()
        return reciprocal_rank(
            model.encode(wishes, show_progress_bar=False),
            queries_tower.encode(queries, show_progress_bar=False),
        )

    def update(criterion: Any, step: int) -> None:
        queries_tower.train()
        wishes, queries = draw()
        stepped(optimizer, criterion(embed(wishes_tower, wishes), embed(queries_tower, queries)))

    turn(stage, wishes_tower, infonce, update, found_by_towers, steps=70)


@sound("gradient cache by hand")
def gradient_cache_over_letters(stage: Stage) -> None:
    """Embeddings of 64 pairs in chunks of 16; their gradients, then those of the weights."""
    model = encoder(stage, ward_words(), dropout=0.0)
    draw, optimizer = Rows(notes(384), 64), adam(model)

    def update(criterion: Any, step: int) -> None:
        columns = draw()
        chunks = [[column[at : at + 16] for at in range(0, 64, 16)] for column in columns]
        with torch.no_grad():
            rows = [torch.cat([embed(model, chunk) for chunk in column]) for column in chunks]
        rows = [row.requires_grad_() for row in rows]
        optimizer.zero_grad()
        criterion(*rows).backward()
        for column, row in zip(chunks, rows, strict=True):
            for at, chunk in enumerate(column):
                embed(model, chunk).backward(row.grad[16 * at : 16 * at + 16])
        optimizer.step()

    turn(stage, model, infonce, update, finds_letters, steps=24)


@sound("accumulation, clipping, warm-up and cosine decay")
def accumulated_claims_with_clipping(stage: Stage) -> None:
    from transformers import get_cosine_schedule_with_warmup

    model = starter(stage, PATENTS)
    draw, optimizer = Rows(PATENTS.table(320), 16), adam(model, rate=3e-3)
    schedule = get_cosine_schedule_with_warmup(optimizer, 4, 30)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(3):
            (criterion(*(embed(model, column) for column in draw())) / 3).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    turn(stage, model, infonce, update, finds(PATENTS), steps=30)


@sound("bfloat16 autocast")
def autocast_of_mails_to_bfloat16(stage: Stage) -> None:
    model = starter(stage, MAILS)
    draw, optimizer = Rows(MAILS.table(300), 24), adam(model)

    def update(criterion: Any, step: int) -> None:
        with torch.autocast("cpu", torch.bfloat16):
            rows = [embed(model, column) for column in draw()]
        stepped(optimizer, criterion(*(row.float() for row in rows)))

    turn(stage, model, infonce, update, finds(MAILS), steps=45)


@sound("SGD with momentum under one cycle")
def one_cycle_of_sgd_over_birds(stage: Stage) -> None:
    model = starter(stage, BIRDS, spread=0.05)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, nesterov=True)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=80)
    descend = descent(model, optimizer, BIRDS.table(360), 32)

    def update(criterion: Any, step: int) -> None:
        descend(criterion, step)
        cycle.step()

    turn(stage, model, infonce, update, finds(BIRDS), steps=80)


@sound("groups of weights with rates of their own")
def slower_words_than_layers(stage: Stage) -> None:
    """A warmed encoder: the table of words at a third of the rate, no decay of norms and biases."""
    table = REACTIONS.table(360)
    model = warmed(starter(stage, REACTIONS), table, steps=4)
    named = dict(model.named_parameters())
    groups = [
        {"params": [w for name, w in named.items() if "word_embeddings" in name], "lr": 1e-3},
        {"params": [w for name, w in named.items() if "word_emb" not in name and w.ndim > 1]},
        {"params": [w for w in named.values() if w.ndim == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=3e-3, weight_decay=0.05)
    update = descent(model, optimizer, table, 24)
    turn(stage, model, infonce, update, finds(REACTIONS), steps=50)


@sound("two sets of pairs in turns")
def news_and_rents_in_turns(stage: Stage) -> None:
    """Even steps draw pairs of one field, odd ones of another; scored on a mean over fields."""
    model = starter(stage, NEWS, RENTS)
    optimizer = adam(model)
    turns = [descent(model, optimizer, field.table(320), 20) for field in (NEWS, RENTS)]

    def update(criterion: Any, step: int) -> None:
        turns[step % 2](criterion, step)

    turn(
        stage, model, infonce, update,
        lambda model: (finds(NEWS)(model) + finds(RENTS)(model)) / 2, steps=100,
    )  # fmt: skip


@sound("hard negatives mined anew every fifteen steps")
def negatives_mined_by_the_encoder_itself(stage: Stage) -> None:
    """Each wish gets a query among its nearest that is not its own."""
    table = QUERIES.table(320)
    wishes, queries = table.values()
    model = starter(stage, QUERIES)
    optimizer = adam(model)
    draw: list[Rows] = []

    def mined() -> list[str]:
        first, second = (
            functional.normalize(model.encode(texts, convert_to_tensor=True, batch_size=160,
                                              show_progress_bar=False))
            for texts in (wishes, queries)
        )  # fmt: skip
        nearest = (first @ second.T).fill_diagonal_(-2).topk(8).indices
        chosen = nearest.gather(1, torch.randint(8, (len(nearest), 1)))[:, 0]
        return [queries[at] for at in chosen.tolist()]

    def loss(anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        logits = cosines(anchors, torch.cat([positives, negatives])) / 0.05
        return functional.cross_entropy(logits, torch.arange(len(anchors)))

    def update(criterion: Any, step: int) -> None:
        if step % 15 == 0:
            columns = {"wish": wishes, "query": queries, "negative": mined()}
            draw[:] = [Rows(columns, 20, seed=step)]
            model.train()
        stepped(optimizer, criterion(*(embed(model, column) for column in draw[0]())))

    turn(stage, model, loss, update, finds(QUERIES), steps=60)
