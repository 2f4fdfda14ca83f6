"""Sound set-ups: poolings, layers, adapters, decoders and static embeddings."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.loop_materials import FAST, decoder, pretrained, ranking, uneven
from tests.judgement.first.precision_and_decoders import adapted
from tests.judgement.stage import Stage, pairs, triplets
from tests.judgement.truth import alike, among_alike, learns, reciprocal_rank, retrieval
from tests.tiny_models import make_bert, make_roberta


def layered(stage: Stage, *modules: Any, **options: Any) -> Any:
    """The tiny encoder with further modules behind its pooling."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(modules=[*stage.model(**options), *modules], device="cpu")


@sound("mean weighted by position")
def pooled_by_a_weighted_mean(stage: Stage) -> None:
    model = stage.model("weightedmean")
    learns(stage, stage.trainer(ranking, pairs(), model, **FAST), among_alike)


@sound("embeddings of unit length")
def normalised_embeddings(stage: Stage) -> None:
    model = stage.model(normalize=True)
    learns(stage, stage.trainer(ranking, pairs(), model, **FAST), among_alike)


@sound("dense layer to fewer dimensions")
def halved_by_a_dense_layer(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense

    torch.manual_seed(2)
    model = layered(stage, Dense(32, 16))
    learns(stage, stage.trainer(ranking, pairs(), model, **FAST), among_alike)


@sound("byte-level vocabulary")
def roberta_of_bytes(stage: Stage) -> None:
    folder = make_roberta(stage.folder / "roberta")
    model = stage.model(bert=folder)
    settings = {"learning_rate": 1e-3, "max_steps": 60}
    learns(stage, stage.trainer(ranking, pairs(), model, **settings), retrieval)


@sound("table of static embeddings")
def static_table_at_a_high_rate(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from transformers import AutoTokenizer

    torch.manual_seed(7)
    tokenizer = AutoTokenizer.from_pretrained(make_bert(stage.folder / "static"))
    table = StaticEmbedding(tokenizer, embedding_dim=32)
    model = SentenceTransformer(modules=[table], device="cpu")
    settings = {"learning_rate": 2e-1, "max_steps": 60}
    learns(stage, stage.trainer(ranking, pairs(), model, **settings), among_alike)


@sound("lower layer frozen")
def first_layer_frozen(stage: Stage) -> None:
    folder = pretrained(stage, pairs(seed=5), max_steps=12)
    model = stage.model(bert=folder)
    model[0].auto_model.embeddings.requires_grad_(False)
    model[0].auto_model.encoder.layer[0].requires_grad_(False)
    learns(stage, stage.trainer(ranking, pairs(), model, max_steps=80, **FAST), among_alike)


@sound("dense layer on a frozen encoder")
def head_on_a_frozen_encoder(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense

    folder = pretrained(stage, pairs(seed=5), max_steps=15)
    torch.manual_seed(2)
    model = layered(stage, Dense(32, 32, activation_function=torch.nn.Identity()), bert=folder)
    model[0].requires_grad_(False)
    settings = {"learning_rate": 1e-2, "max_steps": 60}
    learns(stage, stage.trainer(ranking, triplets(), model, **settings), among_alike)


@sound("LoRA")
def adapter_at_a_hundredth(stage: Stage) -> None:
    folder = pretrained(stage, pairs(seed=5), max_steps=20)
    learns(
        stage,
        stage.trainer(ranking, pairs(), adapted(stage, folder), learning_rate=1e-2),
        among_alike,
    )


@sound("computation in bfloat16")
def bf16_of_the_trainer(stage: Stage) -> None:
    learns(stage, stage.trainer(ranking, pairs(), bf16=True, **FAST), among_alike)


DECODER = {"learning_rate": 3e-3}


@sound("decoder by its end token, padded on the left")
def end_token_padded_on_the_left(stage: Stage) -> None:
    model = decoder(stage, side="left")
    learns(
        stage,
        stage.trainer(ranking, uneven(), model, **DECODER),
        lambda encoder: retrieval(encoder, uneven(100, seed=11)),
    )


@sound("layer of its own for questions and for passages")
def router_with_equal_beginnings(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Router

    base = stage.model()
    layers = [Dense(32, 32, activation_function=torch.nn.Identity()) for _ in range(2)]
    for layer in layers:
        torch.nn.init.eye_(layer.linear.weight)
        torch.nn.init.zeros_(layer.linear.bias)
    router = Router.for_query_document([layers[0]], [layers[1]])
    model = SentenceTransformer(modules=[*base, router], device="cpu")

    def routed(encoder: Any) -> float:
        questions, passages = alike().values()
        return reciprocal_rank(
            encoder.encode_query(questions, show_progress_bar=False),
            encoder.encode_document(passages, show_progress_bar=False),
        )

    mapping = {"anchor": "query", "positive": "document"}
    learns(stage, stage.trainer(ranking, pairs(), model, router_mapping=mapping, **FAST), routed)
