"""Sound set-ups of the trainer: bodies, poolings and heads other than a plain encoder."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import (
    CNN,
    Dense,
    LayerNorm,
    Normalize,
    Pooling,
    Router,
    StaticEmbedding,
)

from tests.judgement.case import sound
from tests.judgement.first.bodies import body, tokenizer_of, words_of
from tests.judgement.first.fields import HELPDESK, KITCHEN, SHOP, TRAVEL, Field
from tests.judgement.first.good_fields import CONTRACTS, LOGS, SONGS
from tests.judgement.first.notebook_fields import BIRDS, GARDEN, STATIONS, encoder_of, two
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval

UNIQUE = {"batch_sampler": "no_duplicates"}
RANKING = losses.MultipleNegativesRankingLoss


def vocabulary(field: Field) -> list[str]:
    """All texts whose words an encoder of a field should know."""
    return words_of([field.table(200), field.table(40, seed=11)])


def assembled(*modules: Any, prompts: dict[str, str] | None = None) -> SentenceTransformer:
    return SentenceTransformer(modules=list(modules), device="cpu", prompts=prompts)


@sound("static embeddings at their high rate with nested dimensions")
def static_embeddings_of_recipes(stage: Stage) -> None:
    torch.manual_seed(4)
    model = assembled(StaticEmbedding(tokenizer_of(vocabulary(KITCHEN)), embedding_dim=64))
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(model, RANKING(model), [64, 32, 16]),
        two(KITCHEN, 320), model, per_device_train_batch_size=64, max_steps=50,
        learning_rate=0.05, warmup_steps=5, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, KITCHEN.sought, least=0.05)


@sound("decoder with its last token and an instruction for questions")
def decoder_of_birds_with_an_instruction(stage: Stage) -> None:
    prompts = {"query": "instruct : find the entry query : ", "document": ""}
    text = [*vocabulary(BIRDS), prompts["query"]]
    model = assembled(
        body(stage, text, kind="granite"), Pooling(48, pooling_mode="lasttoken"), Normalize(),
        prompts=prompts,
    )  # fmt: skip
    trainer = stage.trainer(
        RANKING, two(BIRDS, 320), model,
        prompts={"question": prompts["query"], "entry": prompts["document"]},
        per_device_train_batch_size=32, max_steps=50, learning_rate=2e-3, **UNIQUE,
    )  # fmt: skip
    texts = BIRDS.table(40, seed=11)
    learns(
        stage, trainer, lambda model: retrieval(model, texts, prompts=tuple(prompts.values())),
        least=0.05,
    )  # fmt: skip


@sound(
    "adapters of low rank in a trained encoder",
    allowed={
        "saved model": "Adapters alone are saved, beside the name of an encoder whose warm-up "
        "stays in memory."
    },
)
def adapters_of_low_rank(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model = warmed(encoder_of(stage, STATIONS), two(STATIONS, 100, seed=2), steps=5)
    model.add_adapter(
        LoraConfig(
            task_type=TaskType.FEATURE_EXTRACTION, r=8, lora_alpha=16, lora_dropout=0.05,
            target_modules=["query", "key", "value", "dense"],
        )
    )  # fmt: skip
    trainer = stage.trainer(
        RANKING, two(STATIONS, 256), model, per_device_train_batch_size=32, max_steps=60,
        learning_rate=2e-3, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, STATIONS.sought, least=0.05)


@sound("embedding table frozen in a trained encoder")
def frozen_table_of_words(stage: Stage) -> None:
    model = warmed(encoder_of(stage, GARDEN), two(GARDEN, 100, seed=2), steps=5)
    model[0].auto_model.embeddings.requires_grad_(False)
    trainer = stage.trainer(
        RANKING, two(GARDEN, 320), model, per_device_train_batch_size=32, max_steps=60,
        learning_rate=2e-3, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, GARDEN.sought, least=0.05)


@sound("convolutions over the tokens")
def convolutions_of_offers(stage: Stage) -> None:
    model = assembled(
        body(stage, vocabulary(SHOP), layers=1), CNN(48, 32, kernel_sizes=[1, 3]),
        Pooling(64, pooling_mode="mean"),
    )  # fmt: skip
    trainer = stage.trainer(
        RANKING, two(SHOP, 240), model, max_steps=50, learning_rate=2e-3,
        per_device_train_batch_size=24, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, SHOP.sought, least=0.05)


@sound("dense bottleneck behind the pooling")
def bottleneck_behind_the_pooling(stage: Stage) -> None:
    trainer = stage.trainer(
        RANKING, two(SONGS, 320),
        encoder_of(stage, SONGS, Dense(64, 24, activation_function=torch.nn.Tanh()), width=64),
        per_device_train_batch_size=32, max_steps=60, learning_rate=2e-3, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, SONGS.sought, least=0.05)


@sound("encoders of their own for questions and documents")
def encoders_for_each_route(stage: Stage) -> None:
    torch.manual_seed(4)
    text = vocabulary(HELPDESK)
    router = Router.for_query_document(
        query_modules=[StaticEmbedding(tokenizer_of(text), embedding_dim=48)],
        document_modules=[body(stage, text, spread=0.1), Pooling(48, pooling_mode="mean")],
    )
    trainer = stage.trainer(
        RANKING, two(HELPDESK, 256), assembled(router, Normalize()),
        router_mapping={"question": "query", "answer": "document"},
        learning_rate_mapping={r".*query.*": 2e-2}, learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=32, **UNIQUE,
    )  # fmt: skip
    texts = list(HELPDESK.table(40, seed=11).values())

    def sought(model: SentenceTransformer) -> float:
        from tests.judgement.truth import reciprocal_rank

        return reciprocal_rank(
            model.encode_query(texts[0], show_progress_bar=False),
            model.encode_document(texts[1], show_progress_bar=False),
        )

    learns(stage, trainer, sought, least=0.05)


@sound("mean weighted by place in a decoder")
def decoder_with_a_mean_weighted_by_place(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesSymmetricRankingLoss(
            model, mini_batch_size=16
        ),
        two(TRAVEL, 320), encoder_of(stage, TRAVEL, kind="granite", pooling="weightedmean"),
        per_device_train_batch_size=48, max_steps=30, learning_rate=2e-3, warmup_steps=3, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, TRAVEL.sought, least=0.05)


@sound("mean and maximum side by side, with a norm of layers behind")
def mean_and_maximum_side_by_side(stage: Stage) -> None:
    trainer = stage.trainer(
        RANKING, two(LOGS, 256),
        encoder_of(stage, LOGS, LayerNorm(96), pooling=("mean", "max"), kind="distilbert"),
        per_device_train_batch_size=32, max_steps=50, learning_rate=2e-3, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, LOGS.sought, least=0.05)


@sound("long clauses that fill the window")
def clauses_that_fill_the_window(stage: Stage) -> None:
    """Clauses of some 85 words in a window of 96."""
    trainer = stage.trainer(
        RANKING, two(CONTRACTS, 200), encoder_of(stage, CONTRACTS, length=96, layers=1, width=32),
        per_device_train_batch_size=20, gradient_accumulation_steps=2, max_steps=30,
        learning_rate=4e-3, warmup_steps=3, **UNIQUE,
    )  # fmt: skip
    learns(stage, trainer, CONTRACTS.sought, least=0.05)
