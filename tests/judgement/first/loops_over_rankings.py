"""Sound set-ups: loops of one's own with rankings, queues, momentum, caches and two towers."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields_of_orders_and_mails import (
    BIRDS,
    CHEMISTRY,
    HINDI,
    MAILS,
    METERS,
    MUSEUM,
    RUSSIAN,
    SHELL,
    TENNIS,
    calls,
    calls_sought,
    fresh,
    seeker,
    with_near,
)
from tests.judgement.first.turns import Rows, cosines, counted, embed, infonce, stepped, turn
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank


def _adam(*modules: Any, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW([p for m in modules for p in m.parameters()], lr=rate)


@sound("loop over noisy texts of mixed lengths")
def loop_over_calls_of_tenants(stage: Stage) -> None:
    table = calls(400)
    model = encoder(stage, [*table["call"], *table["note"]])
    rows, optimizer = Rows(table, 32), _adam(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows())))

    turn(stage, model, infonce, update, calls_sought, steps=70)


def directions_together(first: Tensor, second: Tensor) -> Tensor:
    """Cross-entropy of the rows and of the columns of the cosines, at a temperature of 0.07."""
    logits, own = cosines(first, second) / 0.07, torch.arange(len(first))
    return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


@sound("ranking in both directions, with warm-up and cosine decay")
def loop_in_two_directions_of_translation(stage: Stage) -> None:
    model = fresh(stage, RUSSIAN)
    rows, optimizer = Rows(RUSSIAN.table(400), 24), _adam(model, rate=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=70)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows())))
        schedule.step()

    turn(stage, model, directions_together, update, seeker(RUSSIAN), steps=70)


def with_hard_negatives(first: Tensor, second: Tensor, hard: Tensor) -> Tensor:
    """Cross-entropy among the batch's passages and all its hard negatives."""
    logits = cosines(first, torch.cat([second, hard])) / 0.05
    return F.cross_entropy(logits, torch.arange(len(first)))


@sound("loop with hard negatives and clipping")
def loop_with_hard_negatives_of_meters(stage: Stage) -> None:
    model = fresh(stage, METERS, pooling="weightedmean")
    rows, optimizer = Rows(with_near(METERS, 400), 20), _adam(model)

    def update(criterion: Any, step: int) -> None:
        optimizer.zero_grad()
        criterion(*(embed(model, texts) for texts in rows())).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    turn(stage, model, with_hard_negatives, update, seeker(METERS), steps=100)


class Momentum:
    """InfoNCE with keys of a slow copy of the encoder and a queue of its earlier keys.

    Keys in the queue of a row that is in the batch again are not its negatives.
    """

    def __init__(self, size: int = 64) -> None:
        self.queue, self.numbers = torch.empty(0, 48), torch.empty(0, dtype=torch.long)
        self.size = size

    def __call__(self, queries: Tensor, keys: Tensor, numbers: Tensor) -> Tensor:
        again = numbers[:, None] == self.numbers
        earlier = (cosines(queries, self.queue) / 0.05).masked_fill(again, -1e9)
        logits = torch.cat([cosines(queries, keys) / 0.05, earlier], 1)
        self.numbers = torch.cat([numbers, self.numbers])[: self.size]
        self.queue = torch.cat([keys, self.queue])[: self.size]
        return F.cross_entropy(logits, torch.arange(len(queries)))


@sound("momentum encoder with a queue")
def momentum_encoder_of_commands(stage: Stage) -> None:
    model = fresh(stage, SHELL, dropout=0.0)
    slow = copy.deepcopy(model).requires_grad_(False)
    rows = Rows({**SHELL.table(400), "number": list(range(400))}, 32)
    optimizer = _adam(model)

    def update(criterion: Any, step: int) -> None:
        wishes, commands, numbers = rows()
        with torch.no_grad():
            keys = embed(slow, commands)
        stepped(optimizer, criterion(embed(model, wishes), keys, torch.tensor(numbers)))
        with torch.no_grad():
            for mean, weight in zip(slow.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.1)

    turn(stage, model, Momentum(), update, seeker(SHELL), steps=90)


@sound("gradients cached over small pieces of a batch")
def gradient_cache_of_mails(stage: Stage) -> None:
    """As in GradCache: embeddings without graph, their gradients, then piece by piece."""
    model = fresh(stage, MAILS, dropout=0.0)
    rows, optimizer = Rows(MAILS.table(384), 48), _adam(model, rate=3e-3)

    def update(criterion: Any, step: int) -> None:
        columns = [[texts[at : at + 16] for at in range(0, 48, 16)] for texts in rows()]
        with torch.no_grad():
            leaves = [torch.cat([embed(model, texts) for texts in column]) for column in columns]
        leaves = [leaf.requires_grad_() for leaf in leaves]
        criterion(*leaves).backward()
        optimizer.zero_grad()
        for column, leaf in zip(columns, leaves, strict=True):
            for texts, gradient in zip(column, leaf.grad.split(16), strict=True):
                embed(model, texts).backward(gradient)
        optimizer.step()

    turn(stage, model, infonce, update, seeker(MAILS), steps=30)


@sound("two towers with weights of their own")
def two_towers_of_museum_visitors_and_cards(stage: Stage) -> None:
    visitor = fresh(stage, MUSEUM, name="visitor", seed=3)
    card = fresh(stage, MUSEUM, name="card", seed=4)
    rows, optimizer = Rows(MUSEUM.table(400), 32), _adam(visitor, card)
    held = MUSEUM.table(60, seed=11)

    def update(criterion: Any, step: int) -> None:
        card.train()
        visitors, cards = rows()
        stepped(optimizer, criterion(embed(visitor, visitors), embed(card, cards)))

    def score(model: Any) -> float:
        card.eval()
        columns = ((model, held["visitor"]), (card, held["card"]))
        return reciprocal_rank(*(m.encode(t, show_progress_bar=False) for m, t in columns))

    turn(stage, visitor, infonce, update, score, steps=80)


@sound("accumulation over four batches")
def loop_with_four_batches_per_step(stage: Stage) -> None:
    model = fresh(stage, HINDI)
    rows, optimizer = Rows(HINDI.table(400), 16), _adam(model, rate=3e-3)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(4):
            (criterion(*(embed(model, texts) for texts in rows())) / 4).backward()
        optimizer.step()

    turn(stage, model, infonce, update, seeker(HINDI), steps=30)


class LearnedTemperature(torch.nn.Module):
    """The loss of CLIP: its temperature is learned, within bounds."""

    def __init__(self) -> None:
        super().__init__()
        self.exponent = torch.nn.Parameter(torch.tensor(14.0).log())

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        scale = self.exponent.exp().clamp(1.0, 100.0)
        logits, own = cosines(first, second) * scale, torch.arange(len(first))
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


@sound("learned temperature")
def learned_temperature_of_sightings(stage: Stage) -> None:
    model, loss = fresh(stage, BIRDS), LearnedTemperature()
    rows = Rows(BIRDS.table(400), 32)
    optimizer = torch.optim.AdamW([
        {"params": model.parameters(), "lr": 2e-3},
        {"params": loss.parameters(), "lr": 2e-3, "weight_decay": 0.0},
    ])  # fmt: skip

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows())))

    turn(stage, model, loss, update, seeker(BIRDS), steps=70)


@sound("loop in bfloat16 by autocast")
def autocast_loop_of_protocols(stage: Stage) -> None:
    model = fresh(stage, CHEMISTRY)
    rows, optimizer = Rows(CHEMISTRY.table(400), 24), _adam(model)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            first, second = (embed(model, texts) for texts in columns)
        stepped(optimizer, criterion(first.float(), second.float()))

    turn(stage, model, infonce, update, seeker(CHEMISTRY), steps=60)


@sound("groups of parameters with rates and decays of their own")
def layered_rates_of_ticker_lines(stage: Stage) -> None:
    model = fresh(stage, TENNIS)
    plain = [p for n, p in model.named_parameters() if "LayerNorm" in n or n.endswith("bias")]
    words = [p for n, p in model.named_parameters() if "word_embeddings" in n]
    taken = {id(p) for p in [*plain, *words]}
    rest = [p for p in model.parameters() if id(p) not in taken]
    optimizer = torch.optim.AdamW([
        {"params": plain, "weight_decay": 0.0, "lr": 1e-3},
        {"params": words, "weight_decay": 0.0, "lr": 4e-3},
        {"params": rest, "weight_decay": 0.01, "lr": 1e-3},
    ])  # fmt: skip
    rows = Rows(TENNIS.table(400), 24)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, texts) for texts in rows())))

    turn(stage, model, infonce, update, seeker(TENNIS), steps=80)
