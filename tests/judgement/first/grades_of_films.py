"""Sound set-ups with a trainer: graded pairs, binary pairs, and marks of a teacher."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import nn

from tests.judgement.case import sound
from tests.judgement.first.fields import Field
from tests.judgement.first.fields_of_tides_and_tickets import (
    CLAIMS,
    FILMS,
    HINDI,
    KANA,
    NETWORK,
    NEWS,
    STARS,
    TIDES,
    finding,
    fresh,
    grading,
    noisy,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, learns
from tests.sentence_training import evaluation, losses, modules


def judged_pairs(field: Field, count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs of which about half belong together (1); the rest differ in one slot or most (0)."""
    draw, table = random.Random(seed), field.table(count, seed)
    first, second = list(table.values())[:2]
    width = len(field.slots)
    wrong = [field.near(count, seed, slot=slot) for slot in range(width)]
    wrong += [second[shift:] + second[:shift] for shift in range(1, width + 1)]
    labels = [draw.randint(0, 1) for _ in first]
    texts = [
        second[at] if label else wrong[draw.randrange(2 * width)][at]
        for at, label in enumerate(labels)
    ]
    return {"sentence1": first, "sentence2": texts, "label": labels}


def telling_apart(field: Field) -> Callable[[Any], float]:
    """A score: rank correlation of cosines and labels of rows not in training."""
    table = judged_pairs(field, 60, seed=11)
    return lambda model: correlation(model, table)


def teacher_of(stage: Stage, field: Field, *behind: Any, width: int = 64) -> Any:
    """A wider encoder of a field that has been trained on other rows' pairs and these."""
    model = fresh(stage, field, *behind, width=width, name="teacher", dropout=0.0, seed=9)
    return warmed(model, field.table(400, seed=4), 70)


@sound("CoSENT with grades evaluated in training")
def claims_graded_by_agreement(stage: Stage) -> None:
    trial = CLAIMS.graded(60, seed=3)
    trainer = stage.trainer(
        losses.CoSENTLoss, CLAIMS.graded(400), fresh(stage, CLAIMS), learning_rate=2e-3,
        max_steps=80, per_device_train_batch_size=24, eval_strategy="steps", eval_steps=40,
        evaluator=evaluation.EmbeddingSimilarityEvaluator(*trial.values()),
    )  # fmt: skip
    learns(stage, trainer, grading(CLAIMS))


@sound("AnglE on grades")
def film_reviews_graded_with_angles(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.AnglELoss, FILMS.graded(400), fresh(stage, FILMS, width=64), max_steps=110,
        learning_rate=2e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, grading(FILMS))


@sound("cosine on grades, mean and maximum pooled")
def hindi_grades_of_mean_and_maximum(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, HINDI.graded(400),
        warmed(fresh(stage, HINDI, pooling=("mean", "max")), HINDI.table(300), 12),
        learning_rate=3e-3, max_steps=120, per_device_train_batch_size=16, warmup_steps=12,
    )  # fmt: skip
    learns(stage, trainer, grading(HINDI))


@sound("contrastive loss on binary pairs")
def tickets_that_fit_their_log_line_or_not(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda encoder: losses.ContrastiveLoss(encoder, margin=0.6), judged_pairs(NETWORK, 480),
        fresh(stage, NETWORK), learning_rate=2e-3, max_steps=110, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, telling_apart(NETWORK))


@sound("online contrastive loss with a binary evaluator")
def headlines_that_fit_their_story_or_not(stage: Stage) -> None:
    first, second, labels = judged_pairs(NEWS, 60, seed=3).values()
    trainer = stage.trainer(
        lambda encoder: losses.OnlineContrastiveLoss(encoder, margin=0.7),
        judged_pairs(NEWS, 480), fresh(stage, NEWS), learning_rate=2e-3, max_steps=110,
        per_device_train_batch_size=48, eval_strategy="steps", eval_steps=30,
        evaluator=evaluation.BinaryClassificationEvaluator(first, second, labels),
    )  # fmt: skip
    learns(stage, trainer, telling_apart(NEWS))


@sound("margins of a teacher")
def margins_of_a_wider_teacher(stage: Stage) -> None:
    teacher = teacher_of(stage, STARS, modules.Normalize())
    table = STARS.table(360) | {"negative": STARS.near(360, slot=2)}
    query, positive, negative = (
        teacher.encode(texts, show_progress_bar=False) for texts in table.values()
    )
    margins = 4 * ((query * positive).sum(1) - (query * negative).sum(1))
    trainer = stage.trainer(
        losses.MarginMSELoss, table | {"score": margins.tolist()}, fresh(stage, STARS),
        learning_rate=1e-3, max_steps=80, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, finding(STARS))


@sound("a teacher's distribution over four candidates")
def candidates_weighed_by_a_teacher(stage: Stage) -> None:
    teacher = teacher_of(stage, CLAIMS, modules.Normalize())
    table = CLAIMS.table(360)
    table |= {f"negative_{slot}": CLAIMS.near(360, slot=slot) for slot in (0, 1, 2)}
    query, *candidates = (
        teacher.encode(texts, show_progress_bar=False) for texts in table.values()
    )
    marks = np.stack([6 * (query * rows).sum(1) for rows in candidates], axis=1)
    trainer = stage.trainer(
        losses.DistillKLDivLoss, table | {"label": marks.tolist()}, fresh(stage, CLAIMS),
        learning_rate=1e-3, max_steps=80, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, finding(CLAIMS))


@sound("embeddings of a teacher, for texts in two scripts")
def kana_and_kanji_after_one_teacher(stage: Stage) -> None:
    teacher = teacher_of(stage, KANA, modules.Normalize(), width=48)
    table = KANA.table(400)
    targets = teacher.encode(table["kanji"], show_progress_bar=False)
    trainer = stage.trainer(
        losses.MSELoss, table | {"label": targets.tolist()},
        fresh(stage, KANA, modules.Normalize()), learning_rate=3e-3, max_steps=90,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finding(KANA))


@sound("embeddings of a wider teacher through a dense head, by cosine")
def tide_tables_after_a_wider_teacher(stage: Stage) -> None:
    teacher = teacher_of(stage, TIDES, width=64)
    texts = [text for column in TIDES.table(300).values() for text in column]
    texts = list(dict.fromkeys([*texts, *noisy(texts, seed=2)]))
    targets = teacher.encode(texts, show_progress_bar=False, normalize_embeddings=True)
    head = modules.Dense(48, 64, activation_function=nn.Identity())
    trainer = stage.trainer(
        losses.EmbedDistillLoss, {"text": texts, "label": targets.tolist()},
        fresh(stage, TIDES, head), learning_rate=3e-3, max_steps=90,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finding(TIDES))
