"""Sound trainers on graded and binary labels, classes, and scores of a teacher."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tests.judgement.case import sound
from tests.judgement.first import fields_of_flats_and_threads as fields
from tests.judgement.first.fields_of_flats_and_threads import (
    agreement,
    by_class,
    classmates,
    held_out,
    of,
    verdicts,
    with_negatives,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


def ratings(field: Any, count: int = 60) -> Any:
    """An evaluator of graded pairs."""
    from sentence_transformers.sentence_transformer.evaluation import (
        EmbeddingSimilarityEvaluator,
    )

    return EmbeddingSimilarityEvaluator(*field.graded(count, seed=13).values())


def taught(stage: Stage, field: Any, steps: int = 50) -> Any:
    """A teacher: an encoder of another seed that has learned the pairs of a field."""
    return warmed(of(stage, field, name="teacher", seed=8), field.table(320), steps=steps)


def tuned(stage: Stage, field: Any, steps: int = 10) -> Any:
    """An encoder that knows pairs of its field a little, as a pretrained one does."""
    return warmed(of(stage, field), field.table(240, seed=4), steps=steps)


def scores_of(teacher: Any, table: dict[str, list[str]]) -> np.ndarray:
    """Cosines of the first column with the second and third."""
    rows = [
        teacher.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        for texts in table.values()
    ]
    return np.stack([(rows[0] * rows[at]).sum(1) for at in (1, 2)], 1)


@sound("order of graded pairs, with rank correlation in training")
def order_of_graded_courses(stage: Stage) -> None:
    field = fields.COURSES
    trainer = stage.trainer(
        losses.CoSENTLoss, field.graded(400), of(stage, field), evaluator=ratings(field),
        eval_strategy="steps", eval_steps=20, max_steps=80, per_device_train_batch_size=32,
        learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, agreement(field))


@sound("angles of graded pairs")
def angles_of_graded_courses(stage: Stage) -> None:
    field = fields.COURSES
    trainer = stage.trainer(
        losses.AnglELoss, field.graded(420, seed=2), of(stage, field), max_steps=100,
        per_device_train_batch_size=32, learning_rate=2e-3, lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, agreement(field))


@sound("cosines regressed on grades, with accumulated batches")
def cosines_of_graded_mails_accumulated(stage: Stage) -> None:
    field = fields.MAILS
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, field.graded(420), tuned(stage, field), max_steps=60,
        per_device_train_batch_size=16, gradient_accumulation_steps=2, learning_rate=1e-3,
        max_grad_norm=1.0,
    )  # fmt: skip
    learns(stage, trainer, agreement(field))


@sound("binary labels with a margin, with accuracy in training")
def margin_of_matching_metar_reports(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.evaluation import (
        BinaryClassificationEvaluator,
    )

    field = fields.WEATHER
    trainer = stage.trainer(
        losses.ContrastiveLoss, verdicts(field, 400), of(stage, field),
        evaluator=BinaryClassificationEvaluator(*verdicts(field, 50, seed=13).values()),
        eval_strategy="steps", eval_steps=40, max_steps=140, per_device_train_batch_size=32,
        learning_rate=3e-3,
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


@sound("binary labels, hard pairs of a batch only")
def hard_pairs_of_posts_and_tags(stage: Stage) -> None:
    field = fields.TAGS
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, verdicts(field, 400), of(stage, field), max_steps=80,
        per_device_train_batch_size=48, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


@sound("triplets by cosine distance")
def triplets_of_traces_by_cosine(stage: Stage) -> None:
    field = fields.TRACES
    trainer = stage.trainer(
        lambda model: losses.TripletLoss(
            model, losses.TripletDistanceMetric.COSINE, triplet_margin=0.4
        ),
        with_negatives(field, 400, slot=1), tuned(stage, field, 5), max_steps=80,
        per_device_train_batch_size=32, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


@sound("all triplets of classes in a batch")
def all_triplets_of_warehouse_spares(stage: Stage) -> None:
    field = fields.SPARES
    trainer = stage.trainer(
        lambda model: losses.BatchAllTripletLoss(model, margin=2.0), by_class(field, 400, slot=2),
        of(stage, field), max_steps=60, per_device_train_batch_size=32, learning_rate=1e-3,
        batch_sampler="group_by_label",
    )  # fmt: skip
    learns(stage, trainer, classmates(field, slot=2))


@sound("hardest triplets with a soft margin")
def hardest_triplets_of_sightings_by_bird(stage: Stage) -> None:
    field = fields.SIGHTINGS
    trainer = stage.trainer(
        losses.BatchHardSoftMarginTripletLoss, by_class(field, 400), of(stage, field),
        max_steps=60, per_device_train_batch_size=40, learning_rate=1e-3,
        batch_sampler="group_by_label",
    )  # fmt: skip
    learns(stage, trainer, classmates(field))


@sound("margins of a teacher")
def margins_of_a_teacher_over_statements(stage: Stage) -> None:
    field = fields.SQL
    table = with_negatives(field, 320, slot=2)
    scores = 5 * scores_of(taught(stage, field), table)
    trainer = stage.trainer(
        lambda model: losses.MarginMSELoss(model, similarity_fct=scaled_cosine),
        table | {"label": (scores[:, 0] - scores[:, 1]).tolist()},
        tuned(stage, field, 5), max_steps=80, per_device_train_batch_size=32, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


def scaled_cosine(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Five times the cosines of rows: the scale of the teacher's margins."""
    return 5 * torch.nn.functional.cosine_similarity(first, second)


@sound("shares of a teacher by divergence")
def shares_of_a_teacher_over_japanese(stage: Stage) -> None:
    field = fields.JAPANESE
    table = with_negatives(field, 320, slot=2)
    scores = 10 * scores_of(taught(stage, field), table)
    trainer = stage.trainer(
        lambda model: losses.DistillKLDivLoss(
            model, similarity_fct=lambda a, b: 10 * torch.cosine_similarity(a, b)
        ),
        table | {"label": scores.tolist()}, tuned(stage, field, 5), max_steps=80,
        per_device_train_batch_size=32, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, held_out(field))


@sound("embeddings of a teacher, with their error in training")
def embeddings_of_a_teacher_for_mails(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.evaluation import MSEEvaluator

    field = fields.MAILS
    teacher = taught(stage, field)
    columns = field.table(300)
    texts = [text for pair in zip(*columns.values(), strict=True) for text in pair]
    targets = teacher.encode(texts, show_progress_bar=False)
    tests = field.table(30, seed=13)["mail"]
    trainer = stage.trainer(
        losses.MSELoss, {"text": texts, "label": targets.tolist()}, of(stage, field),
        evaluator=MSEEvaluator(tests, tests, teacher_model=teacher), eval_strategy="steps",
        eval_steps=30, max_steps=120, per_device_train_batch_size=32, learning_rate=3e-3,
    )  # fmt: skip
    learns(stage, trainer, held_out(field))
