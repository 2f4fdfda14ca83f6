"""Sound set-ups with the trainer: triplets, classes, and texts without labels."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.regular_and_loose_fields import (
    FLAWS,
    MAILS,
    MATCHES,
    PLANTS,
    QUERIES,
    REACTIONS,
    SAGAS,
    classmates,
    families,
    far_triples,
    seeks,
    student,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


@sound("triplets by cosine distance, accuracy evaluated in training")
def blurbs_and_chapters_as_triplets(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.evaluation import TripletEvaluator
    from sentence_transformers.sentence_transformer.losses import TripletDistanceMetric

    trainer = stage.trainer(
        lambda model: losses.TripletLoss(model, TripletDistanceMetric.COSINE, 0.3),
        far_triples(SAGAS, 192), student(stage, SAGAS, width=32, layers=1, spread=0.1),
        max_steps=70, learning_rate=4e-3, eval_strategy="steps", eval_steps=20,
        evaluator=TripletEvaluator(*far_triples(SAGAS, 40, seed=9).values(), name="sagas"),
    )  # fmt: skip
    learns(stage, trainer, seeks(SAGAS))


@sound("triplets by Euclidean distance")
def match_reports_as_euclidean_triplets(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.TripletLoss(model, triplet_margin=2.0),
        far_triples(MATCHES, 320), student(stage, MATCHES, spread=0.1), max_steps=70,
        learning_rate=2e-3,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, seeks(MATCHES))


def by_class(stage: Stage, loss: Any, field: Any, **settings: Any) -> None:
    """Train by classes of a field, some members of each in a batch."""
    arguments = {
        "max_steps": 80, "learning_rate": 2e-3, "per_device_train_batch_size": 32,
        "batch_sampler": "group_by_label", **settings,
    }  # fmt: skip
    trainer = stage.trainer(loss, families(field), student(stage, field), **arguments)
    learns(stage, trainer, classmates(field))


@sound("all triplets of a batch of classes")
def families_of_reactions_by_all_triplets(stage: Stage) -> None:
    by_class(stage, lambda model: losses.BatchAllTripletLoss(model, margin=2.0), REACTIONS)


@sound("hardest triplets of a batch of classes, cosine distance")
def families_of_flaws_by_hard_triplets(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.losses import (
        BatchHardTripletLossDistanceFunction,
    )

    distance = BatchHardTripletLossDistanceFunction.cosine_distance
    by_class(
        stage, lambda model: losses.BatchHardTripletLoss(model, distance, margin=0.3), FLAWS,
        learning_rate=3e-3,
    )  # fmt: skip


@sound("hardest triplets of a batch of classes, soft margin")
def families_of_mails_by_soft_margins(stage: Stage) -> None:
    by_class(stage, losses.BatchHardSoftMarginTripletLoss, MAILS, max_steps=100)


@sound("semi-hard triplets of a batch of classes")
def families_of_plants_by_half_hard_triplets(stage: Stage) -> None:
    by_class(
        stage, lambda model: losses.BatchSemiHardTripletLoss(model, margin=1.0), PLANTS,
        per_device_train_batch_size=40,
    )  # fmt: skip


@sound("hardest negative of a large batch")
def queries_by_margins_in_large_batches(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MegaBatchMarginLoss(model, mini_batch_size=32),
        QUERIES.table(320), student(stage, QUERIES, width=32, layers=1, spread=0.1),
        max_steps=50, per_device_train_batch_size=64, learning_rate=5e-3,
    )  # fmt: skip
    learns(stage, trainer, seeks(QUERIES))


@sound("layers and widths nested")
def reactions_in_nested_layers_and_widths(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.Matryoshka2dLoss(
            model, losses.MultipleNegativesRankingLoss(model), [48, 24]
        ),
        REACTIONS.table(240), student(stage, REACTIONS, layers=3), max_steps=50,
        learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, seeks(REACTIONS))
