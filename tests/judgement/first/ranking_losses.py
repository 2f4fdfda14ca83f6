"""Sound set-ups: rankings in the batch, with and without hard negatives, plain and cached."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.made_fields import CHATS, FLATS, JOBS, QUERIES, STATUTES, addresses
from tests.judgement.first.ranking_tools import encoder_of, ranking, seeks, seeks_in
from tests.judgement.first.turns import warmed
from tests.judgement.first.wider_fields import HEADLINES, RECIPES, RUSSIAN, amounts
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval
from tests.sentence_training import losses


@sound("job adverts, batches of 32, cosine schedule")
def job_titles_meet_resumes_in_epochs(stage: Stage) -> None:
    """Some epochs of the in-batch ranking over clean pairs, with a cosine schedule and warm-up."""
    trainer = stage.trainer(
        ranking, JOBS.table(400), encoder_of(stage, JOBS), max_steps=-1, num_train_epochs=5,
        per_device_train_batch_size=32, learning_rate=1e-3, lr_scheduler_type="cosine",
        warmup_steps=10,
    )  # fmt: skip
    learns(stage, trainer, seeks(JOBS), least=0.1)


@sound("headlines with a hard negative")
def headlines_with_a_near_story(stage: Stage) -> None:
    """Each headline has its story and one that differs in a word: a well mined triplet."""
    trainer = stage.trainer(
        ranking, HEADLINES.answers(400, wrong=1), encoder_of(stage, HEADLINES),
        learning_rate=8e-4, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, seeks(HEADLINES), least=0.1)


@sound("laws with four hard negatives, small batches")
def statutes_with_four_wrong_paragraphs(stage: Stage) -> None:
    """Few rows in a batch, but four wrong paragraphs to each question, as in dense retrieval."""
    trainer = stage.trainer(
        ranking, STATUTES.answers(300, wrong=4), encoder_of(stage, STATUTES, pooling="mean"),
        per_device_train_batch_size=8, learning_rate=1.5e-3, max_steps=120,
    )  # fmt: skip
    learns(stage, trainer, seeks(STATUTES), least=0.1)


@sound("translations, both directions")
def russian_and_english_both_ways(stage: Stage) -> None:
    """The symmetric ranking suits translations, which are sought in both directions."""
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, RUSSIAN.table(500),
        encoder_of(stage, RUSSIAN, dropout=0.05), per_device_train_batch_size=32,
        learning_rate=1e-3, max_steps=60,
    )  # fmt: skip
    learns(stage, trainer, seeks(RUSSIAN), least=0.1)


@sound("chat turns, first token, normalised")
def chat_turns_by_the_first_token(stage: Stage) -> None:
    """Pooling by [CLS], unit length and a scale of 30, trained as it will be used."""
    from sentence_transformers.sentence_transformer.modules import Normalize

    model = encoder_of(stage, CHATS, Normalize(), pooling="cls", dropout=0.0)
    trainer = stage.trainer(
        lambda encoder: losses.MultipleNegativesRankingLoss(encoder, scale=30.0),
        CHATS.table(480), model, per_device_train_batch_size=24, learning_rate=2e-3,
        max_steps=110, lr_scheduler_type="constant_with_warmup", warmup_steps=8,
    )  # fmt: skip
    learns(stage, trainer, seeks(CHATS), least=0.1)


@sound("prompts in training and in use")
def database_wishes_with_prompts(stage: Stage) -> None:
    """Wishes and statements carry different prompts in training and when they are sought."""
    prompts = {"wish": "wish : ", "sql": "statement : "}
    words = [{"all": [*QUERIES.words(), *prompts.values()]}]
    trainer = stage.trainer(
        ranking, QUERIES.table(480), encoder_of(stage, words), prompts=prompts,
        learning_rate=2e-3, max_steps=100,
    )  # fmt: skip
    score = seeks(QUERIES, prompts=tuple(prompts.values()))
    learns(stage, trainer, score, least=0.1)


@sound("large batches with cached gradients")
def flats_in_large_cached_batches(stage: Stage) -> None:
    """Batches of 64 in parts of 16: many negatives at the memory of few."""
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=16),
        FLATS.table(512), encoder_of(stage, FLATS), per_device_train_batch_size=64,
        learning_rate=1.5e-3, max_steps=50,
    )  # fmt: skip
    learns(stage, trainer, seeks(FLATS), least=0.1)


@sound("symmetric ranking with cached gradients")
def recipes_symmetric_and_cached(stage: Stage) -> None:
    """Lists of ingredients and titles are sought either way, in batches of 48 in parts of 12."""
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesSymmetricRankingLoss(model, mini_batch_size=12),
        RECIPES.table(384), encoder_of(stage, RECIPES, layers=1), learning_rate=3e-3,
        per_device_train_batch_size=48, max_steps=70,
    )  # fmt: skip
    learns(stage, trainer, seeks(RECIPES), least=0.1)


def typed_guide(stage: Stage) -> Any:
    """An encoder that knows addresses already."""
    table = addresses(300, seed=2)
    return warmed(encoder_of(stage, [table], name="guide", seed=8), table, steps=70)


@sound("a trained guide leaves out false negatives")
def addresses_with_a_guide(stage: Stage) -> None:
    """A guide trained before masks candidates that it holds closer than the positive."""
    guide, table = typed_guide(stage), addresses(300)
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(model, guide=guide, temperature=0.05), table,
        encoder_of(stage, [table]), learning_rate=2e-3, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, seeks_in(addresses), least=0.1)


@sound("a guide, cached, with a margin")
def typed_addresses_with_a_cached_guide(stage: Stage) -> None:
    """The cached loss with a guide, with a small relative margin against false negatives."""
    guide, table = typed_guide(stage), addresses(300)
    trainer = stage.trainer(
        lambda model: losses.CachedGISTEmbedLoss(
            model, guide=guide, temperature=0.05, mini_batch_size=16,
            margin_strategy="relative", margin=0.05,
        ),
        table, encoder_of(stage, [table]), learning_rate=3e-3, max_steps=60,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeks_in(addresses), least=0.1)


@sound("sizes nested in one another")
def nested_sizes_for_job_search(stage: Stage) -> None:
    """Matryoshka over the ranking; the score is of the first twelve dimensions, as it is for."""
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(model, ranking(model), [48, 24, 12]),
        JOBS.table(400), encoder_of(stage, JOBS), learning_rate=2e-3, max_steps=110,
    )  # fmt: skip

    def short(model: Any) -> float:
        table = JOBS.table(80, seed=11)
        first, second = (
            model.encode(texts, truncate_dim=12, show_progress_bar=False)
            for texts in table.values()
        )
        from tests.judgement.truth import reciprocal_rank

        return reciprocal_rank(first, second)

    learns(stage, trainer, short, least=0.1)


@sound("numbers in words and figures, margin in large batches")
def amounts_with_a_mega_batch_margin(stage: Stage) -> None:
    """The hardest negative of a batch of 50 for each amount; margins as the library has them."""
    table = amounts(400)
    trainer = stage.trainer(
        lambda model: losses.MegaBatchMarginLoss(model, use_mini_batched_version=False), table,
        encoder_of(stage, [table]), per_device_train_batch_size=50, learning_rate=2e-3,
        max_steps=100,
    )  # fmt: skip
    learns(stage, trainer, lambda model: retrieval(model, amounts(80, 11)), least=0.1)
