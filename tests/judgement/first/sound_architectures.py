"""Sound set-ups: modules, adapters, frozen parts, and loops of one's own."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.further_reports import hinge
from tests.judgement.first.materials import ranking
from tests.judgement.first.modules_and_loops import (
    batches,
    embed,
    infonce,
    llama,
    loop_scores,
    routed,
)
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike, keep, learns, retrieval, truth
from tests.tiny_models import make_bert

FAST = {"learning_rate": 1e-3}


@sound("largest values as the embedding")
def max_pooling(stage: Stage) -> None:
    learns(stage, stage.trainer(ranking, pairs(), stage.model("max"), **FAST), among_alike)


@sound("normalised embeddings")
def embeddings_of_length_one(stage: Stage) -> None:
    trainer = stage.trainer(ranking, pairs(), stage.model(normalize=True), **FAST)
    learns(stage, trainer, among_alike)


@sound("no dropout")
def without_dropout(stage: Stage) -> None:
    trainer = stage.trainer(ranking, pairs(), stage.model(dropout=0.0), **FAST)
    learns(stage, trainer, among_alike)


def with_dense(stage: Stage) -> Any:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense

    base = stage.model()
    torch.manual_seed(3)
    dense = Dense(32, 16, activation_function=torch.nn.Identity())
    return SentenceTransformer(modules=[*base, dense], device="cpu")


@sound("projection to fewer dimensions")
def dense_to_sixteen(stage: Stage) -> None:
    learns(stage, stage.trainer(ranking, pairs(), with_dense(stage), **FAST), among_alike)


@sound("encoder frozen below a projection")
def only_the_projection_learns(stage: Stage) -> None:
    model = with_dense(stage)
    model[0].requires_grad_(False)
    settings = {"learning_rate": 1e-2, "max_steps": 60}
    learns(stage, stage.trainer(ranking, pairs(), model, **settings), retrieval)


@sound("lower layers frozen")
def words_and_first_layer_frozen(stage: Stage) -> None:
    model = stage.model()
    bert = model[0].model
    bert.embeddings.requires_grad_(False)
    bert.encoder.layer[0].requires_grad_(False)
    settings = {"learning_rate": 3e-3, "max_steps": 60}
    learns(stage, stage.trainer(ranking, pairs(), model, **settings), among_alike)


def with_adapter(stage: Stage, **options: Any) -> Any:
    from peft import LoraConfig

    model = stage.model()
    names = ["query", "key", "value", "dense"]
    torch.manual_seed(2)
    config = LoraConfig(target_modules=names, task_type="FEATURE_EXTRACTION", **options)
    model.add_adapter(config)
    return model


@sound("adapters")
def lora_on_all_layers(stage: Stage) -> None:
    model = with_adapter(stage, r=8, lora_alpha=16)
    settings = {"learning_rate": 1e-2, "max_steps": 60}
    learns(stage, stage.trainer(ranking, pairs(), model, **settings), among_alike)


@sound("adapters")
def lora_of_rank_two_with_dropout(stage: Stage) -> None:
    model = with_adapter(stage, r=2, lora_alpha=8, lora_dropout=0.1)
    settings = {"learning_rate": 2e-2, "max_steps": 60}
    learns(stage, stage.trainer(ranking, pairs(), model, **settings), among_alike)


@sound("static embeddings at their own rate")
def static_embeddings(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from transformers import AutoTokenizer

    torch.manual_seed(7)
    tokenizer = AutoTokenizer.from_pretrained(make_bert(stage.folder / "static"))
    table = StaticEmbedding(tokenizer, embedding_dim=32)
    model = SentenceTransformer(modules=[table], device="cpu")
    learns(stage, stage.trainer(ranking, pairs(), model, learning_rate=5e-2), among_alike)


@sound("a route for each role, alike at first")
def routes_that_begin_alike(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Router

    base = stage.model()
    torch.manual_seed(9)
    layers = [Dense(32, 32, activation_function=torch.nn.Identity()) for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    router = Router.for_query_document([layers[0]], [layers[1]])
    model = SentenceTransformer(modules=[*base, router], device="cpu")
    mapping = {"anchor": "query", "positive": "document"}
    learns(stage, stage.trainer(ranking, pairs(), model, router_mapping=mapping), routed)


@sound("decoder with its last token")
def last_token_of_a_decoder(stage: Stage) -> None:
    ended = {name: [f"{text} [SEP]" for text in texts] for name, texts in pairs().items()}
    unseen = {
        name: [f"{text} [SEP]" for text in texts] for name, texts in pairs(100, seed=11).items()
    }
    settings = {"learning_rate": 3e-3, "max_steps": 60}
    learns(
        stage,
        stage.trainer(ranking, ended, llama(stage, 32), **settings),
        lambda model: retrieval(model, unseen),
    )


@sound("mixed precision")
def autocast_to_bfloat16(stage: Stage) -> None:
    learns(stage, stage.trainer(ranking, pairs(), bf16=True, **FAST), among_alike)


def rises(stage: Stage, scores: tuple[float, float]) -> None:
    before, after = scores
    keep(stage, before=before, after=after)
    assert after >= before + 0.03, truth(stage)


@sound("own loop")
def loop_of_infonce_pairs(stage: Stage) -> None:
    model = stage.model()
    draw = batches(model)
    rises(stage, loop_scores(stage, model, infonce, lambda: tuple(embed(model, f) for f in draw())))


def in_both_directions(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    return (infonce(anchors, positives) + infonce(positives, anchors)) / 2


@sound("own loop")
def loop_in_both_directions(stage: Stage) -> None:
    model = stage.model()
    draw = batches(model)
    scores = loop_scores(
        stage, model, in_both_directions, lambda: tuple(embed(model, f) for f in draw())
    )
    rises(stage, scores)


@sound("own loop")
def loop_of_a_hinge(stage: Stage) -> None:
    model = stage.model()
    draw = batches(model)
    rises(stage, loop_scores(stage, model, hinge, lambda: tuple(embed(model, f) for f in draw())))
