"""Sound set-ups: loops with queues, caches, averages and several tasks."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import (
    CLINIC,
    CODE,
    HELPDESK,
    KITCHEN,
    PAPERS,
    SCENES,
    SHOP,
    TRAVEL,
    Field,
)
from tests.judgement.first.turns import (
    Rows,
    cosines,
    counted,
    embed,
    infonce,
    stepped,
    turn,
)
from tests.judgement.stage import Stage


def start(stage: Stage, field: Field, count: int = 200, size: int = 16, **options: Any) -> Any:
    """An encoder of a field and batches of its pairs."""
    table = field.table(count)
    return encoder(stage, words_of([table]), **options), Rows(table, size)


@sound("gradients of a large batch, cached")
def large_batch_by_cached_gradients(stage: Stage) -> None:
    """GradCache: embeddings without graph, gradients to them, then chunks with graph again."""
    model, rows = start(stage, KITCHEN, 320, 64, dropout=0.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            leaves = [embed(model, column).requires_grad_() for column in columns]
        leaves = [leaf.detach().requires_grad_() for leaf in leaves]
        criterion(*leaves).backward()
        optimizer.zero_grad()
        for column, leaf in zip(columns, leaves, strict=True):
            for begin in range(0, len(column), 16):
                chunk = embed(model, column[begin : begin + 16])
                (chunk * leaf.grad[begin : begin + 16]).sum().backward()
        optimizer.step()

    turn(stage, model, infonce, update, KITCHEN.sought, steps=20)


class Queue:
    """InfoNCE among own keys and a queue of keys of earlier batches."""

    def __init__(self, size: int, width: int = 48) -> None:
        self._size, self._keys = size, torch.empty(0, width)

    def __call__(self, queries: Tensor, keys: Tensor) -> Tensor:
        candidates = torch.cat([keys, self._keys])
        self._keys = candidates.detach()[: self._size]
        return F.cross_entropy(cosines(queries, candidates) / 0.07, torch.arange(len(queries)))


@sound("queue of keys by a slow encoder")
def queue_of_keys_by_a_slow_copy(stage: Stage) -> None:
    """MoCo: keys come from an average of the encoder, without gradient, and stay in a queue."""
    model, rows = start(stage, TRAVEL, 240)
    slow = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        first, second = rows() if step % 2 else reversed(rows())
        with torch.no_grad():
            keys = embed(slow, second)
        stepped(optimizer, criterion(embed(model, first), keys))
        with torch.no_grad():
            for mean, weight in zip(slow.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.1)

    turn(stage, model, Queue(48), update, TRAVEL.sought, steps=90)


@sound("memory of recent passages")
def memory_of_recent_embeddings(stage: Stage) -> None:
    """Cross-batch memory of 64 recent passages of the encoder itself, after a few steps."""
    model, rows = start(stage, CLINIC, 180)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, Queue(64), update, CLINIC.sought, steps=50)


class Nested:
    """InfoNCE of the first dimensions, several times."""

    def __init__(self, dimensions: tuple[int, ...]) -> None:
        self._dimensions = dimensions

    def __call__(self, first: Tensor, second: Tensor) -> Tensor:
        return torch.stack([infonce(first[:, :d], second[:, :d]) for d in self._dimensions]).mean()


@sound("nested dimensions in a loop")
def nested_dimensions_by_hand(stage: Stage) -> None:
    """InfoNCE of 48, 24 and 8 dimensions; the score is of eight."""
    model, rows = start(stage, PAPERS, 220)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    def in_eight(model: Any) -> float:
        with model.truncate_sentence_embeddings(8):
            return PAPERS.sought(model)

    turn(stage, model, Nested((48, 24, 8)), update, in_eight)


@sound("ranking beside a classification")
def ranking_beside_the_trouble_of_a_ticket(stage: Stage) -> None:
    """Two tasks in a step: pairs are ranked, and a head classifies the trouble of a question."""
    draws = HELPDESK.draws(220)
    troubles = sorted({row[0] for row in draws})
    table = {
        "question": HELPDESK.texts(draws, 0), "answer": HELPDESK.texts(draws, 1),
        "trouble": [troubles.index(row[0]) for row in draws],
    }  # fmt: skip
    model, rows = encoder(stage, words_of([table])), Rows(table)
    head = nn.Linear(48, len(troubles))
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        questions, answers, labels = rows()
        first, second = embed(model, questions), embed(model, answers)
        ranked = criterion(first, second)
        stepped(optimizer, ranked + 0.3 * F.cross_entropy(head(first), torch.tensor(labels)))

    turn(stage, model, infonce, update, HELPDESK.sought)


@sound("classifier whose features are embeddings")
def classifier_of_wares_whose_features_are_embeddings(stage: Stage) -> None:
    """A head on normalised embeddings, as in face recognition; the head is thrown away."""
    draws = SHOP.draws(260)
    wares = sorted({row[0] for row in draws})
    table = {"text": [SHOP.texts([row], at % 2)[0] for at, row in enumerate(draws)],
             "ware": [wares.index(row[0]) for row in draws]}  # fmt: skip
    model, rows = encoder(stage, words_of([table])), Rows(table, 24)
    centres = nn.Parameter(torch.randn(len(wares), 48))
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters(), "lr": 2e-3}, {"params": [centres], "lr": 2e-2}]
    )
    unseen = SHOP.draws(60, seed=11)

    def classified(rows: Tensor, labels: Tensor) -> Tensor:
        logits = cosines(rows, centres) - 0.1 * F.one_hot(labels, len(wares))
        return F.cross_entropy(12 * logits, labels)

    def update(criterion: Any, step: int) -> None:
        texts, labels = rows()
        stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

    def score(model: Any) -> float:
        first, second = (
            model.encode(SHOP.texts(unseen, at), normalize_embeddings=True) for at in (0, 1)
        )
        near = (first @ second.T).argmax(1)
        return sum(unseen[at][0] == unseen[int(to)][0] for at, to in enumerate(near)) / 60

    turn(stage, model, classified, update, score, steps=60)


@sound("temperature that is learned")
def temperature_learned_between_bounds(stage: Stage) -> None:
    """As in CLIP: the logarithm of a scale is learned, bounded by 100, in both directions."""
    model, rows = start(stage, CODE, 200)
    scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters()}, {"params": [scale], "weight_decay": 0.0}], lr=2e-3
    )

    def two_way(first: Tensor, second: Tensor) -> Tensor:
        logits = scale.exp().clamp(max=100) * cosines(first, second)
        labels = torch.arange(len(logits))
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, two_way, update, CODE.sought)


@sound("negatives mined anew")
def negatives_mined_anew_every_fifteen_steps(stage: Stage) -> None:
    """ANCE: the encoder itself mines a near passage of another row for each query."""
    table = KITCHEN.table(160)
    model = encoder(stage, words_of([table]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-3)
    state: dict[str, Rows] = {}

    def mined() -> Rows:
        first, second = (
            torch.tensor(model.encode(texts, normalize_embeddings=True)) for texts in table.values()
        )
        near = (first @ second.T - 9 * torch.eye(len(first))).topk(12, 1).indices[:, 4:]
        drawn = near[torch.arange(len(near)), torch.randint(8, (len(near),))]
        return Rows(table | {"negative": [table["positive"][int(at)] for at in drawn]})

    def update(criterion: Any, step: int) -> None:
        if step % 15 == 0:
            state["rows"] = mined()
            model.train()
        stepped(optimizer, criterion(*(embed(model, column) for column in state["rows"]())))

    def hard(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
        logits = cosines(first, torch.cat([second, third])) / 0.05
        return F.cross_entropy(logits, torch.arange(len(first)))

    turn(stage, model, hard, update, KITCHEN.sought, steps=45)


@sound("accumulation under a schedule")
def accumulated_loop_under_a_cosine(stage: Stage) -> None:
    """Three batches to a step, each a third of the loss, clipped, under a cosine with warm-up."""
    from transformers import get_cosine_schedule_with_warmup

    model, rows = start(stage, SCENES, 180)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = get_cosine_schedule_with_warmup(optimizer, 5, 30)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(3):
            (criterion(*(embed(model, column) for column in rows())) / 3).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()

    turn(stage, model, infonce, update, SCENES.sought, steps=30)
