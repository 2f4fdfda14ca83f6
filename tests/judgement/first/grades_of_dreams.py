"""Sound set-ups with a trainer: graded, binary and class labels, and losses with a teacher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

from tests.judgement.case import sound
from tests.judgement.first.fields_of_dreams_and_roads import (
    BIRDS,
    DREAMS,
    JOBS,
    MAILS,
    POSTS,
    ROADS,
    SENSORS,
    STATIONS,
    class_score,
    classed,
    contrasted,
    judged_pairs,
    reader,
    scripted,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, learns

SWIFT: dict[str, Any] = {"learning_rate": 2e-3, "max_steps": 60}


def graded_score(table: Mapping[str, Sequence[Any]]) -> Any:
    """Return a score: the rank correlation over a table of graded pairs."""
    return lambda model: correlation(model, table)


@sound("CoSENT over graded pairs")
def shares_of_agreement_between_sensors(stage: Stage) -> None:
    trainer = stage.trainer(losses.CoSENTLoss, SENSORS.graded(400), reader(stage, SENSORS), **SWIFT)
    learns(stage, trainer, graded_score(SENSORS.graded(150, 11)))


@sound("AnglE over graded pairs, with evaluation in training")
def angles_between_russian_and_greek(stage: Stage) -> None:
    dev = ROADS.graded(60, 21)
    trainer = stage.trainer(
        losses.AnglELoss, ROADS.graded(640), reader(stage, ROADS, spread=0.06),
        evaluator=EmbeddingSimilarityEvaluator(*dev.values()), eval_strategy="steps",
        eval_steps=30, learning_rate=2e-3, max_steps=120, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, graded_score(ROADS.graded(150, 11)))


@sound("cosine regression on scores from 0 to 1")
def cosines_fitted_to_shares_in_posts(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, POSTS.graded(480), reader(stage, POSTS),
        per_device_train_batch_size=32, learning_rate=3e-3, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, graded_score(POSTS.graded(150, 11)))


@sound("contrastive loss with binary labels")
def letters_judged_as_pairs_or_strangers(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.ContrastiveLoss(model, margin=0.6), judged_pairs(ROADS, 480),
        reader(stage, ROADS), per_device_train_batch_size=32, learning_rate=3e-3, max_steps=80,
    )  # fmt: skip
    learns(stage, trainer, ROADS.sought)


@sound("online contrastive loss")
def hardest_pairs_of_announcements(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, judged_pairs(STATIONS, 480), reader(stage, STATIONS),
        per_device_train_batch_size=32, learning_rate=3e-3, max_steps=100, warmup_steps=10,
    )  # fmt: skip
    learns(stage, trainer, STATIONS.sought)


@sound("batch-hard triplets by class")
def birds_grouped_by_species_in_batches(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.BatchHardSoftMarginTripletLoss(model), classed(BIRDS, 260),
        reader(stage, BIRDS), batch_sampler="group_by_label", **SWIFT,
    )  # fmt: skip
    learns(stage, trainer, class_score(classed(BIRDS, 60, 11)))


@sound("all triplets of a batch")
def dreams_grouped_by_their_feeling(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.BatchAllTripletLoss(model, margin=1.0),
        classed(DREAMS, 400, slots=(2,)), reader(stage, DREAMS),
        batch_sampler="group_by_label", per_device_train_batch_size=24, **SWIFT,
    )  # fmt: skip
    learns(stage, trainer, class_score(classed(DREAMS, 150, 11, slots=(2,))))


@sound("semi-hard triplets by cosine")
def mails_by_topic_with_semihard_triplets(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.BatchSemiHardTripletLoss(
            model, losses.BatchHardTripletLossDistanceFunction.cosine_distance, margin=0.3
        ),
        classed(MAILS, 400, slots=(1,), column=1), reader(stage, MAILS),
        batch_sampler="group_by_label", per_device_train_batch_size=32, **SWIFT,
    )  # fmt: skip
    learns(stage, trainer, class_score(classed(MAILS, 150, 11, slots=(1,), column=1)))


@sound("margins of a teacher")
def margins_taken_over_from_a_trained_teacher(stage: Stage) -> None:
    """The scores are the teacher's margins between the positive and the hard negative."""
    teacher = warmed(reader(stage, JOBS, name="teacher", dropout=0.0), scripted(JOBS, 300), 60)
    table = contrasted(JOBS, 400, slot=2)
    first, second, third = (
        torch.from_numpy(teacher.encode(texts, normalize_embeddings=True)) * 4
        for texts in table.values()
    )
    labels = ((first * second).sum(1) - (first * third).sum(1)).tolist()
    trainer = stage.trainer(
        losses.MarginMSELoss, table | {"label": labels}, reader(stage, JOBS, seed=8),
        per_device_train_batch_size=32, learning_rate=3e-3, max_steps=70,
    )  # fmt: skip
    learns(stage, trainer, JOBS.sought)


@sound("embeddings of a teacher")
def rows_of_a_teacher_as_targets(stage: Stage) -> None:
    """A smaller student learns the teacher's embeddings of texts of both columns."""
    teacher = warmed(reader(stage, SENSORS, name="teacher"), scripted(SENSORS, 300), 60)
    texts = [text for column in scripted(SENSORS, 300, 2).values() for text in column]
    targets = teacher.encode(texts, normalize_embeddings=True) * 5
    table = Dataset.from_dict({"text": texts, "label": targets.tolist()}).shuffle(3).to_dict()
    student = reader(stage, SENSORS, layers=1, seed=6)
    trainer = stage.trainer(
        losses.MSELoss, table, student, per_device_train_batch_size=32, learning_rate=3e-3,
        max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, SENSORS.sought)
