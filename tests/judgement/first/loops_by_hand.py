"""Sound set-ups: loops of one's own over very different texts and with losses of one's own."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.everyday_subjects import PARTS
from tests.judgement.first.expert_subjects import CAPTIONS, CHINESE
from tests.judgement.first.loop_materials import Update, looped
from tests.judgement.first.loose_subjects import (
    numbers,
    payments,
    review_pairs,
    tickets,
)
from tests.judgement.first.subject_kit import neighbours, rises
from tests.judgement.first.turns import Rows, cosines, embed, stepped
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, retrieval


def _vectors(model: Any, column: Sequence[Any]) -> Tensor:
    """Embeddings of texts; numbers as they are."""
    return embed(model, column) if isinstance(column[0], str) else torch.tensor(column)


def _steps(
    model: Any, table: Mapping[str, Sequence[Any]], optimizer: Any, size: int = 32
) -> Update:
    """The step of a loop over a table whose rows are shuffled anew with each epoch."""
    rows = Rows(table, size)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(_vectors(model, column) for column in rows())))

    return update


class WithTemperature(nn.Module):
    """InfoNCE in both directions with a learned temperature, as in CLIP."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(14.3).log())

    def forward(self, anchors: Tensor, positives: Tensor) -> Tensor:
        logits = cosines(anchors, positives) * self.scale.exp().clamp(max=100)
        own = torch.arange(len(logits))
        return (functional.cross_entropy(logits, own) + functional.cross_entropy(logits.T, own)) / 2


@sound("loop with a learned temperature, both directions")
def loop_of_translations_with_learned_temperature(stage: Stage) -> None:
    """Translations as in CLIP: the scale is learned with the encoder and kept below a hundred."""
    model, loss = encoder(stage, CHINESE.words(), spread=0.05), WithTemperature()
    optimizer = torch.optim.AdamW([*model.parameters(), *loss.parameters()], lr=1e-3)
    update = _steps(model, CHINESE.pairs(500), optimizer)
    rises(stage, looped(stage, model, loss, update, steps=100, score=CHINESE.sought(60)), 0.1)


def _supervised(rows: Tensor, labels: Tensor) -> Tensor:
    """Supervised contrastive loss: all other rows of the class are positives."""
    itself = torch.eye(len(rows), dtype=torch.bool)
    logits = (cosines(rows, rows) / 0.1).masked_fill(itself, -1e4)
    same = (labels[:, None] == labels) & ~itself
    of_positives = (functional.log_softmax(logits, dim=1) * same).sum(1)
    return -(of_positives / same.sum(1).clamp(min=1))[same.any(1)].mean()


@sound("loop of the supervised contrastive loss")
def loop_of_tickets_with_many_positives(stage: Stage) -> None:
    """All tickets of one category in a batch of 48 are positives of each other."""
    table = tickets(400)
    model = encoder(stage, words_of([table]), spread=0.05)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    score = neighbours(tickets(100, held_out=True))
    update = _steps(model, table, optimizer, 48)
    rises(stage, looped(stage, model, _supervised, update, steps=70, score=score), 0.1)


class Centres(nn.Module):
    """Cross-entropy over cosines with a learned centre of each class."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.centres = nn.Parameter(torch.randn(classes, width))

    def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(cosines(rows, self.centres) / 0.1, labels)


@sound("loop with learned centres of classes")
def loop_of_payments_around_centres(stage: Stage) -> None:
    """A normalised softmax over seven categories; the centres learn at a rate of their own."""
    table = payments(420)
    model = encoder(stage, words_of([table]), spread=0.05)
    loss = Centres(7, 48)
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters(), "lr": 1e-3}, {"params": loss.parameters(), "lr": 1e-2}]
    )
    score = neighbours(payments(100, held_out=True))
    update = _steps(model, table, optimizer)
    rises(stage, looped(stage, model, loss, update, steps=100, score=score), 0.1)


def _ranked_above(anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
    """Pairwise logistic loss: the positive above the hard negative and above all others."""
    right = (functional.normalize(anchors) * functional.normalize(positives)).sum(1)
    counterparts = torch.cat([cosines(anchors, positives), cosines(anchors, negatives)], dim=1)
    own = torch.eye(len(anchors), dtype=torch.bool)
    gaps = 20 * (right[:, None] - counterparts)[~torch.cat([own, torch.zeros_like(own)], dim=1)]
    return functional.softplus(-gaps).mean()


@sound("loop of a pairwise logistic loss, schedule")
def loop_of_parts_ranked_above_others(stage: Stage) -> None:
    """Each part above all others of the batch and above a near one; the rate falls by a cosine."""
    model = encoder(stage, PARTS.words(), spread=0.05)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    plain = _steps(model, PARTS.with_negatives(400), optimizer, 16)

    def update(criterion: Any, step: int) -> None:
        plain(criterion, step)
        schedule.step()

    score = PARTS.sought(60)
    rises(stage, looped(stage, model, _ranked_above, update, steps=100, score=score), 0.1)


def _uncorrelated(first: Tensor, second: Tensor, grades: Tensor) -> Tensor:
    """One less the correlation of cosines and grades."""
    near = functional.cosine_similarity(first, second)
    near, grades = near - near.mean(), grades.float() - grades.float().mean()
    return 1 - (near * grades).sum() / (near.norm() * grades.norm() + 1e-8)


@sound("loop of a correlation with grades")
def loop_of_reviews_by_correlation(stage: Stage) -> None:
    """The cosines of a batch of review pairs are correlated with the nearness of their stars."""
    table = review_pairs(300)
    model = encoder(stage, words_of([table]), spread=0.05)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    held_out = review_pairs(80, held_out=True)

    def score(model: Any) -> float:
        return correlation(model, held_out)

    update = _steps(model, table, optimizer)
    rises(stage, looped(stage, model, _uncorrelated, update, steps=90, score=score), 0.1)


def _covariant(first: Tensor, second: Tensor) -> Tensor:
    """VICReg: views are near, and each dimension varies and tells something of its own."""
    value = 25 * functional.mse_loss(first, second)
    for rows in (first, second):
        value = value + 25 * functional.relu(1 - (rows.var(0) + 1e-4).sqrt()).mean()
        centred = rows - rows.mean(0)
        shared = centred.T @ centred / (len(rows) - 1)
        value = value + (shared - shared.diagonal().diag()).pow(2).sum() / rows.shape[1]
    return value


@sound("loop without negatives, variance and covariance")
def loop_of_captions_without_negatives(stage: Stage) -> None:
    """Two wordings of a caption are views; variance and covariance keep them from one point."""
    model = encoder(stage, CAPTIONS.words(), spread=0.05)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    update = _steps(model, CAPTIONS.pairs(500), optimizer, 64)
    score = CAPTIONS.sought(60)
    rises(stage, looped(stage, model, _covariant, update, steps=160, score=score), 0.1)


class Momentum:
    """InfoNCE among the keys of a slow copy of an encoder, with a queue of keys for each side."""

    def __init__(self, model: Any, size: int = 128) -> None:
        self.slow, self.side, self._size = copy.deepcopy(model), 0, size
        self._queues = [torch.empty(0, 48), torch.empty(0, 48)]

    def follow(self, model: Any, share: float = 0.1) -> None:
        with torch.no_grad():
            for slow, fast in zip(self.slow.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, share)

    def __call__(self, anchors: Tensor, positives: Tensor) -> Tensor:
        candidates = torch.cat([positives, self._queues[self.side]])
        self._queues[self.side] = candidates.detach()[: self._size]
        return functional.cross_entropy(
            cosines(anchors, candidates) / 0.07, torch.arange(len(anchors))
        )


@sound("loop with a momentum encoder and a queue, both sides in turn")
def loop_of_numbers_with_momentum(stage: Stage) -> None:
    """MoCo over amounts in words and digits: either side is the query in turn."""
    table, held_out = numbers(480), numbers(60, held_out=True)
    model = encoder(stage, words_of([table]), spread=0.05, dropout=0.0)
    loss, rows = Momentum(model), Rows(table, 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def update(criterion: Any, step: int) -> None:
        columns, loss.side = rows(), step % 2
        query, key = columns[:: -1 if loss.side else 1]
        with torch.no_grad():
            keys = embed(loss.slow, key)
        stepped(optimizer, criterion(embed(model, query), keys))
        loss.follow(model)

    def score(model: Any) -> float:
        return retrieval(model, held_out)

    rises(stage, looped(stage, model, loss, update, steps=200, score=score), 0.1)
