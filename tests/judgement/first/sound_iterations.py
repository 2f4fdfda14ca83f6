"""Sound training loops of one's own."""

from __future__ import annotations

import copy
import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.judgement.case import sound
from tests.judgement.first.own_loops import Loop, embed, infonce
from tests.judgement.first.sound_loops import gains
from tests.judgement.stage import Stage, classes, facts, lookalike, passage, question

Columns = list[list[Any]]


def drawn(table: dict[str, list[Any]], size: int = 16) -> Any:
    """Batches of a table without end, each row once an epoch."""
    rows, order = list(zip(*table.values(), strict=True)), list[int]()
    draw = random.Random(5)
    while True:
        if len(order) < size:
            order = draw.sample(range(len(rows)), len(rows))
        batch, order = order[:size], order[size:]
        yield [list(column) for column in zip(*(rows[at] for at in batch), strict=True)]


def cosines(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return F.normalize(first, dim=-1) @ F.normalize(second, dim=-1).T


@sound("loop")
def both_directions_of_a_ranking(stage: Stage) -> None:
    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        logits, own = cosines(anchors, positives) / 0.05, torch.arange(len(anchors))
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2

    gains(stage, Loop(loss))


@sound("loop")
def sigmoids_of_all_combinations(stage: Stage) -> None:
    """Each combination of texts is classified by itself, from a bias of -10."""

    class Sigmoids(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(10.0).log())
            self.bias = nn.Parameter(torch.tensor(-10.0))

        def forward(self, anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
            logits = self.scale.exp() * cosines(anchors, positives) + self.bias
            signs = 2 * torch.eye(len(anchors)) - 1
            return -F.logsigmoid(signs * logits).sum() / len(anchors)

    gains(stage, Loop(Sigmoids()))


@sound("loop")
def queue_of_passages_of_a_follower(stage: Stage) -> None:
    """A slow copy of the encoder makes the passages; its last ones are further negatives."""
    follower, queue = list[Any](), list[torch.Tensor]()

    def loss(anchors: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        logits = cosines(anchors, torch.cat([keys, *queue])) / 0.07
        return F.cross_entropy(logits, torch.arange(len(anchors)))

    def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        if not follower:
            follower.append(copy.deepcopy(model))
        with torch.no_grad():
            for slow, weight in zip(follower[0].parameters(), model.parameters(), strict=True):
                slow.lerp_(weight, 0.1)
            keys = embed(follower[0], columns[1])
        cost = criterion(embed(model, columns[0]), keys)
        queue.append(keys)
        del queue[:-4]
        return cost

    gains(stage, Loop(loss, step=step))


@sound("loop")
def classes_draw_their_members_together(stage: Stage) -> None:
    """Supervised contrastive: every other text of the class is a positive."""
    batches = drawn(classes(320, of_each=16), 32)
    labels: list[Any] = []

    def loss(anchors: torch.Tensor, same: torch.Tensor) -> torch.Tensor:
        kinds = torch.tensor(labels[-1])
        mates = (kinds[:, None] == kinds).float()
        shares = F.log_softmax(cosines(anchors, same) / 0.1, dim=1)
        return -((mates * shares).sum(1) / mates.sum(1)).mean()

    def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        texts, kinds = next(batches)
        labels.append(kinds)
        return criterion(embed(model, texts), embed(model, texts))

    gains(stage, Loop(loss, step=step))


@sound("loop")
def hard_negatives_behind_the_passages(stage: Stage) -> None:
    """The candidates of a question are all passages and all lookalikes of the batch."""
    rows = facts(240)
    table = {"a": map(question, rows), "b": map(passage, rows), "c": map(lookalike, rows)}
    batches = drawn({name: list(texts) for name, texts in table.items()})

    def loss(anchors: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        logits = cosines(anchors, candidates) / 0.05
        return F.cross_entropy(logits, torch.arange(len(anchors)))

    def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        anchors, near, far = next(batches)
        return criterion(embed(model, anchors), embed(model, near + far))

    gains(stage, Loop(loss, step=step))


@sound("loop")
def margin_over_the_hardest_of_the_batch(stage: Stage) -> None:
    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        table = cosines(anchors, positives)
        near = table.diag()
        far = (table - 3 * torch.eye(len(table))).topk(3, dim=1).values
        return F.softplus(10 * (far - near[:, None] + 0.1)).mean() / 10

    gains(stage, Loop(loss))


@sound("loop")
def alignment_and_uniformity(stage: Stage) -> None:
    """Two terms: partners lie close, and texts spread over the sphere."""

    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        first, second = F.normalize(anchors, dim=-1), F.normalize(positives, dim=-1)
        spread = [torch.pdist(rows).square().mul(-2).exp().mean().log() for rows in (first, second)]
        return (first - second).square().sum(1).mean() + sum(spread) / 2

    gains(stage, Loop(loss))


@sound("loop")
def correlations_of_dimensions_made_one(stage: Stage) -> None:
    """As in Barlow Twins, with wide batches: no negatives at all."""
    rows = facts(640)
    batches = drawn({"a": list(map(question, rows)), "b": list(map(passage, rows))}, 64)

    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        first, second = ((rows - rows.mean(0)) / (rows.std(0) + 1e-4)
                         for rows in (anchors, positives))  # fmt: skip
        table = first.T @ second / len(first)
        off_diagonal = table[~torch.eye(len(table), dtype=torch.bool)]
        return (1 - table.diag()).square().sum() + 0.02 * off_diagonal.square().sum()

    def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        anchors, positives = next(batches)
        return criterion(embed(model, anchors), embed(model, positives))

    gains(stage, Loop(loss, step=step))


@sound("loop")
def rate_by_a_cosine_with_warm_up(stage: Stage) -> None:
    schedules: list[Any] = []

    def optimizer(weights: Any) -> torch.optim.Optimizer:
        adam = torch.optim.AdamW(weights, lr=1e-3, weight_decay=0.01)
        phases = [
            torch.optim.lr_scheduler.LinearLR(adam, 0.1, total_iters=5),
            torch.optim.lr_scheduler.CosineAnnealingLR(adam, 60, eta_min=1e-4),
        ]
        schedules.append(torch.optim.lr_scheduler.SequentialLR(adam, phases, [5]))
        return adam

    def update(adam: torch.optim.Optimizer, cost: torch.Tensor) -> None:
        cost.backward()
        nn.utils.clip_grad_norm_(adam.param_groups[0]["params"], 1.0)
        adam.step()
        schedules[-1].step()

    gains(stage, Loop(infonce, optimizer=optimizer, update=update))
