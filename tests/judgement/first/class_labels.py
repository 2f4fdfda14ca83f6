"""Sound set-ups: texts with classes or ratings, drawn close by triplets of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as functional
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.sentence_transformer import losses, modules
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.everyday_fields import REVIEWS, TICKETS
from tests.judgement.first.expert_fields import TRANSACTIONS
from tests.judgement.first.training_parts import encoder_of
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

BY_LABEL = {"batch_sampler": "group_by_label", "per_device_train_batch_size": 32}


@sound("categories of tickets, all triplets")
def categories_of_tickets_by_all_triplets(stage: Stage) -> None:
    """All triplets of a batch whose classes have several rows; Euclidean margin of 0.5."""
    model = encoder_of(stage, TICKETS, modules.Normalize())
    trainer = stage.trainer(
        lambda model: losses.BatchAllTripletLoss(model, margin=0.5), TICKETS.table(480), model,
        max_steps=80, learning_rate=1e-3, **BY_LABEL,
    )  # fmt: skip
    learns(stage, trainer, TICKETS.neighbours("ticket", "label"))


@sound("kinds of payments, semi-hard negatives by cosine")
def semi_hard_payments_by_cosine(stage: Stage) -> None:
    """Negatives behind the positive but within the margin, by cosine distance."""
    distance = losses.BatchHardTripletLossDistanceFunction.cosine_distance
    trainer = stage.trainer(
        lambda model: losses.BatchSemiHardTripletLoss(model, distance_metric=distance, margin=0.4),
        TRANSACTIONS.table(480), encoder_of(stage, TRANSACTIONS, layers=1, width=32),
        max_steps=120, learning_rate=1e-3, **BY_LABEL,
    )  # fmt: skip
    learns(stage, trainer, TRANSACTIONS.neighbours("line", "label"))


@sound("hardest triplets of tickets")
def hardest_triplets_of_tickets(stage: Stage) -> None:
    """Batch-hard triplets by cosine distance with a margin of 0.2."""
    distance = losses.BatchHardTripletLossDistanceFunction.cosine_distance
    trainer = stage.trainer(
        lambda model: losses.BatchHardTripletLoss(model, distance_metric=distance, margin=0.2),
        TICKETS.table(560), encoder_of(stage, TICKETS, dropout=0.0), max_steps=120,
        learning_rate=1e-3, **BY_LABEL,
    )  # fmt: skip
    learns(stage, trainer, TICKETS.neighbours("ticket", "label"))


class SupervisedContrast(nn.Module):
    """All rows of a class in the batch are positives of each other (Khosla et al.)."""

    def __init__(self, model: Any, temperature: float = 0.1) -> None:
        super().__init__()
        self.model, self.temperature = model, temperature

    def forward(self, sentence_features: Any, labels: Tensor) -> Tensor:
        (features,) = sentence_features
        rows = functional.normalize(self.model(features)["sentence_embedding"], dim=1)
        itself = torch.eye(len(rows), dtype=torch.bool)
        logits = (rows @ rows.T / self.temperature).masked_fill(itself, -1e9)
        alike = (labels[:, None] == labels) & ~itself
        shares = torch.log_softmax(logits, 1).masked_fill(~alike, 0.0).sum(1)
        counts = alike.sum(1)
        return -(shares / counts.clamp(min=1))[counts > 0].mean()


@sound("supervised contrast of one's own")
def stars_of_reviews_by_supervised_contrast(stage: Stage) -> None:
    """Reviews with the same number of stars attract each other; the rest of the batch repels."""
    trainer = stage.trainer(
        SupervisedContrast, REVIEWS.table(560), encoder_of(stage, REVIEWS), max_steps=100,
        learning_rate=1e-3, per_device_train_batch_size=48,
    )  # fmt: skip
    learns(stage, trainer, REVIEWS.neighbours("review", "label"))


class Centres(nn.Module):
    """Softmax over cosines with a learned centre of each class, less a margin (CosFace)."""

    def __init__(self, model: Any, classes: int = 8, width: int = 48) -> None:
        super().__init__()
        self.model = model
        self.centres = nn.Parameter(torch.randn(classes, width) * 0.1)

    def forward(self, sentence_features: Any, labels: Tensor) -> Tensor:
        (features,) = sentence_features
        rows = functional.normalize(self.model(features)["sentence_embedding"], dim=1)
        cosines = rows @ functional.normalize(self.centres, dim=1).T
        margins = 0.2 * functional.one_hot(labels, len(self.centres))
        return functional.cross_entropy(16 * (cosines - margins), labels)


@sound("learned centres of classes with a margin")
def centres_of_categories_with_a_margin(stage: Stage) -> None:
    """CosFace with eight categories; the centres are trained with the encoder."""
    trainer = stage.trainer(
        Centres, TICKETS.table(480), encoder_of(stage, TICKETS), max_steps=80,
        learning_rate=2e-3, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, TICKETS.neighbours("ticket", "label"))


class EachCategoryOnce(DefaultBatchSampler):
    """Batches of eight pairs, one of each category, where row ``at`` is of category ``at % 8``."""

    def __init__(self, dataset: Any, **options: Any) -> None:
        super().__init__(dataset, **{**options, "batch_size": 8})
        self.rows = len(dataset)

    def __iter__(self) -> Iterator[list[int]]:
        orders = [torch.randperm(self.rows // 8, generator=self.generator) for _ in range(8)]
        for rounds in zip(*orders, strict=True):
            yield [8 * int(pair) + category for category, pair in enumerate(rounds)]

    def __len__(self) -> int:
        return self.rows // 8


@sound("pairs made of classes, each class once in a batch")
def pairs_of_the_same_category(stage: Stage) -> None:
    """Two tickets of a category are a pair; a sampler of one's own lets no two of them meet.

    Remark: batches of eight are small, since a second pair of a category would be a false negative.
    """
    table = TICKETS.table(560)
    of_category = [
        [ticket for ticket, label in zip(*table.values(), strict=True) if label == category]
        for category in range(8)
    ]
    rounds = min(map(len, of_category)) // 2
    pairs = [
        (phrasing[2 * at], phrasing[2 * at + 1]) for at in range(rounds) for phrasing in of_category
    ]
    first, second = map(list, zip(*pairs, strict=True))
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, {"first": first, "second": second},
        encoder_of(stage, TICKETS), max_steps=120, learning_rate=1e-3,
        per_device_train_batch_size=8, batch_sampler=EachCategoryOnce,
    )  # fmt: skip
    learns(stage, trainer, TICKETS.neighbours("ticket", "label"))
