"""Sound set-ups: the trainer with triplets and classes, an adapter, a dense head."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.fields import Field
from tests.judgement.first.fields_of_cheers_and_shells import (
    MAILS,
    NEWS,
    RAILWAY,
    SKY,
    TURKISH,
    model_of,
    score_of,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import evaluation, losses, modules


@sound("triplets with a hard negative, accuracy evaluated during training")
def triplets_of_sky_surveys(stage: Stage) -> None:
    unseen = SKY.table(60, seed=13)
    evaluator = evaluation.TripletEvaluator(
        unseen["plan"], unseen["header"], SKY.near(60, seed=13), show_progress_bar=False
    )
    trainer = stage.trainer(
        lambda model: losses.TripletLoss(
            model, distance_metric=losses.TripletDistanceMetric.COSINE, triplet_margin=0.3
        ),
        SKY.table(240) | {"negative": SKY.table(240, seed=2)["header"]},
        model_of(stage, SKY, spread=0.1), learning_rate=2e-3, max_steps=80,
        evaluator=evaluator, eval_strategy="steps", eval_steps=20,
    )  # fmt: skip
    learns(stage, trainer, score_of(SKY))


def classed(field: Field, count: int, seed: int = 0, column: int = 1) -> dict[str, list[Any]]:
    """Texts of a column with the place of their first slot's entry as the class."""
    rows, entries = field.draws(count, seed), next(iter(field.slots.values())).split()
    return {
        "text": field.texts(rows, column), "label": [entries.index(row[0]) for row in rows]
    }  # fmt: skip


def among_classes(field: Field) -> Any:
    """The share of texts not in training whose nearest neighbour is of their class."""

    def score(model: Any) -> float:
        texts, labels = classed(field, 60, seed=11).values()
        rows = torch.as_tensor(model.encode(texts, normalize_embeddings=True))
        nearest = (rows @ rows.T).fill_diagonal_(-2).argmax(1).tolist()
        return sum(labels[a] == labels[b] for a, b in enumerate(nearest)) / len(labels)

    return score


@sound("hardest positives and negatives of a batch, with a soft margin")
def hardest_triplets_of_mails_by_their_topic(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.BatchHardSoftMarginTripletLoss(model),
        classed(MAILS, 270), model_of(stage, MAILS, spread=0.1), learning_rate=1e-3, max_steps=90,
        batch_sampler="group_by_label", per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, among_classes(MAILS))


@sound("all triplets of a batch, in Cyrillic")
def all_triplets_of_russian_by_person(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.BatchAllTripletLoss(
            model, losses.BatchHardTripletLossDistanceFunction.cosine_distance, margin=0.4
        ),
        classed(RAILWAY, 300, column=0), model_of(stage, RAILWAY, spread=0.1),
        learning_rate=1e-3, max_steps=50, batch_sampler="group_by_label",
        per_device_train_batch_size=30, lr_scheduler_type="constant_with_warmup",
    )  # fmt: skip
    learns(
        stage, trainer,
        lambda model: _same_person(model),
    )  # fmt: skip


def _same_person(model: Any) -> float:
    texts, labels = classed(RAILWAY, 60, seed=11, column=0).values()
    rows = torch.as_tensor(model.encode(texts, normalize_embeddings=True))
    nearest = (rows @ rows.T).fill_diagonal_(-2).argmax(1).tolist()
    return sum(labels[a] == labels[b] for a, b in enumerate(nearest)) / len(labels)


@sound("semi-hard triplets by class, long articles")
def semihard_triplets_of_news_by_subject(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.BatchSemiHardTripletLoss(
            model, losses.BatchHardTripletLossDistanceFunction.cosine_distance, margin=0.3
        ),
        classed(NEWS, 240), model_of(stage, NEWS, spread=0.1), learning_rate=2e-3, max_steps=60,
        batch_sampler="group_by_label", per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, among_classes(NEWS))


@sound(
    "low-rank adapter on an encoder that was trained before",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def adapter_of_low_rank_for_turkish(stage: Stage) -> None:
    from peft import LoraConfig

    model = warmed(model_of(stage, TURKISH, spread=0.1, dropout=0.0), TURKISH.table(200), steps=8)
    model.add_adapter(LoraConfig(
        r=16, lora_alpha=32, lora_dropout=0.05, target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesSymmetricRankingLoss(model), TURKISH.table(320),
        model, learning_rate=5e-3, max_steps=70, per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, score_of(TURKISH))


@sound("a dense head and normalised embeddings, accumulation of batches")
def dense_head_over_normalised_mails(stage: Stage) -> None:
    model = model_of(stage, MAILS, modules.Dense(48, 64), modules.Normalize())
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesRankingLoss(model), MAILS.table(300), model,
        learning_rate=2e-3, max_steps=45, gradient_accumulation_steps=2, max_grad_norm=1.0,
        per_device_train_batch_size=16,
    )  # fmt: skip
    learns(stage, trainer, score_of(MAILS))
