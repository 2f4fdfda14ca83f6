"""Sound loops of one's own over pairs, triplets, grades and classes."""

from __future__ import annotations

import copy
import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.turns import Rows, cosines, counted, embed, infonce, stepped, turn
from tests.judgement.held_out.i_fields import (
    CHANTS,
    CHEMISTRY,
    GARDEN,
    HINDI,
    JOBS,
    RUSSIAN,
    SQL,
    TRACES,
    WEATHER,
    adamw,
    decoys,
    embedded,
    graded_rank,
    grouped,
    judged,
    neighbours,
    small,
    two_towers,
)
from tests.judgement.stage import Stage


@sound("loop with accumulation, clipping and a cosine schedule")
def sql_loop_with_accumulated_steps(stage: Stage) -> None:
    model = small(stage, SQL)
    rows, optimizer = Rows(SQL.table(320), 16), adamw(model, rate=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)

    def update(criterion: Any, step: int) -> None:
        optimizer.zero_grad()
        for _ in range(3):
            counted(criterion, step)
            (criterion(*embedded(model, rows())) / 3).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    turn(stage, model, infonce, update, SQL.sought, steps=36)


@sound("two towers, each of which is trained")
def job_queries_and_postings_in_two_towers(stage: Stage) -> None:
    first = small(stage, JOBS, name="queries")
    second = small(stage, JOBS, name="postings", seed=4)
    rows, optimizer = Rows(JOBS.table(320), 24), adamw(first, second)
    trial = JOBS.table(40, seed=11)

    def update(criterion: Any, step: int) -> None:
        second.train()
        queries, postings = rows()
        stepped(optimizer, criterion(embed(first, queries), embed(second, postings)))

    turn(stage, first, infonce, update,
         lambda model: two_towers(model, second.eval(), trial))  # fmt: skip


class Queue(nn.Module):
    """InfoNCE with the last rows of a momentum encoder as further negatives, as in MoCo."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.stored = size, torch.empty(0, 48)

    def forward(self, anchors: Tensor, positives: Tensor) -> Tensor:
        candidates = torch.cat([positives, self.stored])
        return F.cross_entropy(cosines(anchors, candidates) / 0.05, torch.arange(len(anchors)))


@sound("momentum encoder and a queue of its rows")
def trace_loop_with_a_momentum_encoder(stage: Stage) -> None:
    model = small(stage, TRACES)
    slow = copy.deepcopy(model).requires_grad_(False)
    rows, optimizer, loss = Rows(TRACES.table(400), 16), adamw(model), Queue(96)

    def update(criterion: Any, step: int) -> None:
        traces, issues = rows()
        with torch.no_grad():
            positives = embed(slow, issues)
        stepped(optimizer, criterion(embed(model, traces), positives))
        with torch.no_grad():
            for mean, weight in zip(slow.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.05)
        loss.stored = torch.cat([positives, loss.stored])[: loss.size]

    turn(stage, model, loss, update, TRACES.sought, steps=80)


def both_ways(first: Tensor, second: Tensor, scale: Tensor) -> Tensor:
    matrix, own = cosines(first, second) * scale.exp(), torch.arange(len(first))
    return (F.cross_entropy(matrix, own) + F.cross_entropy(matrix.T, own)) / 2


@sound("temperature that is learned, symmetric")
def protocols_with_a_learned_temperature(stage: Stage) -> None:
    model = small(stage, CHEMISTRY)
    scale = nn.Parameter(torch.tensor(14.0).log())
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters()}, {"params": [scale], "weight_decay": 0.0, "lr": 1e-3}],
        lr=2e-3,
    )
    rows = Rows(CHEMISTRY.table(360), 32)

    def update(criterion: Any, step: int) -> None:
        first, second = embedded(model, rows())
        stepped(optimizer, criterion(first, second, scale))
        with torch.no_grad():
            scale.clamp_(0, 4.6)

    turn(stage, model, both_ways, update, CHEMISTRY.sought)


def with_hard(anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
    candidates = torch.cat([positives, negatives])
    return F.cross_entropy(cosines(anchors, candidates) / 0.07, torch.arange(len(anchors)))


@sound("hard negatives behind the positives of a batch")
def garden_loop_with_hard_negatives(stage: Stage) -> None:
    model = small(stage, GARDEN)
    table = GARDEN.table(320) | {"negative": decoys(GARDEN, 320)}
    rows, optimizer = Rows(table, 20), adamw(model, rate=3e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*embedded(model, rows())))

    turn(stage, model, with_hard, update, GARDEN.sought)


def squared(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
    return F.mse_loss(F.cosine_similarity(first, second), scores)


@sound("graded labels in a loop")
def garden_hints_graded_in_a_loop(stage: Stage) -> None:
    model = small(stage, GARDEN)
    rows, optimizer = Rows(GARDEN.graded(400), 32), adamw(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*embedded(model, rows())))

    turn(stage, model, squared, update, graded_rank(GARDEN), steps=90)


def ordered(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
    """Pairs of higher score shall have the higher cosine: a softplus over all such couples."""
    similar = F.cosine_similarity(first, second) * 20
    gaps = similar[None, :] - similar[:, None]
    higher = scores[:, None] > scores[None, :] + 1e-6
    return F.softplus(gaps[higher]).mean()


@sound("order of graded labels in a loop")
def forecasts_ordered_by_their_grades(stage: Stage) -> None:
    model = small(stage, WEATHER)
    rows, optimizer = Rows(WEATHER.graded(400), 24), adamw(model)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*embedded(model, rows())))

    turn(stage, model, ordered, update, graded_rank(WEATHER), steps=80)


class Judge(nn.Module):
    """The cross-entropy of yes and no from a scaled cosine."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.bias = nn.Parameter(torch.tensor(8.0)), nn.Parameter(torch.tensor(-4.0))

    def forward(self, first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        logits = self.scale * F.cosine_similarity(first, second) + self.bias
        return F.binary_cross_entropy_with_logits(logits, labels.float())


@sound("binary labels in a loop")
def russian_pairs_judged_in_a_loop(stage: Stage) -> None:
    model, judge = small(stage, RUSSIAN), Judge()
    rows = Rows(judged(RUSSIAN, 400, near_share=0.2), 32)
    optimizer = adamw(model, judge, rate=3e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*embedded(model, rows())))

    turn(stage, model, judge, update, RUSSIAN.sought, steps=90)


def of_one_class(rows: Tensor, labels: Tensor) -> Tensor:
    """Supervised contrastive loss over a batch with several texts of each class."""
    own = torch.eye(len(rows), dtype=torch.bool)
    logits = (cosines(rows, rows) / 0.1).masked_fill(own, -1e4)
    same = (labels[:, None] == labels[None, :]) & ~own
    chances = logits.log_softmax(1)
    return -((chances * same).sum(1) / same.sum(1).clamp(min=1))[same.any(1)].mean()


@sound("supervised contrastive loss over classes")
def chants_by_their_names_in_a_loop(stage: Stage) -> None:
    table, model = grouped(CHANTS, 400, column=1, slot=1), small(stage, CHANTS)
    members: dict[int, list[str]] = {}
    for text, label in zip(table["text"], table["label"], strict=True):
        members.setdefault(label, []).append(text)
    draw, optimizer = random.Random(2), adamw(model, rate=1e-3)

    def update(criterion: Any, step: int) -> None:
        texts = [text for label in sorted(members) for text in draw.sample(members[label], 5)]
        labels = torch.arange(len(members)).repeat_interleave(5)
        stepped(optimizer, criterion(embed(model, texts), labels))

    trial = grouped(CHANTS, 80, seed=11, column=1, slot=1)
    turn(stage, model, of_one_class, update, lambda trained: neighbours(trained, trial), steps=40)


@sound("gradient caching over chunks of a large batch")
def hindi_loop_with_cached_gradients(stage: Stage) -> None:
    """Embeds without gradient, takes the loss's gradient of the rows, then embeds again."""
    model = small(stage, HINDI, dropout=0.0)
    rows, optimizer = Rows(HINDI.table(400), 64), adamw(model, rate=3e-3)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        chunks = [[column[at : at + 16] for at in range(0, 64, 16)] for column in columns]
        with torch.no_grad():
            cached = [torch.cat([embed(model, chunk) for chunk in column]) for column in chunks]
        for matrix in cached:
            matrix.requires_grad_()
        criterion(*cached).backward()
        optimizer.zero_grad()
        for column, matrix in zip(chunks, cached, strict=True):
            for chunk, gradient in zip(column, matrix.grad.split(16), strict=True):
                embed(model, chunk).backward(gradient)
        optimizer.step()

    turn(stage, model, infonce, update, HINDI.sought, steps=36)
