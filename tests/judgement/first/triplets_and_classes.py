"""Sound set-ups of the trainer: triplets, and texts that have a class."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import TripletEvaluator
from sentence_transformers.sentence_transformer.losses import (
    BatchHardTripletLossDistanceFunction as Distances,
)
from sentence_transformers.sentence_transformer.losses import TripletDistanceMetric
from sentence_transformers.sentence_transformer.modules import Normalize

from tests.judgement.case import sound
from tests.judgement.first.fields import CODE, KITCHEN, SHOP
from tests.judgement.first.good_fields import LOGS, requests
from tests.judgement.first.notebook_fields import (
    BIRDS,
    GARDEN,
    STATIONS,
    by_slot,
    encoder_of,
    near_and_dev,
    same_class,
    with_near,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

GROUPED = {"batch_sampler": "group_by_label"}


def class_score(field: Any, slot: int) -> Any:
    """Return a score: whether the nearest text is of the class, among texts not in training."""
    table = by_slot(field, 60, slot, seed=11)
    return lambda model: same_class(model, table)


@sound("triplets by Euclidean distance between unit vectors")
def triplets_between_unit_vectors(stage: Stage) -> None:
    table, dev = near_and_dev(SHOP, 280, (0,), (1,))
    trainer = stage.trainer(
        lambda model: losses.TripletLoss(
            model, distance_metric=TripletDistanceMetric.EUCLIDEAN, triplet_margin=0.5
        ),
        table, encoder_of(stage, SHOP, Normalize()),
        evaluator=TripletEvaluator(*dev.values(), name="offers", write_csv=False),
        eval_strategy="steps", eval_steps=20, max_steps=60, learning_rate=2e-3,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, SHOP.sought, least=0.05)


@sound("triplets by cosine distance")
def station_triplets_by_cosine(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.TripletLoss(
            model, distance_metric=TripletDistanceMetric.COSINE, triplet_margin=0.3
        ),
        with_near(STATIONS, 256, 0), encoder_of(stage, STATIONS), max_steps=60,
        learning_rate=2e-3, per_device_train_batch_size=32, lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, STATIONS.sought, least=0.05)


@sound("all triplets of a batch of classes")
def all_triplets_of_log_units(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.BatchAllTripletLoss(
            model, distance_metric=Distances.cosine_distance, margin=0.3
        ),
        by_slot(LOGS, 240, 1), encoder_of(stage, LOGS), per_device_train_batch_size=36,
        max_steps=50, learning_rate=2e-3, **GROUPED,
    )  # fmt: skip
    learns(stage, trainer, class_score(LOGS, 1), least=0.05)


@sound("semi-hard triplets of a batch of classes")
def semi_hard_triplets_of_plants(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.BatchSemiHardTripletLoss(
            model, distance_metric=Distances.cosine_distance, margin=0.3
        ),
        by_slot(GARDEN, 320, 0), encoder_of(stage, GARDEN), per_device_train_batch_size=32,
        max_steps=60, learning_rate=2e-3, **GROUPED,
    )  # fmt: skip
    learns(stage, trainer, class_score(GARDEN, 0), least=0.05)


@sound("hardest triplets with a soft margin after a warm-up on pairs")
def soft_margin_for_a_warmed_encoder(stage: Stage) -> None:
    from tests.judgement.first.turns import warmed

    model = warmed(encoder_of(stage, KITCHEN), KITCHEN.table(200), steps=6)
    trainer = stage.trainer(
        losses.BatchHardSoftMarginTripletLoss, by_slot(KITCHEN, 240, 0), model,
        per_device_train_batch_size=36, max_steps=50, learning_rate=1e-3, **GROUPED,
    )  # fmt: skip
    learns(stage, trainer, class_score(KITCHEN, 0), least=0.05)


@sound("requests of customers in the classes of their topics")
def all_triplets_of_requests(stage: Stage) -> None:
    def texts(count: int, seed: int) -> dict[str, list[Any]]:
        table = requests(count, seed)
        return {"text": table["request"], "label": table["label"]}

    from tests.judgement.first.bodies import encoder, words_of

    trained, tested = texts(320, 0), texts(80, 11)
    trainer = stage.trainer(
        lambda model: losses.BatchAllTripletLoss(model, margin=1.0), trained,
        encoder(stage, words_of([trained, tested]), Normalize()),
        per_device_train_batch_size=40, max_steps=50, learning_rate=2e-3, weight_decay=0.01,
        **GROUPED,
    )  # fmt: skip
    learns(stage, trainer, lambda model: same_class(model, tested), least=0.05)


@sound("hard negatives ranked in both directions with a mean weighted by place")
def functions_with_weighted_means(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, with_near(CODE, 200, 2),
        encoder_of(stage, CODE, pooling="weightedmean"), max_steps=50, learning_rate=2e-3,
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, CODE.sought, least=0.05)


@sound("semi-hard triplets of few classes between unit vectors")
def nearest_of_the_same_beak(stage: Stage) -> None:
    """Semi-hard triplets over few classes, where a batch holds many of each."""
    trainer = stage.trainer(
        lambda model: losses.BatchSemiHardTripletLoss(model, margin=1.0),
        by_slot(BIRDS, 400, 2), encoder_of(stage, BIRDS, Normalize(), pooling="max"),
        per_device_train_batch_size=40, max_steps=50, learning_rate=2e-3, **GROUPED,
    )  # fmt: skip
    learns(stage, trainer, class_score(BIRDS, 2), least=0.05)
