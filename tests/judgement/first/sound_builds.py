"""Sound set-ups: encoders of many builds, trained by the library's trainer."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import (
    CNN,
    LSTM,
    Dense,
    Normalize,
    Pooling,
    Router,
    StaticEmbedding,
    WordEmbeddings,
)
from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer

from tests.judgement.case import sound
from tests.judgement.first.bodies import body, encoder, tokenizer_of, words_of
from tests.judgement.first.fields import (
    CLINIC,
    CODE,
    HELPDESK,
    KITCHEN,
    PAPERS,
    SCENES,
    SHOP,
    TRAVEL,
    Field,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, reciprocal_rank

QUICK = {"learning_rate": 2e-3}
ranking = losses.MultipleNegativesRankingLoss


def ranked(stage: Stage, field: Field, model: Any, count: int = 200, **arguments: Any) -> None:
    """Train by the ranking loss on pairs of a field, and score by search."""
    trainer = stage.trainer(ranking, field.table(count), model, **{**QUICK, **arguments})
    learns(stage, trainer, field.sought)


@sound("words and the lowest layer frozen")
def lower_half_of_four_layers_frozen(stage: Stage) -> None:
    """Word vectors and two of four layers stay, as people do with little data."""
    model = encoder(stage, words_of([KITCHEN.table(200)]), layers=4)
    network = model[0].model
    for module in (network.embeddings, *network.encoder.layer[:2]):
        module.requires_grad_(False)
    ranked(stage, KITCHEN, model, learning_rate=3e-3, max_steps=60)


@sound("low-rank adapters")
def adapters_on_all_linear_layers(stage: Stage) -> None:
    """LoRA of rank 8 on all linear layers, at a rate ten times the usual; the base is frozen."""
    from peft import LoraConfig, TaskType

    model = encoder(stage, words_of([SHOP.table(200)]))
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=8, lora_alpha=32, lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense"],
    ))  # fmt: skip
    ranked(stage, SHOP, model, learning_rate=1e-2, max_steps=60)


@sound("decoder, last token")
def decoder_with_an_end_token_pooled(stage: Stage) -> None:
    """A Granite, padded on the left, with an end token that is pooled, and an instruction."""
    table = HELPDESK.table(200)
    instruction = "find the answer : "
    model = encoder(stage, words_of([table], instruction), kind="granite", pooling="lasttoken")
    trainer = stage.trainer(
        ranking, table, model, prompts={"question": instruction}, max_steps=50, **QUICK
    )
    learns(stage, trainer, lambda encoder_: HELPDESK.sought(encoder_, prompts=(instruction, "")))


@sound("first token pooled")
def first_token_of_a_distilled_body(stage: Stage) -> None:
    """DistilBERT with [CLS] pooling, as BGE."""
    model = encoder(
        stage,
        words_of([CODE.table(200)]),
        Normalize(),
        kind="distilbert",
        pooling="cls",
        spread=0.1,
    )
    ranked(stage, CODE, model, max_steps=60)


@sound("mean and maximum side by side")
def mean_and_maximum_concatenated(stage: Stage) -> None:
    """Two poolings make 96 dimensions, which a dense layer brings down to 32."""
    table = PAPERS.table(200)
    dense = Dense(96, 32, activation_function=torch.nn.Identity())
    model = encoder(stage, words_of([table]), dense, pooling=("mean", "max"))
    ranked(stage, PAPERS, model)


@sound("dense head alone learns")
def residual_head_above_a_frozen_body(stage: Stage) -> None:
    """The body is frozen; a dense layer with a tangent and another learn above it."""
    table = TRAVEL.table(240)
    model = encoder(stage, words_of([table]), Dense(48, 128), Dense(128, 48), dropout=0.0)
    model[0].requires_grad_(False)
    ranked(stage, TRAVEL, model, 240, learning_rate=1e-2, max_steps=80)


@sound("static embeddings")
def static_words_at_a_twentieth(stage: Stage) -> None:
    """Static embeddings of 64 dimensions, at their customary high rate."""
    table = SHOP.table(240)
    words = StaticEmbedding(tokenizer_of(words_of([table])), embedding_dim=64)
    model = SentenceTransformer(modules=[words], device="cpu")
    ranked(
        stage, SHOP, model, 240, learning_rate=0.2, per_device_train_batch_size=32,
        max_steps=60, warmup_steps=6,
    )  # fmt: skip


def by_routes(field: Field) -> Any:
    """A score of search with the encoders of queries and of documents."""

    def score(model: Any) -> float:
        first, second = list(field.table(40, seed=11).values())[:2]
        options = {"show_progress_bar": False}
        return reciprocal_rank(
            model.encode_query(first, **options), model.encode_document(second, **options)
        )

    return score


@sound("two towers behind a router")
def words_for_queries_and_a_body_for_documents(stage: Stage) -> None:
    """A static encoder of queries beside a transformer of documents, at rates of their own."""
    table = CLINIC.table(200)
    texts = words_of([table])
    router = Router.for_query_document(
        query_modules=[StaticEmbedding(tokenizer_of(texts), embedding_dim=48)],
        document_modules=[body(stage, texts), Pooling(48)],
    )
    model = SentenceTransformer(modules=[router, Normalize()], device="cpu")
    trainer = stage.trainer(
        ranking, table, model, max_steps=60, learning_rate=2e-3,
        router_mapping={"complaint": "query", "record": "document"},
        learning_rate_mapping={r".*sub_modules\.query.*": 5e-2},
    )  # fmt: skip
    learns(stage, trainer, by_routes(CLINIC))


@sound("prompts of the model and of training")
def prompts_for_premise_and_hypothesis(stage: Stage) -> None:
    """E5's prefixes, in the model and in training; search uses them as well."""
    prompts = {"query": "query : ", "document": "passage : "}
    table = SCENES.table(180)
    model = encoder(stage, words_of([table], *prompts.values()), prompts=prompts)
    trainer = stage.trainer(
        ranking, table, model, max_steps=50,
        prompts={"premise": prompts["query"], "hypothesis": prompts["document"]}, **QUICK,
    )  # fmt: skip
    learns(stage, trainer, by_routes(SCENES))


@sound("word vectors and a recurrent layer")
def recurrent_layer_above_word_vectors(stage: Stage) -> None:
    """Word vectors that are trained further, a bidirectional LSTM, and its states' maximum."""
    table = KITCHEN.table(200)
    words = sorted({word for text in words_of([table]) for word in text.split()})
    vectors = torch.randn(len(words), 48, generator=torch.Generator().manual_seed(2))
    torch.manual_seed(3)
    modules = [
        WordEmbeddings(WhitespaceTokenizer(words, stop_words=[]), vectors, update_embeddings=True),
        LSTM(word_embedding_dimension=48, hidden_dim=32),
        Pooling(64, pooling_mode="max"),
    ]
    model = SentenceTransformer(modules=modules, device="cpu")
    ranked(stage, KITCHEN, model, learning_rate=1e-2, max_steps=60)


@sound("convolutions above a frozen body")
def convolutions_above_a_frozen_body(stage: Stage) -> None:
    """Convolutions of two widths learn over the tokens of a body that stays."""
    table = PAPERS.table(200)
    frozen = body(stage, words_of([table]), layers=1, dropout=0.0).requires_grad_(False)
    modules = [
        frozen,
        CNN(in_word_embedding_dimension=48, out_channels=32, kernel_sizes=[1, 3]),
        Pooling(64),
    ]
    model = SentenceTransformer(modules=modules, device="cpu")
    ranked(stage, PAPERS, model, learning_rate=1e-2, max_steps=70)
