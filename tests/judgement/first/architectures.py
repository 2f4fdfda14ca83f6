"""Faults of modules: tokens without a row, padding, adapters, layers, routes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.judgement.case import faulty
from tests.judgement.first.encoders import lora, make_decoder, uneven_pairs
from tests.judgement.stage import FILLERS, Stage, pairs
from tests.judgement.truth import reciprocal_rank, retrieval, suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
INDEX = (
    r"index out of range",
    r"position",
    r"max_seq_length",
    r"resize",
    r"vocabulary",
    r"embedding table",
)
BATCH = (
    r"depend",
    r"\balone\b",
    r"beside",
    r"other texts",
    r"rest of the batch",
    r"padd",
    r"attention.?mask",
)
CHECKPOINTING = (r"checkpointing", r"no gradient", r"require_?s?_?grad", r"adapter", r"lora")
STRONG = (r"adapter", r"lora", r"alpha", r"scal(e|ing)")
NARROW = (r"dimension", r"\brank\b", r"narrow", r"\b2\b.{0,20}(dim|number)")
MATRYOSHKA = (r"matryoshka", r"dims?\b", r"dimension", r"full", r"prefix", r"weight")
ROUTE = (
    r"rout",
    r"query",
    r"document",
    r"(module|weights?|parameter).{0,60}(no gradient|not|never|same)",
)
INSTRUCTION = (r"prompt", r"instruction", r"include_prompt", r"(share|same|equal).{0,40}token")


def _depends_on_its_batch(model: Any) -> bool:
    """Whether a text gets another embedding beside a longer one."""
    text, longer = "ka ba da ?", "ka " * 20
    alone = model.encode([text], show_progress_bar=False)[0]
    beside = model.encode([text, longer], show_progress_bar=False)[0]
    cosine = alone @ beside / np.linalg.norm(alone) / np.linalg.norm(beside)
    return bool(cosine < 0.99)


# https://github.com/huggingface/sentence-transformers/issues/1600: "index out of range in self".
@faulty(
    "index out of range",
    "max_seq_length was set to 512, where the encoder has 64 positions: the "
    "first long text ends training.",
    INDEX,
)
def maximum_length_beyond_the_positions(stage: Stage) -> None:
    table = pairs()
    table["positive"] = [
        f"{text} {' '.join(FILLERS)}" if at % 40 == 3 else text
        for at, text in enumerate(table["positive"])
    ]
    trainer = stage.trainer(ranking, table, stage.model(length=512))
    stage.play(trainer, fails=True)
    assert trainer.state.global_step < trainer.args.max_steps


# https://github.com/huggingface/sentence-transformers/issues/744: added tokens, table not resized.
@faulty(
    "index out of range",
    "Markers were added to the tokenizer, and the embedding table has no rows for them.",
    INDEX,
)
def added_tokens_without_rows(stage: Stage) -> None:
    model = stage.model()
    model.tokenizer.add_tokens(["[QUERY]", "[PASSAGE]"], special_tokens=True)
    table = pairs()
    table = {
        "anchor": [f"[QUERY] {text}" for text in table["anchor"]],
        "positive": [f"[PASSAGE] {text}" for text in table["positive"]],
    }
    trainer = stage.trainer(ranking, table, model)
    stage.play(trainer, fails=True)
    assert trainer.state.global_step < trainer.args.max_steps


# https://github.com/TransformerLensOrg/TransformerLens/pull/344: positions behind left padding.
@faulty(
    "positions counted from the padding",
    "Padding is on the left of an encoder with learned "
    "positions: a text begins at another position in each batch.",
    BATCH,
)
def learned_positions_behind_left_padding(stage: Stage) -> None:
    model = stage.model()
    with torch.no_grad():
        model[0].auto_model.embeddings.position_embeddings.weight.mul_(20)
    model.tokenizer.padding_side = "left"
    assert _depends_on_its_batch(model)
    stage.play(stage.trainer(ranking, uneven_pairs(), model))


# https://github.com/lean-dojo/ReProver/issues/34: the attention mask is not passed to the model.
@faulty(
    "attention over padding",
    "The attention mask is not passed to the encoder, so that texts attend to their padding.",
    BATCH,
)
def mask_not_passed_to_the_encoder(stage: Stage) -> None:
    model = stage.model()
    _strengthen(model)
    forward = model[0].forward

    def unmasked(features: dict[str, Any], **options: Any) -> dict[str, Any]:
        mask = features["attention_mask"]
        full = {**features, "attention_mask": torch.ones_like(mask)}
        return {**forward(full, **options), "attention_mask": mask}

    model[0].forward = unmasked
    assert _depends_on_its_batch(model)
    stage.play(stage.trainer(ranking, uneven_pairs(), model))


def _strengthen(model: Any) -> None:
    """Give attention the weight that it has in a trained encoder."""
    with torch.no_grad():
        for name, weights in model[0].auto_model.named_parameters():
            if "attention" in name and name.endswith("weight") and weights.dim() == 2:
                weights.mul_(8)


@faulty(
    "weights of places count padding",
    "A mean weighted by place counts padding on the left, so "
    "that weights depend on the longest text.",
    BATCH,
)
def mean_weighted_by_place_behind_left_padding(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Pooling

    class ByPlace(Pooling):
        def forward(self, features: dict[str, Any]) -> dict[str, Any]:
            tokens, mask = features["token_embeddings"], features["attention_mask"]
            weights = (mask * torch.arange(1, mask.shape[1] + 1) ** 4).float()
            mean = (tokens * weights[..., None]).sum(1) / weights.sum(1, keepdim=True)
            features["sentence_embedding"] = mean
            return features

    model = stage.model("lasttoken", bert=make_decoder(stage.folder))
    model[1] = ByPlace(32, pooling_mode="weightedmean")
    model.tokenizer.padding_side = "left"
    assert _depends_on_its_batch(model)
    stage.play(stage.trainer(ranking, uneven_pairs(), model))


# https://github.com/huggingface/peft/issues/1142, https://github.com/huggingface/transformers/issues/26221
@faulty(
    "checkpointing without gradient",
    "Reentrant gradient checkpointing with a frozen input: no gradient reaches the adapters.",
    CHECKPOINTING,
)
def reentrant_checkpointing_of_adapters(stage: Stage) -> None:
    model = stage.model()
    lora(model)
    for layer in model[0].auto_model.encoder.layer:
        layer.forward = _checkpointed(layer.forward)
    trainer = stage.trainer(ranking, pairs(), model)
    stage.play(trainer, fails=True)
    moved = [weights for name, weights in model.named_parameters() if "lora_B" in name]
    assert all(float(weights.detach().abs().max()) == 0 for weights in moved)


def _checkpointed(forward: Callable[..., Any]) -> Callable[..., Any]:
    def checkpointed(*args: Any, **options: Any) -> Any:
        return checkpoint(partial(forward, **options), *args, use_reentrant=True)

    return checkpointed


@faulty(
    "adapter far too strong",
    "The adapter's alpha is 4096 at a rank of 4: each step moves the weights a thousandfold.",
    STRONG,
)
def adapter_with_an_alpha_of_thousands(stage: Stage) -> None:
    def trainer(alpha: int) -> Any:
        from peft import LoraConfig, TaskType

        model = stage.model()
        targets = ["query", "value", "dense"]
        model.add_adapter(
            LoraConfig(TaskType.FEATURE_EXTRACTION, r=4, lora_alpha=alpha, target_modules=targets)
        )
        return stage.trainer(ranking, pairs(), model, learning_rate=1e-3)

    suffers(stage, trainer(4096), lambda: trainer(8))


def _narrow(stage: Stage, dimensions: int) -> Any:
    from sentence_transformers.base.modules import Dense

    model = stage.model()
    torch.manual_seed(3)
    model.append(Dense(32, dimensions, activation_function=nn.Identity()))
    return stage.trainer(ranking, pairs(), model)


@faulty(
    "too few dimensions",
    "A dense layer leaves two dimensions, in which texts cannot be told apart.",
    NARROW,
)
def two_dimensions_left_by_a_dense_layer(stage: Stage) -> None:
    suffers(stage, _narrow(stage, 2), lambda: _narrow(stage, 24))


@faulty(
    "Matryoshka without the full dimension",
    "Of 32 dimensions only the first two are trained.",
    MATRYOSHKA,
)
def matryoshka_of_the_first_two(stage: Stage) -> None:
    def trainer(dims: list[int]) -> Any:
        return stage.trainer(
            lambda model: losses.MatryoshkaLoss(model, ranking(model), dims), pairs(), max_steps=80
        )

    suffers(stage, trainer([2]), lambda: trainer([32, 16]))


@faulty(
    "Matryoshka without the full dimension",
    "The weights of the Matryoshka loss are given from small to large: the full dimension has 0.",
    MATRYOSHKA,
)
def matryoshka_weights_in_the_wrong_order(stage: Stage) -> None:
    def trainer(weights: list[float]) -> Any:
        return stage.trainer(
            lambda model: losses.MatryoshkaLoss(
                model, ranking(model), [32, 16, 2], matryoshka_weights=weights
            ),
            pairs(),
            max_steps=80,
        )

    suffers(stage, trainer([0.0, 0.0, 1.0]), lambda: trainer([1.0, 1.0, 0.0]))


def routed(stage: Stage, mapping: dict[str, str]) -> Any:
    """A trainer of two static encoders, one of queries and one of documents."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    tokenizer = stage.model().tokenizer.backend_tokenizer
    torch.manual_seed(5)
    query, document = (StaticEmbedding(tokenizer, embedding_dim=32) for _ in range(2))
    router = Router.for_query_document([query], [document])
    model = SentenceTransformer(modules=[router], device="cpu")
    return stage.trainer(
        ranking, pairs(), model, learning_rate=0.05, max_steps=80, router_mapping=mapping
    )


def by_routes(model: Any) -> float:
    """Return the mean reciprocal rank of documents by their route, sought by queries by theirs."""
    table = pairs(100, seed=11)
    return reciprocal_rank(
        model.encode_query(table["anchor"], show_progress_bar=False),
        model.encode_document(table["positive"], show_progress_bar=False),
    )


# https://github.com/huggingface/sentence-transformers/issues/3239: training of two encoders.
@faulty(
    "route of a router",
    "Both columns are mapped to the queries' encoder: the documents' one is never trained.",
    ROUTE,
)
def both_columns_on_the_route_of_queries(stage: Stage) -> None:
    suffers(
        stage,
        routed(stage, {"anchor": "query", "positive": "query"}),
        lambda: routed(stage, {"anchor": "query", "positive": "document"}),
        by_routes,
    )


@faulty(
    "route of a router", "The routes of queries and documents are exchanged in training.", ROUTE
)
def routes_exchanged(stage: Stage) -> None:
    suffers(
        stage,
        routed(stage, {"anchor": "document", "positive": "query"}),
        lambda: routed(stage, {"anchor": "query", "positive": "document"}),
        by_routes,
        share=0.8,
    )


@faulty(
    "instruction tokens pooled",
    "The mean is taken over an instruction of 24 tokens as well, of "
    "which texts of 7 tokens are hardly told apart.",
    INSTRUCTION,
)
def mean_over_a_long_instruction(stage: Stage) -> None:
    instruction = "zu zo ze zi za vu vo ve vi va tu to te ti ta su so se si sa ru ro re . "
    prompts = {"anchor": instruction, "positive": instruction}

    def trainer(include: bool) -> Any:
        model = stage.model()
        model[1].include_prompt = include
        return stage.trainer(ranking, pairs(), model, prompts=prompts)

    suffers(
        stage,
        trainer(True),
        lambda: trainer(False),
        lambda model: retrieval(model, prompts=(instruction, instruction)),
        share=2,
    )
