"""Sound set-ups: trainers with losses that rank a positive above the rest of its batch."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import sound
from tests.judgement.first import fields_of_wishes_and_mails as fields
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses

NO_DUPLICATES = {"batch_sampler": "no_duplicates"}


def ranking(model: Any) -> Any:
    return losses.MultipleNegativesRankingLoss(model)


@sound("code search")
def functions_ranked_by_docstring(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.CODE)
    trainer = stage.trainer(
        ranking, fields.CODE.table(320), model, learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=32, **NO_DUPLICATES,
    )  # fmt: skip
    learns(stage, trainer, fields.CODE.sought)


@sound("symmetric ranking of formulae")
def reaction_schemes_in_both_directions(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.REACTIONS, pooling="cls", spread=0.1)
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, fields.REACTIONS.table(360), model,
        learning_rate=2e-3, max_steps=130, per_device_train_batch_size=32, warmup_steps=13,
        lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, fields.REACTIONS.sought)


@sound("large batches in small chunks")
def mails_cached_in_large_batches(stage: Stage) -> None:
    def cached(model: Any) -> Any:
        return losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=16)

    model = fields.encoder_of(stage, fields.MAILS, width=32)
    trainer = stage.trainer(
        cached, fields.MAILS.table(384), model, learning_rate=4e-3, max_steps=24,
        per_device_train_batch_size=96, warmup_steps=2, **NO_DUPLICATES,
    )  # fmt: skip
    learns(stage, trainer, fields.MAILS.sought)


@sound("cached ranking in both directions")
def alarms_cached_in_both_directions(stage: Stage) -> None:
    def cached(model: Any) -> Any:
        return losses.CachedMultipleNegativesSymmetricRankingLoss(model, mini_batch_size=32)

    model = fields.encoder_of(stage, fields.ALARMS, width=32)
    trainer = stage.trainer(
        cached, fields.ALARMS.table(400), model, learning_rate=3e-3, max_steps=36,
        per_device_train_batch_size=64, bf16=True,
    )  # fmt: skip
    learns(stage, trainer, fields.ALARMS.sought)


@sound("three hard negatives a row")
def sql_with_three_hard_negatives(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.SQL, pooling="max")
    table = fields.triplets(fields.SQL, 260, slots=(0, 1, 2))
    trainer = stage.trainer(
        ranking, table, model, learning_rate=2e-3, max_steps=50, per_device_train_batch_size=16
    )
    learns(stage, trainer, fields.SQL.sought)


@sound("ranking in all directions at once")
def stars_ranked_in_four_directions(stage: Stage) -> None:
    def everywhere(model: Any) -> Any:
        return losses.MultipleNegativesRankingLoss(
            model, scale=25.0,
            directions=("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc"),
        )  # fmt: skip

    model = fields.encoder_of(stage, fields.STARS)
    trainer = stage.trainer(
        everywhere, fields.STARS.table(300), model, learning_rate=3e-3, max_steps=60,
        per_device_train_batch_size=20, **NO_DUPLICATES,
    )  # fmt: skip
    learns(stage, trainer, fields.STARS.sought)


@sound("nested sizes of an embedding")
def russian_in_nested_sizes(stage: Stage) -> None:
    def nested(model: Any) -> Any:
        return losses.MatryoshkaLoss(model, ranking(model), matryoshka_dims=[48, 24, 12])

    model = fields.encoder_of(stage, fields.RUSSIAN)
    trainer = stage.trainer(
        nested, fields.RUSSIAN.table(350), model, learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=32, max_grad_norm=0.5,
    )  # fmt: skip
    learns(stage, trainer, fields.RUSSIAN.sought)


@sound("every layer as an exit")
def greek_by_layers(stage: Stage) -> None:
    def layered(model: Any) -> Any:
        return losses.AdaptiveLayerLoss(model, ranking(model))

    model = fields.encoder_of(stage, fields.GREEK, layers=3, width=32)
    trainer = stage.trainer(
        layered, fields.GREEK.table(360), model, learning_rate=3e-3, max_steps=60,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, fields.GREEK.sought)


@sound("guide that vetoes false negatives")
def guided_adverts(stage: Stage) -> None:
    """The guide has learned from rows of its own; it keeps its weights."""
    pairs = dict(list(fields.JOBS.table(420).items())[:2])
    guide = fields.encoder_of(stage, fields.JOBS, name="guide", width=64, seed=8)
    guide = warmed(guide, {name: cells[300:] for name, cells in pairs.items()}, steps=30)

    def guided(model: Any) -> Any:
        return losses.GISTEmbedLoss(model, guide, temperature=0.05)

    model = fields.encoder_of(stage, fields.JOBS, width=32)
    table = {name: cells[:300] for name, cells in pairs.items()}
    trainer = stage.trainer(
        guided, table, model, learning_rate=3e-3, max_steps=60, per_device_train_batch_size=24
    )
    learns(stage, trainer, lambda model: fields.sought(_pairs_of_jobs)(model))


def _pairs_of_jobs(count: int, seed: int) -> dict[str, list[str]]:
    return dict(list(fields.JOBS.table(count, seed).items())[:2])


@sound("till lines of mixed lengths, no warmup")
def shopping_lists_at_a_constant_rate(stage: Stage) -> None:
    from tests.judgement.first.bodies import encoder, words_of

    table = fields.baskets(320)
    model = encoder(stage, words_of([table, fields.baskets(60, 11)]), kind="distilbert")
    trainer = stage.trainer(
        ranking, table, model, learning_rate=1e-3, max_steps=70, warmup_steps=0,
        lr_scheduler_type="constant", per_device_train_batch_size=16,
    )  # fmt: skip
    learns(stage, trainer, fields.sought(fields.baskets))
