"""Sound set-ups with the trainer: graded and binary labels, and what teachers say."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import (
    BinaryClassificationEvaluator,
    EmbeddingSimilarityEvaluator,
)
from sentence_transformers.sentence_transformer.modules import Dense, Normalize

from tests.judgement.case import sound
from tests.judgement.first.fields_of_scripts_and_signs import (
    CHEMISTRY,
    MAILS,
    MATCHES,
    METERS,
    SCRIPTS,
    SHELL,
    SHELVES,
    agrees,
    binary,
    encoder_of,
    pairs_of,
    seeks,
    tells,
    triplets_of,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


def rows_of(model: Any, texts: Sequence[str]) -> torch.Tensor:
    return model.encode(list(texts), convert_to_tensor=True, show_progress_bar=False)


@sound("CoSENT over grades from nought to one")
def grades_of_chemical_likeness(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.CoSENTLoss, CHEMISTRY.graded(320), encoder_of(stage, CHEMISTRY), max_steps=80,
        per_device_train_batch_size=32, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, agrees(CHEMISTRY))


@sound("AnglE with a similarity evaluator")
def angles_between_translated_sentences(stage: Stage) -> None:
    first, second, scores = SCRIPTS.graded(80, seed=13).values()
    trainer = stage.trainer(
        losses.AnglELoss, SCRIPTS.graded(320), encoder_of(stage, SCRIPTS), max_steps=100,
        per_device_train_batch_size=32, learning_rate=2e-3, eval_strategy="steps", eval_steps=50,
        evaluator=EmbeddingSimilarityEvaluator(first, second, scores, name="scripts"),
    )  # fmt: skip
    learns(stage, trainer, agrees(SCRIPTS))


@sound("cosines of normalised rows fitted to grades")
def cosines_fitted_to_grades_of_mails(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, MAILS.graded(320), encoder_of(stage, MAILS, Normalize()),
        max_steps=150, per_device_train_batch_size=32, learning_rate=3e-3,
    )  # fmt: skip
    learns(stage, trainer, agrees(MAILS))


@sound("contrastive loss of binary pairs")
def readings_that_tell_of_the_same_meter(stage: Stage) -> None:
    first, second, labels = binary(METERS, 80, seed=13).values()
    trainer = stage.trainer(
        lambda model: losses.ContrastiveLoss(model, margin=0.5),
        binary(METERS, 400), encoder_of(stage, METERS), max_steps=120,
        per_device_train_batch_size=32, learning_rate=3e-3, eval_strategy="epoch",
        evaluator=BinaryClassificationEvaluator(first, second, labels, name="meters"),
    )  # fmt: skip
    learns(stage, trainer, tells(METERS))


@sound("online contrastive loss, cyclic rate")
def hard_binary_pairs_of_headlines(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.OnlineContrastiveLoss(model, margin=0.5),
        binary(MATCHES, 400), encoder_of(stage, MATCHES), max_steps=120,
        per_device_train_batch_size=32, learning_rate=3e-3,
        lr_scheduler_type="cosine_with_restarts", lr_scheduler_kwargs={"num_cycles": 2},
    )  # fmt: skip
    learns(stage, trainer, tells(MATCHES))


def teacher_of(stage: Stage, field: Any, **options: Any) -> Any:
    teacher = encoder_of(stage, field, name="teacher", seed=12, **options)
    return warmed(teacher, pairs_of(field, 320), 60)


@sound("margins of a teacher")
def margins_learned_from_a_teacher(stage: Stage) -> None:
    table: Mapping[str, Any] = triplets_of(SHELL, 320, slot=1)
    teacher = teacher_of(stage, SHELL)
    query, good, bad = (rows_of(teacher, texts) for texts in table.values())
    cosine = torch.nn.functional.cosine_similarity
    margins = (cosine(query, good) - cosine(query, bad)).tolist()
    trainer = stage.trainer(
        lambda model: losses.MarginMSELoss(model, similarity_fct=cosine),
        {**table, "label": margins}, encoder_of(stage, SHELL), max_steps=150,
        per_device_train_batch_size=32, learning_rate=3e-3,
    )  # fmt: skip
    learns(stage, trainer, seeks(SHELL))


@sound("rows of a teacher copied by a narrower student with a head")
def student_copies_rows_of_its_teacher(stage: Stage) -> None:
    table = pairs_of(SHELVES, 320)
    teacher = teacher_of(stage, SHELVES, width=48)
    texts = [*table["query"], *table["mark"]]
    random.Random(3).shuffle(texts)
    student = encoder_of(
        stage, SHELVES,
        Dense(32, 48, activation_function=torch.nn.Identity()), width=32, dropout=0.0,
    )  # fmt: skip
    trainer = stage.trainer(
        losses.MSELoss, {"text": texts, "label": rows_of(teacher, texts).tolist()}, student,
        max_steps=90, per_device_train_batch_size=64, learning_rate=4e-3,
    )  # fmt: skip
    learns(stage, trainer, seeks(SHELVES))


@sound("distribution of a teacher over three passages")
def teacher_orders_three_translations(stage: Stage) -> None:
    table = pairs_of(SCRIPTS, 320) | {
        f"negative_{slot}": SCRIPTS.near(320, slot=slot) for slot in (0, 2)
    }
    teacher = teacher_of(stage, SCRIPTS)
    query, *passages = (rows_of(teacher, texts) for texts in table.values())
    cosine = torch.nn.functional.cosine_similarity
    scores = torch.stack([10 * cosine(query, rows) for rows in passages], 1).tolist()
    trainer = stage.trainer(
        lambda model: losses.DistillKLDivLoss(
            model, similarity_fct=lambda a, b: 10 * cosine(a, b, dim=-1)
        ),
        {**table, "label": scores}, encoder_of(stage, SCRIPTS), max_steps=80,
        per_device_train_batch_size=32, learning_rate=3e-3,
    )  # fmt: skip
    learns(stage, trainer, seeks(SCRIPTS))
