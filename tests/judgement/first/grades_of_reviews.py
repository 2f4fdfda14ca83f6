"""Sound set-ups with a trainer: graded and binary labels, and what teachers say."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import (
    BinaryClassificationEvaluator,
    EmbeddingSimilarityEvaluator,
)

from tests.judgement.case import sound
from tests.judgement.first.fields import Field
from tests.judgement.first.fields_of_reviews_and_cards import (
    ALARMS,
    CHEMISTRY,
    MAILS,
    QUERIES,
    RUSSIAN,
    SHORT,
    judged,
    of_field,
    seek,
    triples,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, learns


def agrees(field: Field) -> Callable[[Any], float]:
    """The score that compares cosines with the grades of held-out pairs."""
    table = field.graded(150, seed=11) if len(field.slots) > 3 else field.graded(60, seed=11)
    return lambda model: correlation(model, table)


@sound("grades by CoSENT")
def graded_queries_by_cosent(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.CoSENTLoss, QUERIES.graded(600), of_field(stage, QUERIES), learning_rate=4e-3,
        max_steps=160, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, agrees(QUERIES))


@sound("grades by AnglE")
def graded_reactions_by_angles(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.AnglELoss, CHEMISTRY.graded(380), of_field(stage, CHEMISTRY), learning_rate=2e-3,
        max_steps=90, per_device_train_batch_size=24, lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, agrees(CHEMISTRY))


@sound("grades by cosines, with an evaluator")
def graded_queries_by_cosines_with_an_evaluator(stage: Stage) -> None:
    held_out = QUERIES.graded(80, seed=3)
    evaluator = EmbeddingSimilarityEvaluator(
        held_out["request"], held_out["sql"], held_out["score"], name="sql",
        show_progress_bar=False,
    )  # fmt: skip
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, QUERIES.graded(600), of_field(stage, QUERIES),
        learning_rate=4e-3, max_steps=160, per_device_train_batch_size=32, evaluator=evaluator,
        eval_strategy="steps", eval_steps=40,
    )  # fmt: skip
    learns(stage, trainer, agrees(QUERIES))


@sound("binary labels by a margin")
def judged_translations_by_a_margin(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.ContrastiveLoss, judged(RUSSIAN, 320), of_field(stage, RUSSIAN),
        learning_rate=3e-3, max_steps=90, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seek(RUSSIAN))


@sound("binary labels, hard pairs of a batch")
def judged_alarms_by_the_hard_pairs_of_a_batch(stage: Stage) -> None:
    held_out = judged(ALARMS, 40, seed=3)
    evaluator = BinaryClassificationEvaluator(*held_out.values(), name="alarms",
                                              show_progress_bar=False)  # fmt: skip
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, judged(ALARMS, 270), of_field(stage, ALARMS),
        learning_rate=2e-3, max_steps=80, per_device_train_batch_size=32, evaluator=evaluator,
        eval_strategy="steps", eval_steps=20,
    )  # fmt: skip
    learns(stage, trainer, seek(ALARMS))


def entailments(field: Field, count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Premises and hypotheses: all slots agree (0), all but one (1), or none (2)."""
    draw, rows = random.Random(seed + 30), field.draws(count, seed)
    lists = [entries.split() for entries in field.slots.values()]
    labels, seconds = [], []
    for row in rows:
        label = draw.randrange(3)
        differ = [set(), {draw.randrange(len(row))}, set(range(len(row)))][label]
        labels.append(label)
        seconds.append(tuple(
            draw.choice([e for e in lists[at] if e != word]) if at in differ else word
            for at, word in enumerate(row)
        ))  # fmt: skip
    return {
        "premise": field.texts(rows, 0), "hypothesis": field.texts(seconds, 1), "label": labels,
    }  # fmt: skip


def _softmax(model: Any) -> Any:
    torch.manual_seed(4)
    return losses.SoftmaxLoss(model, 48, num_labels=3)


@sound("three labels of inference")
def three_labels_of_inference_by_a_softmax(stage: Stage) -> None:
    trainer = stage.trainer(
        _softmax, entailments(QUERIES, 700), of_field(stage, QUERIES), learning_rate=3e-3,
        max_steps=160, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, agrees(QUERIES))


def _teacher(stage: Stage, field: Field) -> Any:
    model = of_field(stage, field, name="teacher", seed=5)
    return warmed(model, field.table(260, seed=2), 60)


def _rows(model: Any, texts: list[str]) -> torch.Tensor:
    return model.encode(texts, convert_to_tensor=True, show_progress_bar=False)


@sound("margins of a teacher")
def margins_of_a_teacher_for_triples(stage: Stage) -> None:
    table = triples(SHORT, 360, slot=1)
    teacher = _teacher(stage, SHORT)
    query, right, wrong = (_rows(teacher, texts) for texts in table.values())
    margins = (query * right).sum(1) - (query * wrong).sum(1)
    trainer = stage.trainer(
        losses.MarginMSELoss, table | {"label": (margins).tolist()}, of_field(stage, SHORT),
        learning_rate=3e-3, max_steps=120, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, seek(SHORT))


@sound("vectors of a teacher")
def vectors_of_a_teacher_for_mails(stage: Stage) -> None:
    """The student has one layer and learns the teacher's embeddings of subjects and bodies."""
    teacher, table = _teacher(stage, MAILS), MAILS.table(200)
    texts = [*table["subject"], *table["body"]]
    order = random.Random(1).sample(texts, len(texts))
    trainer = stage.trainer(
        losses.MSELoss, {"text": order, "label": _rows(teacher, order).tolist()},
        of_field(stage, MAILS, layers=1, dropout=0.0), learning_rate=5e-3, max_steps=120,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seek(MAILS))


@sound("scores of a teacher")
def scores_of_a_teacher_by_divergence(stage: Stage) -> None:
    table = triples(ALARMS, 280, slot=2)
    teacher = _teacher(stage, ALARMS)
    query, right, wrong = (_rows(teacher, texts) for texts in table.values())
    scores = torch.stack([(query * right).sum(1), (query * wrong).sum(1)], 1)
    trainer = stage.trainer(
        lambda model: losses.DistillKLDivLoss(model, temperature=2.0),
        table | {"label": scores.tolist()}, of_field(stage, ALARMS), learning_rate=3e-3,
        max_steps=100, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, seek(ALARMS))
