"""Ordinary rankings with negatives of the batch, in several fields."""

from __future__ import annotations

from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import Normalize

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import CODE, HELPDESK, KITCHEN, SCENES, SHOP, TRAVEL
from tests.judgement.first.good_fields import CONTRACTS, LOGS, SONGS, minutes, requests
from tests.judgement.first.good_materials import (
    answered,
    near_triplets,
    search,
    sought,
    tune,
    two,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage

RANKING = losses.MultipleNegativesRankingLoss


@sound("short questions for long clauses, cosine schedule")
def questions_on_contracts(stage: Stage) -> None:
    table = two(CONTRACTS.table(256))
    model = encoder(stage, words_of([table]), spread=0.05)
    dev = search(CONTRACTS.table(30, seed=3))
    tune(
        stage, table, RANKING, model, CONTRACTS.sought, per_device_train_batch_size=32,
        learning_rate=2e-3, lr_scheduler_type="cosine", warmup_steps=5, evaluator=dev,
        eval_strategy="steps", eval_steps=20, max_steps=40,
    )  # fmt: skip


@sound("premise, entailed and contradicted scene without duplicates in a batch")
def scenes_as_triplets(stage: Stage) -> None:
    """As all-nli with its triplets."""
    table = near_triplets(SCENES, 190, 1)
    model = encoder(stage, words_of([table]), width=40, spread=0.05)
    tune(
        stage, table, RANKING, model, SCENES.sought, batch_sampler="no_duplicates",
        learning_rate=2e-3, per_device_train_batch_size=24, num_train_epochs=5, max_steps=-1,
        warmup_steps=5,
    )  # fmt: skip


@sound("prompts for both columns and a temperature of a fiftieth")
def passages_and_queries_with_prompts(stage: Stage) -> None:
    """As E5: "query: " and "passage: ", unit vectors, a low temperature."""
    table = two(HELPDESK.table(300))
    prompts = {"question": "query: ", "answer": "passage: "}
    model = encoder(
        stage, words_of([table], "query: passage:"), Normalize(), width=64, spread=0.05,
        prompts=prompts,
    )  # fmt: skip
    tune(
        stage, table, lambda model: RANKING(model, scale=50), model,
        lambda model: HELPDESK.sought(model, prompts=("query: ", "passage: ")),
        prompts=prompts, learning_rate=1e-3, per_device_train_batch_size=32, max_steps=45,
    )  # fmt: skip


@sound("translations ranked in both directions")
def translations_in_both_directions(stage: Stage) -> None:
    table = TRAVEL.table(320)
    model = encoder(stage, words_of([table]), spread=0.05)
    tune(
        stage, table, losses.MultipleNegativesSymmetricRankingLoss, model, TRAVEL.sought,
        per_device_train_batch_size=32, learning_rate=3e-3, weight_decay=0.01, max_steps=50,
    )  # fmt: skip


@sound("large batches in small chunks by a gradient cache")
def cached_batches_of_code(stage: Stage) -> None:
    table = CODE.table(288)
    model = encoder(stage, words_of([table]), layers=1, width=64, spread=0.05)
    tune(
        stage, table,
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=24), model,
        CODE.sought, per_device_train_batch_size=96, learning_rate=3e-3, max_steps=24,
        warmup_steps=3,
    )  # fmt: skip


@sound("three hard negatives for each wish")
def several_hard_negatives_of_songs(stage: Stage) -> None:
    table = near_triplets(SONGS, 240, 0, 1, 2)
    model = encoder(stage, words_of([table]), spread=0.05)
    tune(
        stage, table, RANKING, model, SONGS.sought, per_device_train_batch_size=16,
        learning_rate=2e-3, max_steps=45, lr_scheduler_type="constant_with_warmup",
    )  # fmt: skip


@sound("guide that masks false negatives")
def guided_products(stage: Stage) -> None:
    """GISTEmbed: a trained encoder tells which negatives of the batch are too near."""
    table = two(SHOP.table(280))
    guide = encoder(stage, words_of([table]), name="guide", width=32, spread=0.05, seed=9)
    warmed(guide, table, 40)
    model = encoder(stage, words_of([table]), spread=0.05)
    tune(
        stage, table, lambda model: losses.GISTEmbedLoss(model, guide, temperature=0.05), model,
        SHOP.sought, per_device_train_batch_size=32, learning_rate=2e-3, max_steps=45,
    )  # fmt: skip


@sound("chunks and a guide at once")
def cached_and_guided_dishes(stage: Stage) -> None:
    table = two(KITCHEN.table(320))
    guide = encoder(stage, words_of([table]), name="guide", width=32, spread=0.05, seed=9)
    warmed(guide, table, 40)
    model = encoder(stage, words_of([table]), spread=0.05, layers=1)

    def loss(model: object) -> object:
        return losses.CachedGISTEmbedLoss(
            model, guide, temperature=0.05, mini_batch_size=16, margin_strategy="relative",
            margin=0.05,
        )  # fmt: skip

    tune(
        stage, table, loss, model, KITCHEN.sought, per_device_train_batch_size=64,
        learning_rate=3e-3, max_steps=25, warmup_steps=3,
    )  # fmt: skip


@sound(
    "few answers for many requests, no answer twice in a batch",
    allowed={
        r"(?i)(few|distinct|repeat|same|shared|duplicate).{0,80}(answer|positive|text|passage)|"
        r"(small|larger) batch": "There are ten answers only, which the batches keep apart."
    },
)
def requests_with_shared_answers(stage: Stage) -> None:
    table = two(requests(360))
    model = encoder(stage, words_of([table]), spread=0.05, width=32)
    tune(
        stage, table, RANKING, model, answered(requests(60, seed=11)),
        batch_sampler="no_duplicates", per_device_train_batch_size=8, max_steps=60,
        learning_rate=3e-3, lr_scheduler_type="polynomial",
    )  # fmt: skip


@sound("minutes of two to five points, both directions in one softmax")
def decisions_and_minutes(stage: Stage) -> None:
    table = minutes(300)
    model = encoder(stage, words_of([table]), spread=0.05)

    def loss(model: object) -> object:
        return RANKING(
            model, directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction"
        )

    tune(
        stage, table, loss, model, sought(minutes(60, seed=11)), per_device_train_batch_size=32,
        learning_rate=3e-3, max_steps=50,
    )  # fmt: skip


@sound("lines of a log and sentences in a mega batch with margins")
def mega_batches_of_logs(stage: Stage) -> None:
    table = two(LOGS.table(256))
    model = encoder(stage, words_of([table]), spread=0.05)
    tune(
        stage, table, lambda model: losses.MegaBatchMarginLoss(model, mini_batch_size=32), model,
        LOGS.sought, per_device_train_batch_size=64, learning_rate=2e-3, max_steps=40,
    )  # fmt: skip
