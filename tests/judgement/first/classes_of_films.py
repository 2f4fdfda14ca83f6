"""Sound set-ups with a trainer: triplets of classes or of rows, entailment, mixed tables."""

from __future__ import annotations

from typing import Any

import torch
from datasets import Dataset, DatasetDict
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.sampler import BatchSamplers, MultiDatasetBatchSamplers

from tests.judgement.case import sound
from tests.judgement.first.fields_of_tides_and_tickets import (
    ARABIC,
    CHEMISTRY,
    CLAIMS,
    FILMS,
    GREEK,
    NEWS,
    RUSSIAN,
    SQL,
    classed,
    finding,
    fresh,
    grading,
    grouping,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import evaluation, losses, modules

BY_LABEL = {"batch_sampler": BatchSamplers.GROUP_BY_LABEL}


def mixed(stage: Stage, model: Any, tables: dict[str, Any], loss: Any, **settings: Any) -> Any:
    """A trainer over several tables."""
    arguments = SentenceTransformerTrainingArguments(**{
        "output_dir": str(stage.folder / "mixture"), "learning_rate": 2e-3, "max_steps": 80,
        "per_device_train_batch_size": 16, "warmup_steps": 6, "seed": 7, "use_cpu": True,
        "report_to": "none", "save_strategy": "no", "logging_steps": 5, "disable_tqdm": True,
        **settings,
    })  # fmt: skip
    rows = DatasetDict({name: Dataset.from_dict(table) for name, table in tables.items()})
    return SentenceTransformerTrainer(model=model, args=arguments, train_dataset=rows, loss=loss)


@sound("all triplets of batches by class")
def films_in_batches_by_mood(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda encoder: losses.BatchAllTripletLoss(encoder, margin=1.0),
        classed(FILMS, 400, slot=2), fresh(stage, FILMS), learning_rate=1e-3, max_steps=70,
        per_device_train_batch_size=30, **BY_LABEL,
    )  # fmt: skip
    learns(stage, trainer, grouping(FILMS, 2))


@sound("hardest triplets of a class with a soft margin")
def stories_by_team_with_a_soft_margin(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.BatchHardSoftMarginTripletLoss, classed(NEWS, 400), fresh(stage, NEWS, width=64),
        learning_rate=1e-3, max_steps=80, per_device_train_batch_size=32, **BY_LABEL,
    )  # fmt: skip
    learns(stage, trainer, grouping(NEWS))


@sound("triplets of medium hardness, distance by cosine")
def compounds_by_substituent(stage: Stage) -> None:
    distance = losses.BatchHardTripletLossDistanceFunction.cosine_distance
    trainer = stage.trainer(
        lambda encoder: losses.BatchSemiHardTripletLoss(encoder, distance, margin=0.3),
        classed(CHEMISTRY, 480), fresh(stage, CHEMISTRY), learning_rate=2e-3, max_steps=70,
        per_device_train_batch_size=36, **BY_LABEL,
    )  # fmt: skip
    learns(stage, trainer, grouping(CHEMISTRY))


@sound("triplets of rows, distance by cosine")
def claims_nearer_than_another_cause(stage: Stage) -> None:
    table = CLAIMS.table(400) | {"negative": CLAIMS.near(400, slot=0)}
    trial = CLAIMS.table(50, seed=3) | {"negative": CLAIMS.near(50, seed=3, slot=0)}
    trainer = stage.trainer(
        lambda encoder: losses.TripletLoss(
            encoder, losses.TripletDistanceMetric.COSINE, triplet_margin=0.4
        ),
        table, fresh(stage, CLAIMS), learning_rate=2e-3, max_steps=90,
        per_device_train_batch_size=24, eval_strategy="steps", eval_steps=30,
        evaluator=evaluation.TripletEvaluator(*trial.values()),
    )  # fmt: skip
    learns(stage, trainer, finding(CLAIMS))


@sound("hardest negatives of a large batch")
def greek_margins_in_a_large_batch(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda encoder: losses.MegaBatchMarginLoss(encoder, mini_batch_size=32),
        GREEK.table(480), fresh(stage, GREEK), learning_rate=2e-3, max_steps=40,
        per_device_train_batch_size=64,
    )  # fmt: skip
    learns(stage, trainer, finding(GREEK))


@sound("two languages in turn, one loss")
def russian_and_arabic_in_turn(stage: Stage) -> None:
    model = fresh(stage, (RUSSIAN, ARABIC), width=64)
    trainer = mixed(
        stage, model, {"russian": RUSSIAN.table(300), "arabic": ARABIC.table(300)},
        losses.MultipleNegativesRankingLoss(model),
        multi_dataset_batch_sampler=MultiDatasetBatchSamplers.ROUND_ROBIN,
    )  # fmt: skip
    scores = finding(RUSSIAN), finding(ARABIC)
    learns(stage, trainer, lambda encoder: sum(score(encoder) for score in scores) / 2)


@sound("pairs and grades in proportion, a loss for each table")
def queries_in_pairs_beside_graded_claims(stage: Stage) -> None:
    model = fresh(stage, (SQL, CLAIMS))
    trainer = mixed(
        stage, model, {"pairs": SQL.table(400), "grades": CLAIMS.graded(300)},
        {
            "pairs": losses.MultipleNegativesRankingLoss(model),
            "grades": losses.CoSENTLoss(model),
        },
        multi_dataset_batch_sampler=MultiDatasetBatchSamplers.PROPORTIONAL, max_steps=90,
    )  # fmt: skip
    scores = finding(SQL), grading(CLAIMS)
    learns(stage, trainer, lambda encoder: sum(score(encoder) for score in scores) / 2)


@sound("hardest triplets of a class, with normalised rows")
def arabic_trades_in_batches_by_class(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda encoder: losses.BatchHardTripletLoss(encoder, margin=0.5),
        classed(ARABIC, 400), fresh(stage, ARABIC, modules.Normalize()), learning_rate=2e-3,
        max_steps=80, per_device_train_batch_size=32, **BY_LABEL,
    )  # fmt: skip
    learns(stage, trainer, grouping(ARABIC))


@sound("a spread of rows over the sphere beside the ranking")
def russian_rows_spread_over_the_sphere(stage: Stage) -> None:
    class Spread(torch.nn.Module):
        """Ranking and the regularisation of orthogonal rows, of the same embeddings."""

        def __init__(self, model: Any) -> None:
            super().__init__()
            self.model = model
            self.ranking = losses.MultipleNegativesRankingLoss(model)
            self.regularizer = losses.GlobalOrthogonalRegularizationLoss(model)

        def forward(self, sentence_features: Any, labels: Any = None) -> Any:
            rows = [self.model(features)["sentence_embedding"] for features in sentence_features]
            spread = self.regularizer.compute_loss_from_embeddings(rows, labels)
            ranking = self.ranking.compute_loss_from_embeddings(rows, labels)
            return {"ranking": ranking, **{name: 0.2 * term for name, term in spread.items()}}

    trainer = stage.trainer(
        Spread, RUSSIAN.table(360), fresh(stage, RUSSIAN), learning_rate=2e-3, max_steps=50,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finding(RUSSIAN))
