"""Sound set-ups, each with another encoder."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.judgement.case import sound
from tests.judgement.first.decoders import decoder
from tests.judgement.first.precision import Rounded, adapted
from tests.judgement.first.roles import by_routes, routed
from tests.judgement.first.scenes import across, among_uneven, bilingual, uneven
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import learns, retrieval
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
PLAN = {"learning_rate": 2e-3, "max_steps": 80}


def _learns(stage: Stage, model: Any, table: Any = None, score: Any = across, **plan: Any) -> None:
    table = bilingual(640) if table is None else table
    learns(stage, stage.trainer(ranking, table, model, **{**PLAN, **plan}), score)


def _with(model: Any, *modules: nn.Module) -> Any:
    """The encoder with modules behind its own."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(modules=[*model, *modules], device="cpu")


@sound("first token of an encoder")
def first_token_of_pairs(stage: Stage) -> None:
    _learns(
        stage,
        stage.model("cls", dropout=0.0),
        pairs(320),
        retrieval,
        learning_rate=1e-3,
        max_steps=100,
    )


@sound("largest of all tokens")
def maximum_over_tokens(stage: Stage) -> None:
    _learns(stage, stage.model("max"))


@sound("sum over the root of the length")
def mean_over_the_root_of_the_length(stage: Stage) -> None:
    _learns(stage, stage.model("mean_sqrt_len_tokens"), uneven(320), among_uneven)


@sound("unit length")
def embeddings_of_unit_length(stage: Stage) -> None:
    _learns(stage, stage.model(normalize=True))


@sound("smaller layer after the pooling")
def head_of_fewer_dimensions(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense

    torch.manual_seed(5)
    _learns(stage, _with(stage.model(), Dense(32, 16, activation_function=nn.Tanh())))


@sound("table of word vectors")
def word_vectors_at_their_own_rate(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    tokenizer = stage.model().tokenizer
    torch.manual_seed(7)
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    model = SentenceTransformer(modules=[StaticEmbedding(backend, embedding_dim=32)], device="cpu")
    _learns(stage, model, learning_rate=0.05, max_steps=100)


@sound("encoders of queries and documents")
def routes_of_queries_and_documents(stage: Stage) -> None:
    mapping = {"anchor": "query", "positive": "document"}
    _learns(
        stage,
        routed(stage),
        score=by_routes,
        learning_rate=0.05,
        max_steps=100,
        router_mapping=mapping,
    )


@sound("decoder padded on the left")
def last_token_of_a_decoder_padded_on_the_left(stage: Stage) -> None:
    _learns(stage, decoder(stage, side="left"), uneven(320), among_uneven, learning_rate=3e-3)


@sound("mean over a decoder's tokens")
def mean_over_the_tokens_of_a_decoder(stage: Stage) -> None:
    _learns(stage, decoder(stage, "mean"))


@sound("decoder with an instruction")
def instruction_before_the_questions_of_a_decoder(stage: Stage) -> None:
    instruction = "zan zen : "
    _learns(
        stage,
        decoder(stage),
        score=lambda model: retrieval(model, bilingual(100, seed=11), prompts=(instruction, "")),
        prompts={"anchor": instruction},
        learning_rate=3e-3,
        max_steps=100,
    )


@sound("low-rank adapters of all layers")
def adapters_of_all_layers(stage: Stage) -> None:
    _learns(stage, adapted(stage), pairs(), retrieval, learning_rate=4e-3)


@sound("rounded with a straight-through gradient")
def bytes_with_a_straight_through_gradient(stage: Stage) -> None:
    _learns(stage, _with(stage.model(), Rounded(straight=True)))
