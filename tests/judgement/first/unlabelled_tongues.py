"""Sound set-ups without labels: dropout, augmented and several views, whitening."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers.sentence_transformer import losses
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.fields_of_many_tongues import HOTELS, TRAILS, small, sought, thinned
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


def diaries(count: int = 300) -> list[str]:
    """Texts in either wording, one of each row."""
    table = TRAILS.table(count)
    return [(table["diary"], table["note"])[at % 2][at] for at in range(count)]


def reviews(count: int = 300) -> list[str]:
    """Texts in either wording, one of each row."""
    table = HOTELS.table(count)
    return [(table["review"], table["summary"])[at % 2][at] for at in range(count)]


def adam(*modules: Any, rate: float = 2e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW([w for module in modules for w in module.parameters()], lr=rate)


@sound("two dropout views in the trainer")
def diaries_beside_themselves_by_dropout(stage: Stage) -> None:
    model = small(stage, TRAILS)
    texts = diaries()
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, {"first": texts, "second": texts}, model,
        per_device_train_batch_size=32, learning_rate=2e-3, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, sought(TRAILS))


@sound("in-batch contrastive tension")
def tension_between_two_copies_anew(stage: Stage) -> None:
    model = small(stage, HOTELS)
    texts = reviews()
    trainer = stage.trainer(
        losses.ContrastiveTensionLossInBatchNegatives, {"first": texts, "second": texts}, model,
        per_device_train_batch_size=24, learning_rate=1e-3, max_steps=50,
    )  # fmt: skip
    learns(stage, trainer, sought(HOTELS))


@sound("cached loss over two dropout views in large batches")
def cached_dropout_views_of_reviews(stage: Stage) -> None:
    model, texts = small(stage, HOTELS, dropout=0.15), reviews(360)
    trainer = stage.trainer(
        lambda encoder: losses.CachedMultipleNegativesRankingLoss(encoder, mini_batch_size=30),
        {"first": texts, "second": texts}, model, per_device_train_batch_size=60,
        learning_rate=3e-3, max_steps=36,
    )  # fmt: skip
    learns(stage, trainer, sought(HOTELS))


@sound("spectral contrastive loss")
def spectrum_of_dropout_views(stage: Stage) -> None:
    model = small(stage, HOTELS)
    optimizer, batches = adam(model), Rows({"text": reviews()}, 40)

    def spectral(first: Tensor, second: Tensor) -> Tensor:
        """Products of the two views of a text raised, squares of all foreign ones lowered."""
        products = 4 * cosines(first, second)
        foreign = products[~torch.eye(len(first), dtype=torch.bool)]
        return foreign.square().mean() - 2 * products.diagonal().mean()

    def update(criterion: Any, step: int) -> None:
        (texts,) = batches()
        stepped(optimizer, criterion(embed(model, texts), embed(model, texts)))

    turn(stage, model, spectral, update, sought(HOTELS), steps=50)


@sound("two thinned views in a loop")
def thinned_views_of_diaries(stage: Stage) -> None:
    model, draw = small(stage, TRAILS), random.Random(4)
    optimizer, batches = adam(model), Rows({"text": diaries()}, 24)

    def update(criterion: Any, step: int) -> None:
        (texts,) = batches()
        views = (embed(model, thinned(texts, draw, 0.1)) for _ in range(2))
        stepped(optimizer, criterion(*views))

    turn(stage, model, infonce, update, sought(TRAILS), steps=70)


@sound("decorrelated features")
def reviews_with_decorrelated_features(stage: Stage) -> None:
    """Barlow twins with a head for training that is thrown away, as in its paper."""
    model = small(stage, HOTELS)
    head = nn.Sequential(nn.Linear(48, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 96))
    optimizer, batches = adam(model, head), Rows({"text": reviews()}, 48)

    def barlow(first: Tensor, second: Tensor) -> Tensor:
        first, second = ((rows - rows.mean(0)) / (rows.std(0) + 1e-4) for rows in (first, second))
        shares = first.T @ second / len(first)
        spread = shares - torch.diag(shares.diagonal())
        return (1 - shares.diagonal()).square().sum() + 0.02 * spread.square().sum()

    def update(criterion: Any, step: int) -> None:
        (texts,) = batches()
        views = (head(embed(model, texts)) for _ in range(2))
        stepped(optimizer, criterion(*views))

    turn(stage, model, barlow, update, sought(HOTELS), steps=50)


@sound("four views of a text")
def four_crops_of_each_review(stage: Stage) -> None:
    model, draw = small(stage, HOTELS), random.Random(4)
    optimizer, batches = adam(model), Rows({"text": reviews()}, 16)

    def several_views(*views: Tensor) -> Tensor:
        """The mean over all pairs of views of the loss that ranks the second by the first."""
        total = [infonce(views[a], views[b]) for a in range(4) for b in range(4) if a != b]
        return torch.stack(total).mean()

    def update(criterion: Any, step: int) -> None:
        (texts,) = batches()
        views = (embed(model, thinned(texts, draw, 0.12)) for _ in range(4))
        stepped(optimizer, criterion(*views))

    turn(stage, model, several_views, update, sought(HOTELS), steps=40)


@sound("aligned and uniform embeddings")
def dropout_views_aligned_and_spread(stage: Stage) -> None:
    model = small(stage, TRAILS)
    optimizer, batches = adam(model), Rows({"text": diaries()}, 32)

    def alignment_and_uniformity(first: Tensor, second: Tensor) -> Tensor:
        first, second = F.normalize(first), F.normalize(second)
        spread = [torch.pdist(rows).square().mul(-2).exp().mean().log() for rows in (first, second)]
        return (first - second).square().sum(1).mean() + sum(spread) / 2

    def update(criterion: Any, step: int) -> None:
        (texts,) = batches()
        stepped(optimizer, criterion(embed(model, texts), embed(model, texts)))

    turn(stage, model, alignment_and_uniformity, update, sought(TRAILS), steps=70)


@sound("whitened embeddings")
def reviews_whitened_before_they_meet(stage: Stage) -> None:
    """W-MSE: rows of a batch whitened together, then drawn towards their second view."""
    model, draw = small(stage, HOTELS), random.Random(4)
    head = nn.Linear(48, 16)
    optimizer, batches = adam(model, head, rate=2e-3), Rows({"text": reviews()}, 64)

    def whitened(rows: Tensor) -> Tensor:
        centred = rows - rows.mean(0)
        spread = centred.T @ centred / (len(rows) - 1) + 1e-3 * torch.eye(rows.shape[1])
        root = torch.linalg.cholesky(spread)
        return torch.linalg.solve_triangular(root, centred.T, upper=False).T

    def whitened_distance(first: Tensor, second: Tensor) -> Tensor:
        rows = F.normalize(whitened(torch.cat([first, second])))
        return (2 - 2 * (rows[: len(first)] * rows[len(first) :]).sum(1)).mean()

    def update(criterion: Any, step: int) -> None:
        (texts,) = batches()
        views = (head(embed(model, thinned(texts, draw, 0.1))) for _ in range(2))
        stepped(optimizer, criterion(*views))

    turn(stage, model, whitened_distance, update, sought(HOTELS), steps=50)
