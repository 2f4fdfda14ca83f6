"""Loops of one's own over pairs: rankings, queues, two views, temperatures, masks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import (
    CODE,
    HELPDESK,
    SHOP,
    TRAVEL,
)
from tests.judgement.first.good_fields import CONTRACTS, LETTERS
from tests.judgement.first.good_materials import looped, sought, started, two
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped
from tests.judgement.stage import Stage


def stepping(
    model: Any, table: Mapping[str, Sequence[Any]], optimizer: Any, schedule: Any = None, *,
    size: int = 16, seed: int = 0,
) -> Callable[[Any, int], None]:  # fmt: skip
    """An update: a batch of all columns, the criterion of their embeddings, a step."""
    rows = Rows(table, size, seed=seed)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))
        if schedule is not None:
            schedule.step()

    return update


def adamw(model: Any, rate: float = 2e-3, decay: float = 0.01) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)


@sound("loop with one cycle of the rate")
def one_cycle_over_clauses(stage: Stage) -> None:
    table = two(CONTRACTS.table(260))
    model = encoder(stage, words_of([table]), width=32, spread=0.05)
    optimizer = adamw(model)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=45)
    update = stepping(model, table, optimizer, schedule, size=24)
    looped(stage, model, infonce, update, CONTRACTS.sought, steps=45)


class Contrast(nn.Module):
    """Both directions with a learned temperature."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1 / 0.07).log())

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        logits = self.scale.exp().clamp(max=100) * cosines(first, second)
        own = torch.arange(len(logits))
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


@sound("loop of both directions with a learned temperature without decay")
def contrast_of_code_and_words(stage: Stage) -> None:
    """As CLIP: the temperature is learned with the encoder, without weight decay."""
    table = two(CODE.table(300))
    model, loss = encoder(stage, words_of([table]), width=64, spread=0.05), Contrast()
    optimizer = torch.optim.AdamW([
        {"params": model.parameters(), "weight_decay": 0.1},
        {"params": loss.parameters(), "weight_decay": 0.0},
    ], lr=2e-3, betas=(0.9, 0.98))  # fmt: skip
    looped(stage, model, loss, stepping(model, table, optimizer, size=32), CODE.sought)


class Queue:
    """InfoNCE among the batch and passages of a slow copy in earlier batches."""

    def __init__(self, width: int, size: int = 96) -> None:
        self.rows, self._size = torch.empty(0, width), size

    def __call__(self, first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, torch.cat([second, self.rows])) / 0.07
        return F.cross_entropy(logits, torch.arange(len(first)))

    def push(self, rows: Tensor) -> None:
        self.rows = torch.cat([rows.detach(), self.rows])[: self._size]


@sound("loop with a queue of a slow copy, own passages with gradient")
def queue_of_a_slow_copy(stage: Stage) -> None:
    table = TRAVEL.table(640)
    model = encoder(stage, words_of([table]), width=48, spread=0.05)
    slow, loss, rows = copy.deepcopy(model), Queue(48), Rows(table, 16)
    optimizer = adamw(model)

    def update(criterion: Any, step: int) -> None:
        first, second = rows()
        stepped(optimizer, criterion(embed(model, first), embed(model, second)))
        with torch.no_grad():
            for mean, weight in zip(slow.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.05)
            loss.push(embed(slow, second))

    looped(stage, model, loss, update, TRAVEL.sought, steps=60)


@sound("loop over all rows of two views in one softmax")
def views_in_one_softmax(stage: Stage) -> None:
    """As SimCLR's NT-Xent: each row among all others of both views."""

    def loss(first: Tensor, second: Tensor) -> Tensor:
        rows, count = torch.cat([first, second]), len(first)
        logits = cosines(rows, rows) / 0.1
        logits = logits.masked_fill(torch.eye(2 * count, dtype=torch.bool), -torch.inf)
        return F.cross_entropy(logits, (torch.arange(2 * count) + count) % (2 * count))

    table = two(LETTERS.table(230))
    model = encoder(stage, words_of([table]), width=48, spread=0.05, kind="distilbert")
    update = stepping(model, table, adamw(model, 3e-3), size=24)
    score = sought(two(LETTERS.table(60, seed=11)))
    looped(stage, model, loss, update, score, steps=60)


@sound("loop with hard negatives found anew in each round")
def negatives_found_anew(stage: Stage) -> None:
    """As ANCE: the encoder so far finds wrong passages, every ten steps."""
    table = two(HELPDESK.table(300))
    first, second = table.values()
    model = started(stage, table, HELPDESK, steps=4)
    optimizer, state = adamw(model, 1e-3), {}

    def search() -> list[str]:
        model.eval()
        queries, passages = (
            model.encode(texts, convert_to_tensor=True) for texts in (first, second)
        )
        near = cosines(queries, passages).fill_diagonal_(-1).topk(6).indices
        model.train()
        return [second[at] for at in near[:, 5].tolist()]

    def loss(anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        logits = 20 * cosines(anchors, torch.cat([positives, negatives]))
        return F.cross_entropy(logits, torch.arange(len(anchors)))

    def update(criterion: Any, step: int) -> None:
        if step % 10 == 0:
            state["rows"] = Rows({**table, "negative": search()}, 16, seed=step)
        stepped(optimizer, criterion(*(embed(model, column) for column in state["rows"]())))

    looped(stage, model, loss, update, HELPDESK.sought)


@sound("loop that masks equal answers of a batch")
def equal_answers_masked(stage: Stage) -> None:
    """Wares differ by buyer only: queries of the same ware and colour share their answers, and a
    mask of equal texts keeps them from being each other's negatives."""
    table = SHOP.table(300)
    table["product"] = [text.split(" ", 1)[1] for text in table["product"]]
    table["query"] = [text.rsplit(" ", 1)[0] for text in table["query"]]
    rows = Rows(table, 32)
    model = encoder(stage, words_of([table]), width=40, spread=0.05)
    optimizer, texts = adamw(model), list[str]()

    def loss(first: Tensor, second: Tensor) -> Tensor:
        own = torch.eye(len(first), dtype=torch.bool)
        same = torch.tensor([[a == b for b in texts] for a in texts])
        logits = cosines(first, second) / 0.05
        return F.cross_entropy(
            logits.masked_fill(same & ~own, -torch.inf), torch.arange(len(first))
        )

    def update(criterion: Any, step: int) -> None:
        first, second = rows()
        texts[:] = second
        stepped(optimizer, criterion(embed(model, first), embed(model, second)))

    dev = SHOP.table(60, seed=11)
    pairs = {"query": dev["query"], "product": [t.split(" ", 1)[1] for t in dev["product"]]}
    pairs = dict(zip(pairs, zip(*dict.fromkeys(zip(*pairs.values(), strict=True)), strict=True),
                     strict=True))  # fmt: skip
    looped(stage, model, loss, update, sought(pairs))
