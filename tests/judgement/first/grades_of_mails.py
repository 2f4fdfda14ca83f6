"""Sound set-ups: trainers with scores, labels, classes and triplets."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import sound
from tests.judgement.first import fields_of_wishes_and_mails as fields
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import evaluation, losses

BY_CLASS = {"batch_sampler": "group_by_label"}


@sound("order of graded pairs")
def weather_by_graded_order(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.WEATHER)
    trainer = stage.trainer(
        losses.CoSENTLoss, fields.WEATHER.graded(340), model, learning_rate=2e-3, max_steps=80,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, fields.graded_score(fields.WEATHER))


@sound("angles of graded pairs")
def flights_by_angles(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.FLIGHTS)
    trainer = stage.trainer(
        losses.AnglELoss, fields.FLIGHTS.graded(420), model, learning_rate=2e-3, max_steps=80,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, fields.graded_score(fields.FLIGHTS))


@sound("regression of cosines, with an evaluator")
def sums_by_cosine_with_evaluation(stage: Stage) -> None:
    check = fields.SUMS.graded(60, seed=13)
    model = fields.encoder_of(stage, fields.SUMS)
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, fields.SUMS.graded(420), model, learning_rate=2e-3,
        max_steps=80, per_device_train_batch_size=24, eval_strategy="steps", eval_steps=20,
        evaluator=evaluation.EmbeddingSimilarityEvaluator(*check.values(), name="sums"),
    )  # fmt: skip
    learns(stage, trainer, fields.graded_score(fields.SUMS))


@sound("binary labels with a margin")
def tickets_by_contrast(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.ALARMS, spread=0.1)
    trainer = stage.trainer(
        losses.ContrastiveLoss, fields.labelled(fields.ALARMS, 480), model, learning_rate=2e-3,
        max_steps=90, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, fields.ALARMS.sought)


@sound("hardest of binary pairs")
def chess_by_the_hardest_pairs(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.CHESS)
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, fields.labelled(fields.CHESS, 420), model,
        learning_rate=2e-3, max_steps=80, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, fields.CHESS.sought)


@sound("triplets by cosine distance")
def functions_in_triplets_by_cosine(stage: Stage) -> None:
    def triplet(model: Any) -> Any:
        return losses.TripletLoss(model, losses.TripletDistanceMetric.COSINE, triplet_margin=0.3)

    table = fields.triplets(fields.CODE, 360, slots=(1,))
    third = fields.CODE.near(360, slot=0)
    table["negative_1"] = [
        (far if at % 2 else near)
        for at, (near, far) in enumerate(zip(table["negative_1"], third, strict=True))
    ]
    model = fields.encoder_of(stage, fields.CODE)
    trainer = stage.trainer(
        triplet, table, model, learning_rate=2e-3, max_steps=80, per_device_train_batch_size=32
    )
    learns(stage, trainer, fields.CODE.sought)


@sound("hardest triplets of classes, soft margin")
def mails_by_matter_soft(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.MAILS, width=32)
    trainer = stage.trainer(
        losses.BatchHardSoftMarginTripletLoss, fields.classed(fields.MAILS, 360, slot=1), model,
        learning_rate=2e-3, max_steps=50, per_device_train_batch_size=32, **BY_CLASS,
    )  # fmt: skip
    learns(stage, trainer, fields.class_score(fields.MAILS, slot=1))


@sound("semi-hard triplets by cosine")
def stars_by_kind_semi_hard(stage: Stage) -> None:
    def semi(model: Any) -> Any:
        distance = losses.BatchHardTripletLossDistanceFunction.cosine_distance
        return losses.BatchSemiHardTripletLoss(model, distance, margin=0.3)

    model = fields.encoder_of(stage, fields.STARS, width=32)
    trainer = stage.trainer(
        semi, fields.classed(fields.STARS, 360), model, learning_rate=2e-3, max_steps=50,
        per_device_train_batch_size=36, **BY_CLASS,
    )  # fmt: skip
    learns(stage, trainer, fields.class_score(fields.STARS))


@sound("all triplets of classes")
def songs_by_all_triplets(stage: Stage) -> None:
    def triplets(model: Any) -> Any:
        distance = losses.BatchHardTripletLossDistanceFunction.cosine_distance
        return losses.BatchAllTripletLoss(model, distance, margin=0.25)

    model = fields.encoder_of(stage, fields.REFRAINS, width=32)
    trainer = stage.trainer(
        triplets, fields.classed(fields.REFRAINS, 320), model, learning_rate=2e-3, max_steps=50,
        per_device_train_batch_size=24, **BY_CLASS,
    )  # fmt: skip
    learns(stage, trainer, fields.class_score(fields.REFRAINS))


@sound("large batches with two margins")
def weather_with_two_margins(stage: Stage) -> None:
    def mega(model: Any) -> Any:
        return losses.MegaBatchMarginLoss(model, mini_batch_size=32)

    model = fields.encoder_of(stage, fields.WEATHER, width=32)
    trainer = stage.trainer(
        mega, fields.WEATHER.table(340), model, learning_rate=3e-3, max_steps=40,
        per_device_train_batch_size=64, dataloader_drop_last=True,
    )  # fmt: skip
    learns(stage, trainer, fields.WEATHER.sought)
