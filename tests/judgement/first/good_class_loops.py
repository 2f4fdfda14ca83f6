"""Loops of one's own over classes, graded pairs and triplets, with heads and margins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import CODE, HELPDESK, KITCHEN, SHOP
from tests.judgement.first.good_fields import CONTRACTS, LOGS, SONGS, requests
from tests.judgement.first.good_loops import adamw
from tests.judgement.first.good_materials import (
    graded_score,
    looped,
    matched,
    near_triplets,
    neighbours,
    of_classes,
    started,
    told_apart,
    weighed,
    weighed_score,
)
from tests.judgement.first.turns import Rows, cosines, embed, stepped
from tests.judgement.stage import Stage


def of_labels(model: Any, table: Any, optimizer: Any, size: int = 32) -> Callable[[Any, int], None]:
    """An update with the embeddings of all columns of texts and the labels of the last column."""
    rows = Rows(table, size)

    def update(criterion: Any, step: int) -> None:
        *texts, labels = rows()
        embeddings = [embed(model, column) for column in texts]
        stepped(optimizer, criterion(*embeddings, torch.tensor(labels)))

    return update


class Margins(nn.Module):
    """Classes by cosine with a margin for the own class, as CosFace, or an angle, as ArcFace."""

    def __init__(self, width: int, classes: int, *, margin: float, angle: bool = False) -> None:
        super().__init__()
        self.centres = nn.Parameter(torch.randn(classes, width) * 0.1)
        self.margin, self.angle = margin, angle

    def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
        near = cosines(rows, self.centres)
        own = F.one_hot(labels, len(self.centres)).bool()
        if self.angle:
            near = torch.where(own, (near.clamp(-0.999, 0.999).acos() + self.margin).cos(), near)
        else:
            near = near - self.margin * own
        return F.cross_entropy(16 * near, labels)


@sound("loop with a cosine margin for the own class")
def margin_by_cosine(stage: Stage) -> None:
    table, dev = of_classes(SONGS, 400), of_classes(SONGS, 120, seed=11)
    model = encoder(stage, words_of([table]), width=32, spread=0.05)
    loss = Margins(32, 8, margin=0.2)
    optimizer = torch.optim.AdamW([*model.parameters(), *loss.parameters()], lr=2e-3)
    update = of_labels(model, table, optimizer)
    looped(stage, model, loss, update, lambda model: neighbours(model, dev), steps=60)


@sound("loop with an angle for the own class")
def margin_by_angle(stage: Stage) -> None:
    table, dev = of_classes(KITCHEN, 400), of_classes(KITCHEN, 120, seed=11)
    model = encoder(stage, words_of([table]), width=48, spread=0.05)
    loss = Margins(48, 12, margin=0.15, angle=True)
    optimizer = torch.optim.AdamW([
        {"params": model.parameters()}, {"params": loss.parameters(), "lr": 1e-2}
    ], lr=2e-3)  # fmt: skip
    update = of_labels(model, table, optimizer)
    looped(stage, model, loss, update, lambda model: neighbours(model, dev), steps=60)


def supervised(rows: Tensor, labels: Tensor) -> Tensor:
    """SupCon: all rows of the own class are positives."""
    own = torch.eye(len(rows), dtype=torch.bool)
    logits = (cosines(rows, rows) / 0.1).masked_fill(own, -1e9)
    same = (labels[:, None] == labels) & ~own
    chances = F.log_softmax(logits, dim=1).masked_fill(~same, 0)
    counts = same.sum(1)
    return -(chances.sum(1) / counts.clamp(min=1))[counts > 0].mean()


@sound("loop with all rows of a class as positives")
def all_rows_of_a_class(stage: Stage) -> None:
    table, dev = requests(320), requests(80, seed=11)
    table = {"text": table["request"], "label": table["label"]}
    dev = {"text": dev["request"], "label": dev["label"]}
    model = encoder(stage, words_of([table]), width=32, spread=0.05)
    update = of_labels(model, table, adamw(model), 48)
    looped(stage, model, supervised, update, lambda model: neighbours(model, dev), steps=40)


@sound("loop over proxies of classes")
def proxies_of_codes(stage: Stage) -> None:
    """As Proxy-NCA, with a higher rate for the proxies."""
    table, dev = of_classes(CODE, 300), of_classes(CODE, 75, seed=11)
    model = encoder(stage, words_of([table]), width=40, spread=0.05)
    proxies = nn.Parameter(torch.randn(8, 40))

    def loss(rows: Tensor, labels: Tensor) -> Tensor:
        distances = 2 - 2 * cosines(rows, proxies)
        return F.cross_entropy(-4 * distances, labels)

    optimizer = torch.optim.AdamW([
        {"params": model.parameters()}, {"params": [proxies], "lr": 2e-2, "weight_decay": 0.0}
    ], lr=2e-3)  # fmt: skip
    update = of_labels(model, table, optimizer, 24)
    looped(stage, model, loss, update, lambda model: neighbours(model, dev))


@sound("loop over a linear head with smoothed labels, head dropped in use")
def linear_head_with_smoothed_labels(stage: Stage) -> None:
    table, dev = of_classes(CONTRACTS, 288), of_classes(CONTRACTS, 90, seed=11)
    model = encoder(stage, words_of([table]), width=32, spread=0.05)
    head = nn.Linear(32, 9)

    def loss(rows: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(head(rows), labels, label_smoothing=0.1)

    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=2e-3)
    update = of_labels(model, table, optimizer, 24)
    looped(stage, model, loss, update, lambda model: neighbours(model, dev))


@sound("loop of pairs that match or differ by distance, with a margin")
def pairs_by_distance(stage: Stage) -> None:
    """As Hadsell: squared distances of unit vectors, and a margin of 1 for pairs that differ."""
    table = matched(HELPDESK, 320)

    def loss(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
        distances = (F.normalize(first) - F.normalize(second)).norm(dim=1)
        apart = F.relu(1 - distances).square()
        return torch.where(labels == 1, distances.square(), apart).mean() / 2

    model = started(stage, table, HELPDESK, steps=10)
    update = of_labels(model, table, adamw(model, 2e-3), 32)
    looped(stage, model, loss, update, told_apart(HELPDESK, 80), steps=60)


@sound("loop of a hinge over triplets by cosine")
def hinge_over_triplets(stage: Stage) -> None:
    table = near_triplets(LOGS, 320, 1)
    model = started(stage, table, LOGS, steps=5)
    distance = nn.TripletMarginWithDistanceLoss(
        distance_function=lambda a, b: 1 - F.cosine_similarity(a, b), margin=0.2
    )
    rows, optimizer = Rows(table, 24), adamw(model, 1e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    looped(stage, model, distance, update, LOGS.sought, steps=60)


@sound("loop that fits cosines to grades by Huber's loss")
def grades_by_huber(stage: Stage) -> None:
    table = SHOP.graded(310)

    def loss(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        return F.smooth_l1_loss(F.cosine_similarity(first, second), grades, beta=0.2)

    model = started(stage, table, SHOP, steps=4)
    update = of_labels(model, table, adamw(model, 7e-4), 24)
    looped(stage, model, loss, update, graded_score(SHOP), steps=60)


@sound("loop over the order of graded pairs")
def order_of_pairs_by_ranknet(stage: Stage) -> None:
    """As RankNet: of two pairs of a batch, the one of the higher grade has the higher cosine."""
    table = weighed(KITCHEN, 400, (1, 2, 6))

    def loss(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
        near = F.cosine_similarity(first, second)
        higher = grades[:, None] > grades
        return F.softplus(-10 * (near[:, None] - near))[higher].mean()

    model = encoder(stage, words_of([table]), width=48, spread=0.05)
    update = of_labels(model, table, adamw(model, 2e-3), 32)
    looped(stage, model, loss, update, weighed_score(KITCHEN, (1, 2, 6)))
