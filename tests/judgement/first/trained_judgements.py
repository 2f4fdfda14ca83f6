"""Sound set-ups: losses of triplets, classes, grades and binary labels with a trainer."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.fields import Field
from tests.judgement.first.fields_of_orders_and_mails import (
    BIRDS,
    HINDI,
    MAILS,
    METERS,
    PATENTS,
    RUSSIAN,
    SHELL,
    TENNIS,
    fresh,
    grader,
    judged_pairs,
    labelled,
    near_texts,
    purity,
    seeker,
    with_near,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, learns
from tests.sentence_training import evaluation, losses


@sound("triplets by cosine distance")
def triplets_of_meters_by_cosine_distance(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.TripletLoss(
            model, losses.TripletDistanceMetric.COSINE, triplet_margin=0.3
        ),
        with_near(METERS, 400), fresh(stage, METERS), learning_rate=2e-3, max_steps=120,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(METERS))


@sound("triplets by Euclidean distance, with an evaluator")
def triplets_of_ticker_lines_by_distance(stage: Stage) -> None:
    held = with_near(TENNIS, 50, seed=21)
    trainer = stage.trainer(
        lambda model: losses.TripletLoss(model, triplet_margin=2.0), with_near(TENNIS, 400),
        fresh(stage, TENNIS), learning_rate=2e-3, max_steps=140, per_device_train_batch_size=24,
        evaluator=evaluation.TripletEvaluator(*held.values(), name="lines"),
        eval_strategy="steps", eval_steps=70,
    )  # fmt: skip
    learns(stage, trainer, seeker(TENNIS))


def _trained_by_class(
    stage: Stage, loss: Any, field: Field, slot: int, *, count: int = 320, **arguments: Any
) -> None:  # fmt: skip
    model = fresh(stage, field)
    settings = {"batch_sampler": "group_by_label", "learning_rate": 2e-3, "max_steps": 70,
                "per_device_train_batch_size": 32}  # fmt: skip
    trainer = stage.trainer(loss, labelled(field, slot, count), model, **{**settings, **arguments})
    learns(stage, trainer, purity(field, slot))


@sound("hardest triplets of a batch by class")
def hardest_triplets_of_mails_by_topic(stage: Stage) -> None:
    _trained_by_class(stage, lambda model: losses.BatchHardTripletLoss(model, margin=2.0), MAILS, 0)


@sound("semi-hard triplets of a batch by class")
def semi_hard_triplets_of_patents_by_device(stage: Stage) -> None:
    _trained_by_class(
        stage, lambda model: losses.BatchSemiHardTripletLoss(model, margin=1.0), PATENTS, 0,
        count=240, max_steps=60, learning_rate=1e-3,
    )  # fmt: skip


@sound("all triplets of a batch by class")
def all_triplets_of_birds_by_site(stage: Stage) -> None:
    _trained_by_class(
        stage, lambda model: losses.BatchAllTripletLoss(model, margin=1.0), BIRDS, 2,
        per_device_train_batch_size=24, lr_scheduler_type="cosine",
    )  # fmt: skip


@sound("CoSENT of graded pairs")
def cosent_of_graded_sightings(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.CoSENTLoss, BIRDS.graded(400), fresh(stage, BIRDS), learning_rate=2e-3,
        max_steps=80, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, grader(BIRDS))


@sound("cosines trained to grades")
def cosines_of_graded_translations(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, RUSSIAN.graded(400), fresh(stage, RUSSIAN),
        learning_rate=2e-3, max_steps=80, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, grader(RUSSIAN))


@sound("contrastive loss of binary labels")
def contrastive_of_hindi_orders(stage: Stage) -> None:
    held = judged_pairs(HINDI, 60, seed=21)
    trainer = stage.trainer(
        lambda model: losses.ContrastiveLoss(model, margin=0.5), judged_pairs(HINDI, 400),
        fresh(stage, HINDI), learning_rate=2e-3, max_steps=150, per_device_train_batch_size=32,
        evaluator=evaluation.BinaryClassificationEvaluator(*held.values(), name="orders"),
        eval_strategy="steps", eval_steps=75,
    )  # fmt: skip
    learns(stage, trainer, seeker(HINDI))


@sound("online contrastive loss of binary labels")
def online_contrastive_of_ticker_lines(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, judged_pairs(TENNIS, 400), fresh(stage, TENNIS),
        learning_rate=2e-3, max_steps=150, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(TENNIS))


def _relations(count: int, seed: int) -> dict[str, list[Any]]:
    """Wishes and commands that follow, differ in one word, or are of another wish: NLI."""
    draw = random.Random(5 + seed)
    wishes, commands = SHELL.table(count, seed).values()
    close = near_texts(SHELL, count, seed=seed)
    labels = [draw.randrange(3) for _ in wishes]
    seconds = [(commands[at], close[at], commands[at - 7])[label]
               for at, label in enumerate(labels)]  # fmt: skip
    return {"premise": wishes, "hypothesis": seconds, "label": labels}


@sound("softmax over three relations of two texts")
def softmax_of_relations_between_wishes_and_commands(stage: Stage) -> None:
    held = _relations(150, 11)
    held["label"] = [2 - label for label in held["label"]]
    trainer = stage.trainer(
        lambda model: losses.SoftmaxLoss(model, 48, 3, concatenation_sent_multiplication=True),
        _relations(500, 0), fresh(stage, SHELL, spread=0.1), learning_rate=2e-3, max_steps=160,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, lambda model: correlation(model, held))
