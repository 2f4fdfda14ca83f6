"""Sound set-ups of the trainer: pairs with grades, and verdicts of two kinds."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import (
    BinaryClassificationEvaluator,
    EmbeddingSimilarityEvaluator,
    ParaphraseMiningEvaluator,
)
from torch import nn
from transformers import EarlyStoppingCallback

from tests.judgement.case import sound
from tests.judgement.first.fields import CLINIC, HELPDESK, KITCHEN, Field
from tests.judgement.first.good_fields import LETTERS
from tests.judgement.first.notebook_fields import (
    BIRDS,
    GARDEN,
    STATIONS,
    apart,
    encoder_of,
    judged_pairs,
    two,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, learns

EVALUATED = {"eval_strategy": "steps", "eval_steps": 15}


def graded_dev(field: Field, trained: dict[str, Any], count: int = 80) -> dict[str, list[Any]]:
    """Graded pairs that share no text with those of training."""
    return apart(field.graded(count, seed=13), trained)


def of_unseen_pairs(field: Field, trained: dict[str, Any], column: int) -> Any:
    """Return a score: the rank correlation on pairs without a text of training."""
    table = apart(field.graded(60, seed=11, second_column=column), trained)
    return lambda model: correlation(model, table)


def begun(stage: Stage, field: Field, steps: int = 8, **options: Any) -> Any:
    """Return an encoder that is trained a little on pairs, as a pretrained one that is tuned."""
    return warmed(encoder_of(stage, field, **options), two(field, 150, seed=2), steps=steps)


@sound("graded paraphrases by the order of their cosines")
def recipes_in_the_order_of_grades(stage: Stage) -> None:
    table = KITCHEN.graded(320)
    dev = graded_dev(KITCHEN, table)
    trainer = stage.trainer(
        losses.CoSENTLoss, table, begun(stage, KITCHEN),
        evaluator=EmbeddingSimilarityEvaluator(*dev.values(), name="sts", write_csv=False),
        per_device_train_batch_size=32, max_steps=50, learning_rate=2e-3, warmup_ratio=0.1,
        warmup_steps=0, **EVALUATED,
    )  # fmt: skip
    learns(stage, trainer, of_unseen_pairs(KITCHEN, table, 1), least=0.05)


@sound("graded pairs by their angle in a complex plane")
def letters_by_their_angle(stage: Stage) -> None:
    table = LETTERS.graded(200)
    trainer = stage.trainer(
        losses.AnglELoss, table, begun(stage, LETTERS, 4),
        per_device_train_batch_size=32, max_steps=60, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, of_unseen_pairs(LETTERS, table, 1), least=0.05)


@sound("grades from 0 to 5, divided by 5, as cosines")
def station_notices_with_grades_as_cosines(stage: Stage) -> None:
    table = STATIONS.graded(640, most=5.0)
    table["score"] = [score / 5 for score in table["score"]]
    dev = apart(STATIONS.graded(60, seed=13), table)
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, table, begun(stage, STATIONS, 12),
        evaluator=EmbeddingSimilarityEvaluator(
            *dev.values(), main_similarity="cosine", name="notices", write_csv=False
        ),
        learning_rate=1e-3, max_steps=80, per_device_train_batch_size=32,
        lr_scheduler_type="cosine", **EVALUATED,
    )  # fmt: skip
    learns(stage, trainer, of_unseen_pairs(STATIONS, table, 1), least=0.05)


@sound("early stopping by the correlation of development pairs")
def birds_until_the_correlation_stalls(stage: Stage) -> None:
    table = BIRDS.graded(480)
    dev = graded_dev(BIRDS, table)
    trainer = stage.trainer(
        losses.CoSENTLoss, table, begun(stage, BIRDS, kind="distilbert"),
        evaluator=EmbeddingSimilarityEvaluator(*dev.values(), name="dev", write_csv=False),
        callbacks=[EarlyStoppingCallback(early_stopping_patience=3)],
        per_device_train_batch_size=24, max_steps=60, learning_rate=1e-3,
        save_strategy="steps", save_steps=10, eval_strategy="steps", eval_steps=10,
        load_best_model_at_end=True, metric_for_best_model="eval_dev_spearman_cosine",
        greater_is_better=True, save_total_limit=2,
    )  # fmt: skip
    learns(stage, trainer, of_unseen_pairs(BIRDS, table, 1), least=0.05)


@sound("verdicts of duplicates with a margin and their accuracy")
def tickets_that_are_duplicates_or_not(stage: Stage) -> None:
    table = judged_pairs(HELPDESK, 400)
    dev = apart(judged_pairs(HELPDESK, 60, seed=13), table)
    unseen = apart(judged_pairs(HELPDESK, 60, seed=11), table)
    trainer = stage.trainer(
        lambda model: losses.ContrastiveLoss(model, margin=0.5), table,
        begun(stage, HELPDESK, 6),
        evaluator=BinaryClassificationEvaluator(*dev.values(), name="tickets", write_csv=False),
        per_device_train_batch_size=32, max_steps=100, learning_rate=1e-3, **EVALUATED,
    )  # fmt: skip
    learns(stage, trainer, lambda model: correlation(model, unseen), least=0.05)


@sound("hard pairs of each batch alone, with mining of duplicates")
def gardeners_asking_the_same(stage: Stage) -> None:
    dev = GARDEN.table(40, seed=13)
    table = apart(judged_pairs(GARDEN, 400), dev)
    texts = {f"{name}{at}": text for name, column in dev.items() for at, text in enumerate(column)}
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, table, begun(stage, GARDEN, 4),
        evaluator=ParaphraseMiningEvaluator(
            texts, [(f"anchor{at}", f"positive{at}") for at in range(40)], name="mined",
            write_csv=False,
        ),
        per_device_train_batch_size=48, max_steps=50, learning_rate=2e-3, **EVALUATED,
    )  # fmt: skip
    learns(stage, trainer, GARDEN.sought, least=0.05)


class Correlated(nn.Module):
    """One minus Pearson's correlation of cosines and grades, as reviewers of tasks measure it."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: Any, labels: torch.Tensor) -> torch.Tensor:
        first, second = (self.model(column)["sentence_embedding"] for column in features)
        cosines, grades = torch.cosine_similarity(first, second), labels.float()
        return 1 - torch.cosine_similarity(cosines - cosines.mean(), grades - grades.mean(), dim=0)


@sound("correlation of cosines and grades as the loss")
def complaints_by_correlation(stage: Stage) -> None:
    table = CLINIC.graded(200)
    trainer = stage.trainer(
        Correlated, table, begun(stage, CLINIC), per_device_train_batch_size=40,
        max_steps=50, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, of_unseen_pairs(CLINIC, table, 1), least=0.05)
