"""Sound loops that people write themselves, and sound losses over processes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.judgement.case import sound
from tests.judgement.first.reported_encoders import among_classmates, graded, in_grades
from tests.judgement.first.reported_loops import (
    RATE,
    Columns,
    Loop,
    embed,
    gains,
    infonce,
    shuffled,
)
from tests.judgement.first.reported_own_loops import gathered, process
from tests.judgement.stage import Stage, classes, facts, pairs, passage, triplets


@sound("loop")
def infonce_at_a_low_temperature(stage: Stage) -> None:
    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        logits = F.normalize(anchors, dim=-1) @ F.normalize(positives, dim=-1).T / 0.02
        return F.cross_entropy(logits, torch.arange(len(anchors)))

    gains(stage, Loop(loss))


@sound("loop")
def both_directions_as_in_clip(stage: Stage) -> None:
    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        return (infonce(anchors, positives) + infonce(positives, anchors)) / 2

    gains(stage, Loop(loss))


@sound("loop")
def hard_negatives_beside_those_of_the_batch(stage: Stage) -> None:
    def loss(first: torch.Tensor, second: torch.Tensor, third: torch.Tensor) -> torch.Tensor:
        candidates = F.normalize(torch.cat([second, third]), dim=-1)
        return F.cross_entropy(
            20 * F.normalize(first, dim=-1) @ candidates.T, torch.arange(len(first))
        )

    gains(stage, Loop(loss, triplets()))


class Sigmoids(nn.Module):
    """Each cosine is a yes or a no, as in SigLIP, with a scale and a bias that are learned."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.bias = nn.Parameter(torch.tensor(2.3)), nn.Parameter(torch.tensor(-7.0))

    def forward(self, anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        cosines = F.normalize(anchors, dim=-1) @ F.normalize(positives, dim=-1).T
        signs = 2 * torch.eye(len(anchors)) - 1
        logits = signs * (self.scale.exp() * cosines + self.bias)
        return -F.logsigmoid(logits).sum() / len(anchors)


@sound("loop")
def sigmoids_as_in_siglip(stage: Stage) -> None:
    gains(stage, Loop(Sigmoids()))


@sound("loop")
def queue_of_earlier_passages(stage: Stage) -> None:
    """Negatives are also the passages of the last four batches, without gradient."""
    kept: list[torch.Tensor] = []

    def loss(anchors: torch.Tensor, positives: torch.Tensor, queue: torch.Tensor) -> torch.Tensor:
        candidates = F.normalize(torch.cat([positives, queue]), dim=-1)
        logits = 20 * F.normalize(anchors, dim=-1) @ candidates.T
        return F.cross_entropy(logits, torch.arange(len(anchors)))

    def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        first, second = (embed(model, column) for column in columns)
        queue = torch.cat(kept) if kept else second.detach().flip(0)[:0]
        value = criterion(first, second, queue)
        kept.insert(0, second.detach())
        del kept[4:]
        return value

    gains(stage, Loop(loss, step=step, views=lambda first, second, queue: (first, second)))


@sound("loop")
def gradients_of_two_batches_averaged(stage: Stage) -> None:
    state = {"count": 0}

    def halved(optimizer: torch.optim.Optimizer, value: torch.Tensor) -> None:
        state["count"] += 1
        earlier = state.get("rows")
        (value / 2).backward()
        weights = optimizer.param_groups[0]["params"]
        if state["count"] % 2:
            state["rows"] = [None if row.grad is None else row.grad.clone() for row in weights]
            return
        for weight, row in zip(weights, earlier or (), strict=True):
            if row is not None:
                weight.grad += row
        optimizer.step()

    gains(stage, Loop(update=halved, steps=100))


@sound("loop")
def warm_up_and_cosine(stage: Stage) -> None:
    def schedule(optimizer: torch.optim.Optimizer) -> Any:
        rates = torch.optim.lr_scheduler
        parts = [rates.LinearLR(optimizer, 0.01, 1.0, 15), rates.CosineAnnealingLR(optimizer, 45)]
        return rates.SequentialLR(optimizer, parts, [15])

    gains(
        stage,
        Loop(optimizer=lambda weights: torch.optim.AdamW(weights, lr=1e-3), schedule=schedule),
    )


@sound("loop")
def classes_with_several_positives(stage: Stage) -> None:
    """Supervised contrastive learning: four classes of a batch have four rows each."""

    def loss(first: torch.Tensor, second: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = 10 * F.normalize(first, dim=-1) @ F.normalize(second, dim=-1).T
        same = (labels[:, None] == labels).float()
        return -((logits.log_softmax(1) * same).sum(1) / same.sum(1)).mean()

    def grouped(table: Mapping[str, Sequence[Any]]) -> Iterator[Columns]:
        draw, members = random.Random(0), dict[int, list[str]]()
        for text, label in zip(*table.values(), strict=True):
            members.setdefault(label, []).append(text)
        while True:
            labels = draw.sample(sorted(members), 4)
            drawn = [draw.sample(members[label], 8) for label in labels]
            yield [
                [text for texts in drawn for text in texts[:4]],
                [text for texts in drawn for text in texts[4:]],
                [label for label in labels for _ in range(4)],
            ]

    gains(
        stage,
        Loop(
            loss,
            classes(320),
            batches=grouped,
            views=lambda first, second, labels: (first, second),
            optimizer=lambda weights: torch.optim.AdamW(weights, lr=1e-3),
        ),
        among_classmates,
    )


@sound("loop")
def variance_and_covariance(stage: Stage) -> None:
    """VICReg: no negatives; the spread of each dimension is kept up instead."""

    def quick(weights: Any) -> torch.optim.Optimizer:
        return torch.optim.AdamW(weights, lr=2e-3)

    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        value = 25 * F.mse_loss(anchors, positives)
        for rows in (anchors, positives):
            spread = (rows.var(0) + 1e-4).sqrt()
            centred = rows - rows.mean(0)
            products = centred.T @ centred / (len(rows) - 1)
            value = value + 25 * F.relu(1 - spread).mean()
            value = value + (products.square().sum() - products.diag().square().sum()) / 32
        return value

    gains(stage, Loop(loss, optimizer=quick, steps=150))


@sound("loop")
def automatic_bfloat16(stage: Stage) -> None:
    def step(model: Any, criterion: Any, columns: Columns) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            rows = [embed(model, column) for column in columns]
        return criterion(*(row.float() for row in rows))

    gains(stage, Loop(step=step))


@sound("loop")
def orders_of_graded_pairs(stage: Stage) -> None:
    """CoSENT in a loop: cosines of all pairs of pairs are compared by their scores."""

    def loss(left: torch.Tensor, right: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        cosines = 20 * F.cosine_similarity(left, right)
        gaps = cosines[None, :] - cosines[:, None]
        wrong = gaps[scores[:, None] > scores[None, :]]
        return torch.cat([torch.zeros(1), wrong]).logsumexp(0)

    gains(
        stage,
        Loop(loss, graded(), views=lambda left, right, scores: (left, right)),
        in_grades,
    )


@sound("loop")
def hinge_of_the_hardest_other(stage: Stage) -> None:
    """A margin of 0.2 against the most similar passage of another question."""

    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        cosines = F.normalize(anchors, dim=-1) @ F.normalize(positives, dim=-1).T
        others = cosines.masked_fill(torch.eye(len(cosines), dtype=torch.bool), -2)
        return F.relu(0.2 - cosines.diag() + others.amax(1)).mean()

    gains(stage, Loop(loss, optimizer=lambda weights: torch.optim.AdamW(weights, lr=RATE)))


@sound("loop")
def easy_before_hard(stage: Stage) -> None:
    """Batches are random at first; later each holds passages of one place."""
    table = pairs(320)
    made = facts(320)

    def curriculum(columns: Mapping[str, Sequence[Any]]) -> Iterator[Columns]:
        plain = shuffled(columns)
        for _ in range(30):
            yield next(plain)
        draw = random.Random(1)
        while True:
            some = draw.sample(made, 8)
            near = [(draw.choice(made)[0], draw.choice(made)[1], *fact[2:]) for fact in some]
            both = some + near
            yield [
                [f"ka {verb} {topic} {place} {by} ?" for verb, topic, place, by, *_ in both],
                [passage(fact) for fact in both],
            ]

    gains(stage, Loop(table=table, batches=curriculum))


def gathered_and_masked(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Positives and anchors of all processes are candidates, and labels fit their places."""
    first, second = F.normalize(anchors, dim=-1), F.normalize(positives, dim=-1)
    others, candidates = torch.cat(gathered(first)), torch.cat(gathered(second))
    places = torch.arange(len(first)) + process() * len(first)
    among = 20 * first @ others.T
    among = among.scatter(1, places[:, None], -1e4)
    return F.cross_entropy(torch.cat([20 * first @ candidates.T, among], 1), places)


@sound("processes")
def positives_and_anchors_gathered_apart(stage: Stage) -> None:
    stage.audit(gathered_and_masked, uneven=False)
