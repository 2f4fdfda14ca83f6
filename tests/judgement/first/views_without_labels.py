"""Sound set-ups without labels: two views of a text, denoising, tension, whitening and others."""

from __future__ import annotations

import copy
import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.fields_of_records import (
    DISHES,
    EXHIBITS,
    adam,
    columns,
    corpus,
    fresh,
    sought_among_many,
    thinned,
)
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


@sound("a text and itself, apart by dropout")
def exhibits_twice_through_dropout(stage: Stage) -> None:
    texts = corpus(EXHIBITS, 240)
    model = fresh(stage, EXHIBITS, dropout=0.15)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, {"text": texts, "again": texts}, model,
        per_device_train_batch_size=32, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, sought_among_many(EXHIBITS))


@sound("contrastive tension with negatives of the batch")
def tension_of_two_encoders_over_recipes(stage: Stage) -> None:
    texts = corpus(DISHES, 240)
    model = fresh(stage, DISHES)
    trainer = stage.trainer(
        losses.ContrastiveTensionLossInBatchNegatives, {"text": texts, "again": texts}, model,
        per_device_train_batch_size=24, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, sought_among_many(DISHES))


@sound("views of a text that lack words")
def loop_over_exhibits_without_some_words(stage: Stage) -> None:
    model, draw = fresh(stage, EXHIBITS), random.Random(1)
    rows, optimizer = Rows({"text": corpus(EXHIBITS, 240)}, 32), adam(model)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        views = [thinned(texts, draw, 0.2), thinned(texts, draw, 0.2)]
        stepped(optimizer, criterion(*columns(model, views)))

    turn(stage, model, infonce, update, sought_among_many(EXHIBITS), steps=40)


def variance_and_covariance(first: Tensor, second: Tensor) -> Tensor:
    """VICReg: views are near, dimensions vary by 1 and do not covary."""
    loss = 25 * F.mse_loss(first, second)
    for rows in (first, second):
        loss = loss + 25 * F.relu(1 - (rows.var(0) + 1e-4).sqrt()).mean()
        centred = rows - rows.mean(0)
        covariance = centred.T @ centred / (len(rows) - 1)
        beside = covariance - torch.diag(covariance.diagonal())
        loss = loss + beside.square().sum() / rows.shape[1]
    return loss


@sound("variance, invariance and covariance of two views")
def loop_of_vicreg_over_exhibits(stage: Stage) -> None:
    model, draw = fresh(stage, EXHIBITS), random.Random(3)
    rows, optimizer = Rows({"text": corpus(EXHIBITS, 320)}, 64), adam(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        views = [thinned(texts, draw, 0.2), thinned(texts, draw, 0.2)]
        stepped(optimizer, criterion(*columns(model, views)))

    turn(stage, model, variance_and_covariance, update, sought_among_many(EXHIBITS), steps=40)


def whitened(rows: Tensor) -> Tensor:
    """Rows whose dimensions are uncorrelated, of variance 1, by Cholesky."""
    centred = rows - rows.mean(0)
    covariance = centred.T @ centred / (len(rows) - 1) + 1e-3 * torch.eye(rows.shape[1])
    root = torch.linalg.cholesky(covariance)
    return torch.linalg.solve_triangular(root, centred.T, upper=False).T


def distance_of_whitened_views(first: Tensor, second: Tensor) -> Tensor:
    """W-MSE: views are near after the batch is whitened."""
    first, second = whitened(torch.cat([first, second])).chunk(2)
    return (2 - 2 * F.cosine_similarity(first, second)).mean()


@sound("distance of whitened views")
def loop_over_whitened_recipes(stage: Stage) -> None:
    model, draw = fresh(stage, DISHES, width=32), random.Random(4)
    rows, optimizer = Rows({"text": corpus(DISHES, 320)}, 80), adam(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        views = [thinned(texts, draw, 0.2), thinned(texts, draw, 0.2)]
        stepped(optimizer, criterion(*columns(model, views)))

    turn(stage, model, distance_of_whitened_views, update, sought_among_many(DISHES), steps=40)


def several_positives(*views: Tensor) -> Tensor:
    """InfoNCE of each view of a text with all further views of it as positives."""
    count, size = len(views), len(views[0])
    rows = torch.cat(views)
    own = torch.eye(count * size, dtype=torch.bool)
    logits = (cosines(rows, rows) / 0.1).masked_fill(own, -1e9)
    same = torch.eye(size, dtype=torch.bool).repeat(count, count) & ~own
    return -F.log_softmax(logits, 1)[same].mean()


@sound("four views of a text")
def loop_with_four_views_of_exhibits(stage: Stage) -> None:
    model, draw = fresh(stage, EXHIBITS), random.Random(5)
    rows, optimizer = Rows({"text": corpus(EXHIBITS, 200)}, 16), adam(model)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        views = [thinned(texts, draw, 0.25) for _ in range(4)]
        stepped(optimizer, criterion(*columns(model, views)))

    turn(stage, model, several_positives, update, sought_among_many(EXHIBITS), steps=40)


class Queue:
    """InfoNCE of views among keys of a slow encoder and its keys of earlier batches."""

    def __init__(self, size: int) -> None:
        self._keys, self._size = torch.empty(0, 48), size

    def __call__(self, views: Tensor, keys: Tensor) -> Tensor:
        candidates = torch.cat([keys, self._keys])
        logits = cosines(views, candidates) / 0.07
        self._keys = candidates.detach()[: self._size]
        return F.cross_entropy(logits, torch.arange(len(views)))


@sound("momentum encoder and a queue of its keys, views of one text")
def loop_of_moco_over_recipes(stage: Stage) -> None:
    model, draw = fresh(stage, DISHES), random.Random(6)
    slow = copy.deepcopy(model).requires_grad_(False)
    rows, optimizer = Rows({"text": corpus(DISHES, 480)}, 24), adam(model)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        views = embed(model, thinned(texts, draw, 0.2))
        slow.train()
        with torch.no_grad():
            keys = embed(slow, thinned(texts, draw, 0.2))
        stepped(optimizer, criterion(views, keys))
        with torch.no_grad():
            for late, weight in zip(slow.parameters(), model.parameters(), strict=True):
                late.lerp_(weight, 0.1)

    turn(stage, model, Queue(120), update, sought_among_many(DISHES), steps=60)


def restored(logits: Tensor, words: Tensor) -> Tensor:
    """Mean negative log-likelihood of the words of a text."""
    return -(F.log_softmax(logits, 1) * words).sum(1).div(words.sum(1)).mean()


@sound("a contrastive loss and the restoring of deleted words together")
def loop_that_restores_deleted_words(stage: Stage) -> None:
    texts, draw = corpus(EXHIBITS, 320), random.Random(7)
    model = fresh(stage, EXHIBITS)
    decoder = nn.Linear(48, len(model.tokenizer))
    rows, optimizer = Rows({"text": texts}, 32), adam(model, decoder)

    def update(criterion: Any, step: int) -> None:
        (batch,) = rows()
        words = torch.zeros(len(batch), len(model.tokenizer))
        for row, text in enumerate(batch):
            words[row, model.tokenizer(text, add_special_tokens=False)["input_ids"]] = 1
        first, second = columns(model, [thinned(batch, draw, 0.3), batch])
        loss = criterion(first, second) + 0.1 * restored(decoder(first), words)
        stepped(optimizer, loss)

    turn(stage, model, infonce, update, sought_among_many(EXHIBITS), steps=40)


@sound("two crops of one text, pooled by the maximum")
def loop_over_two_crops_of_exhibits(stage: Stage) -> None:
    """A crop is seven words in ten of a text, in one piece."""
    model, draw = fresh(stage, EXHIBITS, pooling="max"), random.Random(9)
    rows, optimizer = Rows({"text": corpus(EXHIBITS, 320)}, 32), adam(model)

    def crop(text: str) -> str:
        words = text.split()
        length = max(3, 7 * len(words) // 10)
        start = draw.randint(0, max(0, len(words) - length))
        return " ".join(words[start : start + length])

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        views = [[crop(text) for text in texts] for _ in range(2)]
        stepped(optimizer, criterion(*columns(model, views)))

    turn(stage, model, infonce, update, sought_among_many(EXHIBITS), steps=50)


def aligned_and_uniform(first: Tensor, second: Tensor) -> Tensor:
    """Alignment of views, and uniformity of each view's rows on the sphere."""
    first, second = F.normalize(first), F.normalize(second)
    alignment = (first - second).square().sum(1).mean()
    spread = [torch.pdist(rows).square().mul(-2).exp().mean().log() for rows in (first, second)]
    return alignment + sum(spread) / 2


@sound("alignment and uniformity of views by dropout")
def loop_of_alignment_and_spread_of_views(stage: Stage) -> None:
    model = fresh(stage, DISHES, dropout=0.15)
    rows, optimizer = Rows({"text": corpus(DISHES, 240)}, 32), adam(model)

    def update(criterion: Any, step: int) -> None:
        (texts,) = rows()
        stepped(optimizer, criterion(embed(model, texts), embed(model, texts)))

    turn(stage, model, aligned_and_uniform, update, sought_among_many(DISHES), steps=40)
