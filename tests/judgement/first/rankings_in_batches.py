"""Sound set-ups with the trainer: losses that rank pairs and triplets."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import (
    InformationRetrievalEvaluator,
    TripletEvaluator,
)
from sentence_transformers.sentence_transformer.modules import Dense, Normalize

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.fields_of_daily_use import (
    BIRDS,
    MAILS,
    NEWS,
    PATENTS,
    QUERIES,
    REACTIONS,
    RENTS,
    finds,
    finds_letters,
    notes,
    split,
    starter,
    ward_words,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


@sound("ranking of formulas, small batches")
def names_of_reactions_rank_their_formulas(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, REACTIONS.table(320), starter(stage, REACTIONS),
        per_device_train_batch_size=12, learning_rate=2e-3, max_steps=70,
    )  # fmt: skip
    learns(stage, trainer, finds(REACTIONS))


@sound("cached ranking in large batches")
def cached_ranking_of_mails_in_large_batches(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=32),
        MAILS.table(384), starter(stage, MAILS), per_device_train_batch_size=96,
        learning_rate=3e-3, max_steps=28, lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, finds(MAILS))


@sound("symmetric ranking across scripts, with an evaluator")
def two_scripts_rank_in_two_directions(stage: Stage) -> None:
    table, dev = split(NEWS.table(360), 300)
    model = starter(stage, NEWS, behind=[Normalize()])
    names = [str(at) for at in range(len(dev["english"]))]
    evaluator = InformationRetrievalEvaluator(
        dict(zip(names, dev["english"], strict=True)),
        dict(zip(names, dev["russian"], strict=True)),
        {name: {name} for name in names}, name="news",
    )  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, table, model, evaluator=evaluator,
        eval_strategy="steps", eval_steps=20, learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, finds(NEWS))


@sound("ranking with hard negatives and a triplet evaluator")
def birds_with_hard_negatives_of_one_place(stage: Stage) -> None:
    table = BIRDS.table(360) | {"negative": BIRDS.near(360, slot=0)}
    table, dev = split(table, 300)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, starter(stage, BIRDS, pooling="max"),
        evaluator=TripletEvaluator(*dev.values(), name="birds"), eval_strategy="steps",
        eval_steps=15, learning_rate=2e-3, max_steps=60, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, finds(BIRDS))


def _cosine_triplets(model: Any) -> Any:
    return losses.TripletLoss(
        model, distance_metric=losses.TripletDistanceMetric.COSINE, triplet_margin=0.3
    )


@sound("triplets by cosine with a margin")
def flats_in_triplets_by_cosine(stage: Stage) -> None:
    table = RENTS.table(320) | {"negative": RENTS.near(320, slot=2)}
    trainer = stage.trainer(
        _cosine_triplets, table, starter(stage, RENTS, width=64), learning_rate=3e-3,
        per_device_train_batch_size=32, max_steps=100,
    )  # fmt: skip
    learns(stage, trainer, finds(RENTS))


@sound("guided ranking")
def queries_guided_by_a_trained_encoder(stage: Stage) -> None:
    """The guide has learned the same field before; pairs it holds for too alike are masked."""
    table = QUERIES.table(320)
    guide = warmed(starter(stage, QUERIES, name="guide", seed=5), table, steps=40)
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(model, guide, temperature=0.05),
        table, starter(stage, QUERIES), learning_rate=2e-3, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, finds(QUERIES))


@sound("nested widths of embeddings")
def long_claims_in_nested_widths(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(
            model, losses.MultipleNegativesRankingLoss(model), [64, 32, 16]
        ),
        PATENTS.table(320), starter(stage, PATENTS, width=64), learning_rate=2e-3, max_steps=50,
    )  # fmt: skip
    learns(stage, trainer, finds(PATENTS))


@sound("dense head behind mean pooling, texts of mixed lengths")
def letters_of_a_ward_behind_a_dense_head(stage: Stage) -> None:
    model = encoder(stage, ward_words(), Dense(48, 32))
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, notes(360), model, learning_rate=2e-3, max_steps=80,
        per_device_train_batch_size=24, lr_scheduler_type="constant_with_warmup", warmup_steps=8,
    )  # fmt: skip
    learns(stage, trainer, finds_letters)


@sound("margins over large batches")
def margins_within_a_mega_batch(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MegaBatchMarginLoss(
            model, positive_margin=0.8, negative_margin=0.3, mini_batch_size=25
        ),
        REACTIONS.table(400), starter(stage, REACTIONS), per_device_train_batch_size=50,
        learning_rate=3e-3, max_steps=40, dataloader_drop_last=True,
    )  # fmt: skip
    learns(stage, trainer, finds(REACTIONS))
