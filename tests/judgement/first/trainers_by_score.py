"""Sound set-ups: the trainer with graded and binary labels, and teachers."""

from __future__ import annotations

import random
from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.fields import Field
from tests.judgement.first.fields_of_cheers_and_shells import (
    AUCTION,
    CHEERS,
    PLANTS,
    REACTIONS,
    SENSORS,
    SHELL,
    TURKISH,
    WEATHER,
    model_of,
    score_of,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, learns
from tests.sentence_training import evaluation, losses


def matched(field: Field, count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs of which every other one has the text of another row: labels 1 and 0, shuffled."""
    first, second = list(field.table(count, seed).values())[:2]
    wrong = second[7:] + second[:7]
    labels = [at % 2 for at in range(count)]
    random.Random(seed).shuffle(labels)
    return {
        "sentence1": first,
        "sentence2": [second[at] if labels[at] else wrong[at] for at in range(count)],
        "label": labels,
    }


def grades(field: Field) -> Any:
    """The rank correlation of cosines and grades of pairs not in training."""
    return lambda model: correlation(model, field.graded(80, seed=21))


@sound("grades from 0 to 1 in order, correlation evaluated during training")
def cosent_on_graded_plants(stage: Stage) -> None:
    first, second, scores = PLANTS.graded(60, seed=31).values()
    evaluator = evaluation.EmbeddingSimilarityEvaluator(first, second, scores,
                                                        show_progress_bar=False)  # fmt: skip
    trainer = stage.trainer(
        lambda model: losses.CoSENTLoss(model), PLANTS.graded(300), model_of(stage, PLANTS),
        learning_rate=2e-3, max_steps=60, evaluator=evaluator, eval_strategy="steps",
        eval_steps=15, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, grades(PLANTS))


@sound("angles of complex embeddings")
def angle_loss_for_graded_chemistry(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.AnglELoss(model), REACTIONS.graded(280),
        model_of(stage, REACTIONS), learning_rate=2e-3, max_steps=90,
        per_device_train_batch_size=32, lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, grades(REACTIONS))


@sound("cosines regressed on grades, one language beside another")
def cosines_of_turkish_regressed_on_grades(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.CosineSimilarityLoss(model), TURKISH.graded(320),
        model_of(stage, TURKISH, spread=0.05), learning_rate=2e-3, max_steps=90,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, grades(TURKISH))


@sound("binary pairs with a margin, average precision evaluated during training")
def contrastive_pairs_of_sensor_readings(stage: Stage) -> None:
    first, second, labels = matched(SENSORS, 40, seed=13).values()
    evaluator = evaluation.BinaryClassificationEvaluator(first, second, labels,
                                                         show_progress_bar=False)  # fmt: skip
    trainer = stage.trainer(
        lambda model: losses.ContrastiveLoss(model), matched(SENSORS, 200),
        model_of(stage, SENSORS, spread=0.05), learning_rate=2e-3, max_steps=120,
        evaluator=evaluator, eval_strategy="steps", eval_steps=20,
    )  # fmt: skip
    learns(stage, trainer, score_of(SENSORS))


@sound("hard pairs of each batch only")
def online_contrastive_auctions(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.OnlineContrastiveLoss(model), matched(AUCTION, 220),
        model_of(stage, AUCTION, spread=0.1), learning_rate=2e-3, max_steps=100,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, score_of(AUCTION))


@sound("three classes of pairs by a softmax over both embeddings")
def entailment_classes_of_cheers(stage: Stage) -> None:
    """0: the same event; 1: another event of the club and player; 2: another club too."""
    draw, table = random.Random(3), {"premise": [], "hypothesis": [], "label": []}
    lists = [entries.split() for entries in CHEERS.slots.values()]
    for row in CHEERS.draws(180):
        label = draw.randrange(3)
        second = list(row)
        for at, slot in enumerate((1, 0)):
            if label > at:
                second[slot] = draw.choice([word for word in lists[slot] if word != row[slot]])
        table["premise"] += CHEERS.texts([row], 0)
        table["hypothesis"] += CHEERS.texts([tuple(second)], 1)
        table["label"].append(label)
    trainer = stage.trainer(
        lambda model: losses.SoftmaxLoss(model, 48, 3), table,
        model_of(stage, CHEERS, spread=0.1), learning_rate=2e-3, max_steps=120,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, score_of(CHEERS))


@sound("margins of a teacher between a passage and its hard negative")
def margins_of_a_teacher_for_chemistry(stage: Stage) -> None:
    teacher = warmed(model_of(stage, REACTIONS, name="teacher", seed=8), REACTIONS.table(240),
                     steps=50)  # fmt: skip
    table: dict[str, Any] = REACTIONS.table(240) | {"negative": REACTIONS.near(240, slot=1)}
    first, second, negative = (
        teacher.encode(column, normalize_embeddings=True, convert_to_tensor=True)
        for column in table.values()
    )
    table["label"] = (10 * ((first * second).sum(1) - (first * negative).sum(1))).tolist()
    trainer = stage.trainer(
        lambda model: losses.MarginMSELoss(model), table,
        model_of(stage, REACTIONS, spread=0.05), learning_rate=2e-3, max_steps=120,
    )  # fmt: skip
    learns(stage, trainer, score_of(REACTIONS))


@sound("a teacher's scores of a passage and two negatives as a distribution")
def distribution_of_a_teacher_over_shell_commands(stage: Stage) -> None:
    teacher = warmed(model_of(stage, SHELL, name="teacher", seed=8), SHELL.table(240), steps=40)
    table: dict[str, Any] = SHELL.table(240) | {
        "negative_1": SHELL.near(240, slot=0), "negative_2": SHELL.near(240, slot=2)
    }  # fmt: skip
    first, *documents = (
        teacher.encode(column, normalize_embeddings=True, convert_to_tensor=True)
        for column in table.values()
    )
    scores = [10 * (first * document).sum(1) for document in documents]
    table["label"] = torch.stack(scores, dim=1).tolist()
    trainer = stage.trainer(
        lambda model: losses.DistillKLDivLoss(model, temperature=1.0), table,
        model_of(stage, SHELL, spread=0.05), learning_rate=2e-3, max_steps=120,
    )  # fmt: skip
    learns(stage, trainer, score_of(SHELL))


@sound("embeddings of a teacher matched in two languages, evaluated during training")
def embeddings_of_a_teacher_for_weather(stage: Stage) -> None:
    teacher = warmed(model_of(stage, WEATHER, name="teacher", seed=8), WEATHER.table(300),
                     steps=50)  # fmt: skip
    table: dict[str, Any] = WEATHER.table(300)
    table["label"] = teacher.encode(table["english"]).tolist()
    unseen = WEATHER.table(50, seed=13)
    evaluator = evaluation.TranslationEvaluator(unseen["hindi"], unseen["english"],
                                                show_progress_bar=False)  # fmt: skip
    trainer = stage.trainer(
        lambda model: losses.MSELoss(model), table, model_of(stage, WEATHER, spread=0.1),
        learning_rate=2e-3, max_steps=90, evaluator=evaluator, eval_strategy="steps",
        eval_steps=30, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, score_of(WEATHER))
