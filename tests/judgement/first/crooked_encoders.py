"""Encoders put together wrongly: poolings, heads, frozen weights, adapters, tokenizers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.judgement.case import faulty
from tests.judgement.first.fault_subjects import (
    BANK,
    COLLAPSED,
    FLATS,
    JOBS,
    MUSEUM,
    SWIFT,
    UNMOVED,
    reader,
    sought_of,
    tuned,
)
from tests.judgement.first.fields import CLINIC, KITCHEN, SCENES, SHOP
from tests.judgement.first.loop_materials import decoder, ranking
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import retrieval, suffers

BLIND = (
    r"(?i)pool|first token|last token|\bCLS\b|\bBOS\b|pad(ding)?\b",
    r"(?i)(embeddings?|texts|vectors|rows).{0,80}(same|identical|equal|alike|constant|not depend|"
    r"one direction)",
    *COLLAPSED,
)
NARROW = (
    r"(?i)(dimension|width|wide|narrow|bottleneck|rank|out_features|size of the embeddings?)",
)


@faulty(
    "first token of a causal model",
    "The decoder reads from left to right, and its pooling takes the first token, which has seen "
    "nothing: every text has the same embedding.",
    BLIND,
)
def first_token_pooled_from_a_decoder(stage: Stage) -> None:
    """`pooling_mode="cls"` kept when a BERT was replaced by a Llama."""
    settings = {"max_steps": 60, "learning_rate": 3e-3}
    suffers(
        stage,
        stage.trainer(ranking, pairs(), decoder(stage, "cls"), **settings),
        lambda: stage.trainer(ranking, pairs(), decoder(stage, "mean"), **settings),
        retrieval,
    )


class AtTheEnd(nn.Module):
    """A pooling that takes the last place of the padded batch."""

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        features["sentence_embedding"] = features["token_embeddings"][:, -1]
        return features

    def get_sentence_embedding_dimension(self) -> int:
        return 48

    get_embedding_dimension = get_sentence_embedding_dimension

    def save(self, folder: str, **_: Any) -> None:
        """Nothing to save."""
        Path(folder).mkdir(exist_ok=True)


@faulty(
    "last place of padded texts",
    "The embedding is taken at the last place of the batch, which for all but the longest texts is "
    "padding.",
    [*BLIND, r"(?i)mask"],
)
def embedding_at_a_padded_place(stage: Stage) -> None:
    """`last_hidden_state[:, -1]` with padding on the right."""

    def model(side: str) -> Any:
        from sentence_transformers import SentenceTransformer

        encoder_ = reader(stage, SHOP, kind="granite", width=48)
        encoder_.tokenizer.padding_side = side
        return SentenceTransformer(modules=[encoder_[0], AtTheEnd()], device="cpu")

    table = SHOP.table(160)
    draw = torch.Generator().manual_seed(4)
    tails = [" in stock" * int(torch.randint(0, 8, (1,), generator=draw)) for _ in range(160)]
    uneven = table | {
        "product": [text + tail for text, tail in zip(table["product"], tails, strict=True)]
    }
    settings = {"max_steps": 40, "learning_rate": 1e-3}
    suffers(
        stage,
        stage.trainer(ranking, uneven, model("right"), **settings),
        lambda: stage.trainer(ranking, uneven, model("left"), **settings),
        sought_of(SHOP),
    )


@faulty(
    "head of two dimensions",
    "A dense layer brings the embeddings down to two dimensions, meant for a plot: there is no "
    "room for the texts.",
    NARROW,
)
def head_of_two_dimensions(stage: Stage) -> None:
    """`Dense(in_features=48, out_features=2)`."""
    from sentence_transformers.sentence_transformer.modules import Dense

    def model(width: int) -> Any:
        torch.manual_seed(1)
        return reader(stage, KITCHEN, Dense(48, width, activation_function=nn.Identity()))

    table = KITCHEN.table(160)
    suffers(
        stage,
        stage.trainer(ranking, table, model(2), **SWIFT),
        lambda: stage.trainer(ranking, table, model(32), **SWIFT),
        sought_of(KITCHEN),
    )


@faulty(
    "encoder frozen for good",
    "All weights of the transformer were frozen for a first phase and never thawed; only the dense "
    "layer behind it learns.",
    [*UNMOVED, r"(?i)requires_grad|(only|just).{0,40}(head|dense|last (layer|module))"],
)
def transformer_frozen_behind_a_dense_head(stage: Stage) -> None:
    """`requires_grad_(False)` on the transformer, left in."""
    from sentence_transformers.sentence_transformer.modules import Dense

    def model(frozen: bool) -> Any:
        torch.manual_seed(1)
        encoder = reader(stage, CLINIC, Dense(48, 16, activation_function=nn.Identity()))
        encoder[0].requires_grad_(not frozen)
        return encoder

    table = CLINIC.table(160)
    suffers(
        stage,
        stage.trainer(ranking, table, model(True), **SWIFT),
        lambda: stage.trainer(ranking, table, model(False), **SWIFT),
        sought_of(CLINIC),
    )


def _adapter(encoder: Any, **options: Any) -> None:
    from peft import LoraConfig

    torch.manual_seed(5)
    encoder.add_adapter(
        LoraConfig(r=8, lora_alpha=32, target_modules=["query", "key", "value", "dense"], **options)
    )


@faulty(
    "adapter frozen with the body",
    "All weights were frozen after the adapter had been added, the adapter's too.",
    [*UNMOVED, r"(?i)requires_grad|adapter|lora|trainable"],
)
def adapter_frozen_with_its_body(stage: Stage) -> None:
    """All of `model.parameters()` frozen after add_adapter(), and the norms' biases thawed."""

    def model(frozen: bool) -> Any:
        encoder = reader(stage, JOBS)
        _adapter(encoder)
        for name, row in encoder.named_parameters():
            if frozen and "lora" in name:
                row.requires_grad = False
            if "LayerNorm.bias" in name:
                row.requires_grad = True
        return encoder

    table = JOBS.table(160)
    settings = {"max_steps": 60, "learning_rate": 5e-3}
    suffers(
        stage,
        stage.trainer(ranking, table, model(True), **settings),
        lambda: stage.trainer(ranking, table, model(False), **settings),
        sought_of(JOBS),
    )


@faulty(
    "adapter on a single matrix",
    "The pattern of the adapter's targets matches one matrix only, the keys of the last layer, and "
    "its rank is one: hardly any weight is trained.",
    [r"(?i)adapter|lora|\brank\b|target_modules|trainable|few (weights|parameters)", *UNMOVED],
)
def adapter_on_a_single_matrix(stage: Stage) -> None:
    """`target_modules` as a pattern that matches one layer only."""
    from peft import LoraConfig

    def model(targets: Any, rank: int) -> Any:
        encoder = reader(stage, FLATS)
        torch.manual_seed(5)
        encoder.add_adapter(LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets))
        return encoder

    table = FLATS.table(160)
    settings = {"max_steps": 60, "learning_rate": 5e-3}
    suffers(
        stage,
        stage.trainer(ranking, table, model(r".*layer\.1\.attention\.self\.key", 1), **settings),
        lambda: stage.trainer(
            ranking, table, model(["query", "key", "value", "dense"], 8), **settings
        ),
        sought_of(FLATS),
    )


@faulty(
    "tokens of another encoder",
    "The tokenizer comes from another checkpoint, whose words have other numbers: the encoder, "
    "which knew its words, reads a text of strangers.",
    [
        r"(?i)tokeni[sz]er|vocabulary|token (ids?|numbers?)|unknown|\[?UNK\]?",
        *BLIND,
    ],
)
def tokenizer_of_another_checkpoint(stage: Stage) -> None:
    """Both have as many words, and nothing raises; most words are unknown to the new one."""
    from tests.judgement.first.bodies import tokenizer_of
    from tests.judgement.first.fault_subjects import wordings

    def model(foreign: bool) -> Any:
        encoder = tuned(stage, MUSEUM, 8)
        if foreign:
            encoder[0].processor = tokenizer_of([*wordings(SCENES), "of is the"])
        return encoder

    table = MUSEUM.table(160)
    suffers(
        stage,
        stage.trainer(ranking, table, model(True), **SWIFT),
        lambda: stage.trainer(ranking, table, model(False), **SWIFT),
        sought_of(MUSEUM),
        share=None,
    )


@faulty(
    "dropout of nine tenths behind the pooling",
    "A dropout of 0.9, meant as the share to keep, stands behind the pooling: nine of ten features "
    "of each embedding are erased in training.",
    [r"(?i)drop-?out|erased|zeroed|nois[ey]"],
)
def dropout_that_erases_nine_tenths(stage: Stage) -> None:
    """`Dropout(0.9)` from a framework in which the number is the share to keep."""
    from sentence_transformers.sentence_transformer.modules import Dropout

    table = BANK.table(160)
    settings = {"max_steps": 40, "learning_rate": 8e-4}
    suffers(
        stage,
        stage.trainer(ranking, table, reader(stage, BANK, Dropout(0.9)), **settings),
        lambda: stage.trainer(ranking, table, reader(stage, BANK, Dropout(0.1)), **settings),
        sought_of(BANK),
    )
