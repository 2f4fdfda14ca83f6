"""Sound set-ups: loops of one's own over pairs, with losses written by hand."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.fields_of_offices_and_ports import (
    BIRDS,
    CHATTER,
    CHESS,
    COMMITS,
    DIGITS,
    FORMS,
    MATCHES,
    RUSSIAN,
    SHELVES,
    noised,
    pair_update,
    reader,
)
from tests.judgement.first.turns import Rows, cosines, counted, embed, infonce, stepped, turn
from tests.judgement.stage import Stage


def adam(model: Any, rate: float = 2e-3, **options: Any) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), lr=rate, **options)


@sound("cross-entropy in both directions with a learned temperature")
def figures_and_spelling_with_a_learned_scale(stage: Stage) -> None:
    model = reader(stage, DIGITS)
    scale = torch.nn.Parameter(torch.tensor(2.6))
    optimizer = torch.optim.AdamW([
        {"params": model.parameters(), "lr": 2e-3},
        {"params": [scale], "lr": 1e-2, "weight_decay": 0.0},
    ])  # fmt: skip

    def in_two_directions(first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) * scale.exp().clamp(max=100)
        target = torch.arange(len(logits))
        return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2

    update = pair_update(model, Rows(DIGITS.table(320), 24), optimizer)
    turn(stage, model, in_two_directions, update, DIGITS.sought, steps=60)


@sound("gradient cache over pieces of a large batch")
def match_reports_with_a_gradient_cache(stage: Stage) -> None:
    model = reader(stage, MATCHES, layers=1, dropout=0.0)
    rows, optimizer = Rows(MATCHES.table(320), 64), adam(model, 3e-3)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.no_grad():
            cached = [torch.cat([embed(model, texts[at : at + 16]) for at in range(0, 64, 16)])
                      for texts in columns]  # fmt: skip
        leaves = [rows_of_column.requires_grad_() for rows_of_column in cached]
        criterion(*leaves).backward()
        optimizer.zero_grad()
        for texts, leaf in zip(columns, leaves, strict=True):
            assert leaf.grad is not None
            for at in range(0, 64, 16):
                embed(model, texts[at : at + 16]).backward(leaf.grad[at : at + 16])
        optimizer.step()

    turn(stage, model, infonce, update, MATCHES.sought, steps=25)


@sound("triplets of the hardest passage of the batch")
def bird_notes_by_triplets_mined_in_the_batch(stage: Stage) -> None:
    def mined(first: Tensor, second: Tensor) -> Tensor:
        near = cosines(first, second)
        own = near.diagonal()
        hardest = near.masked_fill(torch.eye(len(near), dtype=torch.bool), -2).max(1).values
        return F.softplus(10 * (hardest - own)).mean()

    model = reader(stage, BIRDS)
    update = pair_update(model, Rows(BIRDS.table(300), 24), adam(model))
    turn(stage, model, mined, update, BIRDS.sought, steps=70)


class Momentum:
    """InfoNCE whose passages come from a slow copy of the encoder and from a queue of its rows."""

    def __init__(self, size: int = 96) -> None:
        self.queue, self._size = torch.empty(0, 48), size

    def __call__(self, first: Tensor, second: Tensor) -> Tensor:
        candidates = F.normalize(torch.cat([second, self.queue]))
        logits = F.normalize(first) @ candidates.T / 0.07
        self.queue = torch.cat([second.detach(), self.queue])[: self._size]
        return F.cross_entropy(logits, torch.arange(len(first)))


@sound("momentum encoder with a queue")
def library_wishes_with_a_momentum_encoder(stage: Stage) -> None:
    model = reader(stage, SHELVES)
    slow = copy.deepcopy(model).requires_grad_(False)
    rows, optimizer = Rows(SHELVES.table(336), 16), adam(model)

    def update(criterion: Any, step: int) -> None:
        wishes, cards = rows()
        with torch.no_grad():
            keys = embed(slow, cards)
        stepped(optimizer, criterion(embed(model, wishes), keys))
        with torch.no_grad():
            for mean, weight in zip(slow.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.05)

    turn(stage, model, Momentum(), update, SHELVES.sought, steps=90)


@sound("two towers of separate weights")
def russian_and_english_in_two_towers(stage: Stage) -> None:
    from tests.judgement.truth import retrieval

    first, second = (reader(stage, RUSSIAN, name=name, seed=at)
                     for at, name in enumerate(("russian", "english")))  # fmt: skip
    towers = torch.nn.ModuleList([first, second])
    rows, optimizer = Rows(RUSSIAN.table(320), 24), adam(towers)

    def update(criterion: Any, step: int) -> None:
        russian, english = rows()
        stepped(optimizer, criterion(embed(first, russian), embed(second, english)))

    class Seeker(torch.nn.Module):
        """Encodes Russian by the first tower and English by the second."""

        def __init__(self) -> None:
            super().__init__()
            self.towers = towers

        def encode(self, texts: list[str], **options: Any) -> Any:
            is_english = texts[0].split()[0] == "the"
            return self.towers[int(is_english)].encode(texts, **options)

    turn(stage, Seeker(), infonce, update,
         lambda seeker: retrieval(seeker, RUSSIAN.table(40, seed=11)), steps=60)  # fmt: skip


@sound("noise of scraped pages, gradients accumulated")
def noisy_posts_with_accumulated_gradients(stage: Stage) -> None:
    from transformers import get_cosine_schedule_with_warmup

    table = CHATTER.table(360)
    noisy = {name: noised(texts, seed) for seed, (name, texts) in enumerate(table.items())}
    model = reader(stage, CHATTER)
    rows, optimizer = Rows(noisy, 16), adam(model, 3e-3)
    schedule = get_cosine_schedule_with_warmup(optimizer, 4, 40)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(2):
            (criterion(*(embed(model, column) for column in rows())) / 2).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    turn(stage, model, infonce, update, CHATTER.sought, steps=40)


@sound("sigmoids of all pairs with a learned bias")
def chess_games_by_sigmoids_of_pairs(stage: Stage) -> None:
    model = reader(stage, CHESS, spread=0.1)
    scale, bias = (torch.nn.Parameter(torch.tensor(start)) for start in (2.3, -10.0))
    optimizer = torch.optim.AdamW([
        {"params": model.parameters(), "lr": 2e-3},
        {"params": [scale, bias], "lr": 5e-3, "weight_decay": 0.0},
    ])  # fmt: skip

    def sigmoids(first: Tensor, second: Tensor) -> Tensor:
        logits = cosines(first, second) * scale.exp() + bias
        return -F.logsigmoid((2 * torch.eye(len(logits)) - 1) * logits).sum(1).mean()

    update = pair_update(model, Rows(CHESS.table(320), 24), optimizer)
    turn(stage, model, sigmoids, update, CHESS.sought, steps=90)


@sound("additive margin in a ranking")
def court_forms_with_an_additive_margin(stage: Stage) -> None:
    def ranked(first: Tensor, second: Tensor) -> Tensor:
        logits = (cosines(first, second) - 0.1 * torch.eye(len(first))) / 0.05
        return F.cross_entropy(logits, torch.arange(len(first)))

    model = reader(stage, FORMS)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    update = pair_update(model, Rows(FORMS.table(320), 20), optimizer)
    turn(stage, model, ranked, update, FORMS.sought, steps=60)


@sound("SGD with momentum and a rate that falls by steps")
def commits_by_momentum_descent(stage: Stage) -> None:
    model = reader(stage, COMMITS, spread=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 30, 0.3)
    update = pair_update(model, Rows(COMMITS.table(320), 24), optimizer, schedule.step)
    turn(stage, model, infonce, update, COMMITS.sought, steps=80)
