"""Sound set-ups of the trainer: students of a teacher that was trained on the same field."""

from __future__ import annotations

from typing import Any

import numpy as np
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import (
    MSEEvaluator,
    SequentialEvaluator,
    TranslationEvaluator,
)
from sentence_transformers.util import pairwise_cos_sim

from tests.judgement.case import sound
from tests.judgement.first.fields import KITCHEN, SHOP, TRAVEL
from tests.judgement.first.good_fields import LETTERS, LOGS
from tests.judgement.first.notebook_fields import (
    BIRDS,
    GARDEN,
    dev_pairs,
    encoder_of,
    two,
    with_near,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


def teacher_of(stage: Stage, field: Any, rows: int = 200, steps: int = 50) -> Any:
    """An encoder of another seed that has learnt the field."""
    return warmed(encoder_of(stage, field, name="teacher", seed=8), two(field, rows), steps=steps)


def embeddings(teacher: Any, texts: list[str]) -> np.ndarray:
    return teacher.encode(texts, show_progress_bar=False)


def cosines_of(teacher: Any, table: dict[str, list[str]]) -> list[list[float]]:
    """The teacher's cosine of the first column with each other one."""
    first, *columns = (embeddings(teacher, column) for column in table.values())
    rows = [teacher.similarity_pairwise(first, second).tolist() for second in columns]
    return [list(row) for row in zip(*rows, strict=True)]


@sound("student of another language that copies the teacher's embeddings")
def student_of_another_language(stage: Stage) -> None:
    teacher = teacher_of(stage, TRAVEL)
    table = two(TRAVEL, 480)
    dev = list(dev_pairs(TRAVEL, table).values())
    evaluators = [
        MSEEvaluator(dev[0], dev[1], teacher_model=teacher, name="travel", write_csv=False),
        TranslationEvaluator(*dev, name="travel", write_csv=False),
    ]
    trainer = stage.trainer(
        losses.MSELoss, table | {"label": embeddings(teacher, table["english"]).tolist()},
        encoder_of(stage, TRAVEL), evaluator=SequentialEvaluator(evaluators), max_steps=60,
        eval_strategy="steps", eval_steps=20, per_device_train_batch_size=32, learning_rate=3e-3,
    )  # fmt: skip
    learns(stage, trainer, TRAVEL.sought, least=0.05)


@sound("margins of a teacher between positive and hard negative")
def margins_of_a_teacher_for_offers(stage: Stage) -> None:
    teacher = teacher_of(stage, SHOP)
    table = with_near(SHOP, 240, 0)
    margins = [positive - negative for positive, negative in cosines_of(teacher, table)]
    trainer = stage.trainer(
        lambda model: losses.MarginMSELoss(model, similarity_fct=pairwise_cos_sim),
        table | {"label": margins}, encoder_of(stage, SHOP), max_steps=80, learning_rate=2e-3,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, SHOP.sought, least=0.05)


@sound("a teacher's distribution over a positive and two hard negatives")
def distribution_of_a_teacher_over_answers(stage: Stage) -> None:
    teacher = teacher_of(stage, GARDEN, steps=30)
    table = with_near(GARDEN, 320, 0, 1)
    model = warmed(encoder_of(stage, GARDEN), two(GARDEN, 150, seed=2), steps=4)
    trainer = stage.trainer(
        lambda model: losses.DistillKLDivLoss(
            model, similarity_fct=pairwise_cos_sim, temperature=0.1
        ),
        table | {"label": cosines_of(teacher, table)}, model, max_steps=60, learning_rate=2e-3,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, GARDEN.sought, least=0.05)


@sound("a smaller student that copies directions through a projection")
def smaller_student_with_a_projection(stage: Stage) -> None:
    teacher = teacher_of(stage, KITCHEN)
    table = two(KITCHEN, 320)
    labels = [
        [first.tolist(), second.tolist()]
        for first, second in zip(*(embeddings(teacher, c) for c in table.values()), strict=True)
    ]
    trainer = stage.trainer(
        lambda model: losses.EmbedDistillLoss(model, distance_metric="cosine", projection_dim=48),
        table | {"label": labels}, encoder_of(stage, KITCHEN, width=32, layers=1),
        max_steps=80, learning_rate=3e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, KITCHEN.sought, least=0.05)


@sound("first layers of a trained encoder, taught by the whole")
def student_made_of_first_layers(stage: Stage) -> None:
    """Layers are dropped as in `model_distillation_layer_reduction`."""
    from torch import nn

    teacher = warmed(
        encoder_of(stage, BIRDS, name="deep", layers=4, seed=8), two(BIRDS, 320), steps=40
    )
    student = encoder_of(stage, BIRDS, name="student", layers=4, seed=8)
    student.load_state_dict(teacher.state_dict())
    network = student[0].auto_model
    network.encoder.layer = nn.ModuleList(list(network.encoder.layer)[:1])
    network.config.num_hidden_layers = 1
    texts = [text for column in two(BIRDS, 320, seed=2).values() for text in column]
    trainer = stage.trainer(
        losses.MSELoss, {"sentence": texts, "label": embeddings(teacher, texts).tolist()}, student,
        max_steps=60, learning_rate=1e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    unseen = BIRDS.texts(BIRDS.draws(60, seed=11), 1)

    def nearness(model: Any) -> float:
        rows = [embeddings(encoder, unseen) for encoder in (teacher, model)]
        return float(teacher.similarity_pairwise(*rows).mean())

    learns(stage, trainer, nearness, least=0.05)


@sound("one teacher for three languages")
def three_languages_of_one_teacher(stage: Stage) -> None:
    teacher = teacher_of(stage, LETTERS, rows=180)
    table = LETTERS.table(200)
    trainer = stage.trainer(
        losses.MSELoss, table | {"label": embeddings(teacher, table["english"]).tolist()},
        encoder_of(stage, LETTERS, kind="distilbert"), max_steps=60, learning_rate=3e-3,
        per_device_train_batch_size=32, lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, LETTERS.sought, least=0.05)


@sound("listwise order of a teacher over several candidates")
def candidates_in_the_order_of_a_teacher(stage: Stage) -> None:
    teacher = teacher_of(stage, LOGS)
    table = with_near(LOGS, 240, 0, 1, 2)
    model = warmed(encoder_of(stage, LOGS), two(LOGS, 150, seed=2), steps=4)
    trainer = stage.trainer(
        lambda model: losses.MarginMSELoss(model, similarity_fct=pairwise_cos_sim),
        table | {"label": cosines_of(teacher, table)}, model, max_steps=80, learning_rate=1e-3,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, LOGS.sought, least=0.05)
