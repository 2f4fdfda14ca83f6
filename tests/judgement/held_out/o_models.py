"""Encoders that are built wrongly: heads, pooling, frozen layers, adapters, precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from sentence_transformers.sentence_transformer.modules import Dense
from torch import nn

from tests.judgement.case import faulty
from tests.judgement.first.fields import Field
from tests.judgement.held_out.o_fields import (
    CHESS,
    CLAIMS,
    COLLAPSE,
    GARDEN,
    HARBOUR,
    HOTEL,
    NO_GRADIENT,
    OBSERVATORY,
    STATION,
    STILL,
    ranking,
    score_of,
    trainees,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers

KEY = "sentence_embedding"


def built(
    stage: Stage, field: Field, build: Callable[[bool], Any], *, steps: int = 60,
    rate: float = 2e-3,
) -> None:  # fmt: skip
    """Play a trainer of ``build(True)``, the faulty encoder, beside one of ``build(False)``."""

    def trainer(slip: bool) -> Any:
        torch.manual_seed(5)
        model = build(slip)
        return stage.trainer(ranking, field.table(240), model, learning_rate=rate, max_steps=steps)

    suffers(stage, trainer(True), lambda: trainer(False), score_of(field))


class Head(nn.Module):
    """A module behind the pooling that computes with the embedding."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {**features, KEY: self.function(features[KEY])}


@faulty(
    "whole encoder frozen",
    "All weights of the transformer are frozen, and only a projection behind the pooling learns.",
    [r"(?i)frozen|freez|requires_grad|trainable", *NO_GRADIENT, *STILL],
)
def transformer_frozen_below_its_head(stage: Stage) -> None:
    """Everyday: `requires_grad = False` from a recipe of classification."""

    def build(slip: bool) -> Any:
        model = trainees(stage, GARDEN)()
        model.append(Dense(48, 48, activation_function=nn.Identity()))
        model[0].requires_grad_(not slip)
        return model

    built(stage, GARDEN, build, steps=50)


@faulty(
    "head with too few outputs",
    "The projection behind the pooling has two outputs, as that of a classifier: all texts are "
    "to be told apart on a circle.",
    [r"(?i)dimension|\brank\b|outputs?|width|head|projection|\bdense\b|narrow|bottleneck|\bsize\b"],
)
def projection_to_two_dimensions(stage: Stage) -> None:
    """Common where a head is taken over from a classifier with two classes."""

    def build(slip: bool) -> Any:
        model = trainees(stage, CLAIMS, width=32)()
        outputs = 2 if slip else 24
        model.append(Dense(32, outputs, activation_function=nn.Identity()))
        return model

    built(stage, CLAIMS, build)


@faulty(
    "head made anew in each call",
    "The projection is made inside forward: each batch passes through another random matrix, "
    "which never learns, and texts of two calls cannot be compared.",
    [
        r"(?i)random|determin|(same|equal) text.{0,80}(differ|other|another)|twice|each call|anew",
        r"(?i)(head|projection|linear|layer|module).{0,80}(new|forward|not regist|not trained|"
        r"never|no (weights|parameters))",
    ],
)
def linear_layer_made_inside_forward(stage: Stage) -> None:
    """Everyday for beginners: `nn.Linear(...)` in forward and not in __init__."""

    def build(slip: bool) -> Any:
        model = trainees(stage, HOTEL)()
        layer = nn.Linear(48, 32)
        head = Head(lambda rows: (nn.Linear(48, 32) if slip else layer)(rows))
        head.layer = layer
        model.append(head)
        return model

    built(stage, HOTEL, build, steps=50)


@faulty(
    "embedding cut off from the encoder",
    "A module behind the pooling passes the embedding through NumPy (or `.data`), which cuts the "
    "graph; only the projection after it learns.",
    [*NO_GRADIENT, *STILL, r"(?i)numpy|\.data\b"],
)
def embedding_passed_through_numpy(stage: Stage) -> None:
    """Common in whitening or scaling modules by hand."""

    def build(slip: bool) -> Any:
        model = trainees(stage, STATION, layers=1)()
        centred: Callable[[torch.Tensor], torch.Tensor] = lambda rows: rows * 2  # noqa: E731
        if slip:
            centred = lambda rows: torch.from_numpy(rows.detach().numpy() * 2)  # noqa: E731
        model.append(Head(centred))
        model.append(Dense(48, 48, activation_function=nn.Identity()))
        return model

    built(stage, STATION, build, steps=50)


class Adapter(nn.Module):
    """A low-rank adapter beside a frozen linear layer."""

    def __init__(self, frozen: nn.Linear, start: float) -> None:
        super().__init__()
        self.frozen = frozen
        self.down = nn.Parameter(start * torch.randn(8, frozen.in_features))
        self.up = nn.Parameter(torch.zeros(frozen.out_features, 8))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.frozen(rows) + 4 * rows @ self.down.T @ self.up.T


@faulty(
    "adapters with two zero matrices",
    "Both matrices of the low-rank adapters start at zero: the gradient of each is a multiple of "
    "its partner, and stays zero for ever.",
    [*NO_GRADIENT, *STILL, r"(?i)adapter|lora|low.?rank|initiali[sz]|zeros?\b"],
)
def adapters_that_start_at_zero_twice(stage: Stage) -> None:
    """Common in LoRA by hand: only one of the two may start at zero."""

    def build(slip: bool) -> Any:
        model = trainees(stage, HARBOUR, spread=0.1)()
        model.requires_grad_(False)
        for layer in model[0].auto_model.encoder.layer:
            start = 0.0 if slip else 0.2
            layer.intermediate.dense = Adapter(layer.intermediate.dense, start)
            layer.attention.self.value = Adapter(layer.attention.self.value, start)
            layer.output.dense = Adapter(layer.output.dense, start)
        return model

    built(stage, HARBOUR, build, steps=70, rate=5e-3)


@faulty(
    "weights in half precision at a small rate",
    "All weights are kept in bfloat16, whose steps near 1 and near 0.1 are larger than the "
    "updates: these are rounded away.",
    [r"(?i)precision|bfloat16|bf16|fp16|float16|half|round|dtype", *STILL],
)
def weights_in_bfloat_rounded_back(stage: Stage) -> None:
    """Common: the model is loaded with `torch_dtype=torch.bfloat16` and trained as it is."""

    def build(slip: bool) -> Any:
        model = trainees(stage, CHESS, spread=0.2, width=64)()
        return model.to(torch.bfloat16) if slip else model

    built(stage, CHESS, build, steps=105, rate=3e-4)


@faulty(
    "texts cut off before what matters",
    "The encoder reads six tokens at most, and what tells the texts apart comes later.",
    [
        r"(?i)truncat|max_seq_length|cut (off|short)|(sequence|text)s?.{0,40}(length|short|long)|"
        r"tokens?",
        r"(?i)(texts?|views?|rows?|embeddings?).{0,80}(identical|equal|the same|duplicate)",
    ],
)
def reports_cut_after_six_tokens(stage: Stage) -> None:
    """Everyday: `max_seq_length` stays from another project, or from a model card's default."""

    def build(slip: bool) -> Any:
        return trainees(stage, OBSERVATORY, length=6 if slip else 90)()

    built(stage, OBSERVATORY, build, steps=50)


@faulty(
    "tokenizer of another vocabulary",
    "The tokenizer belongs to another field: nearly all words are unknown to it, and texts differ "
    "by their lengths only.",
    [
        r"(?i)unknown|\[?UNK\]?|vocabular|tokeni[sz]er|out.of.vocab",
        r"(?i)(texts?|views?|rows?|embeddings?|tokens?).{0,80}(identical|equal|the same|duplicate)",
        *COLLAPSE,
    ],
)
def tokenizer_that_knows_none_of_the_words(stage: Stage) -> None:
    """Common: an English vocabulary for texts in another script."""

    def build(slip: bool) -> Any:
        return trainees(stage, CLAIMS if slip else STATION, name="words-of" + str(slip))()

    built(stage, STATION, build, steps=50)


def frozen_but(model: Any, names: Sequence[str]) -> Any:
    """Freeze all weights but those with one of these words in their name."""
    for name, row in model.named_parameters():
        row.requires_grad_(any(word in name for word in names))
    return model


@faulty(
    "pattern of trainable names that hardly matches",
    "Layers to be trained are chosen by names that this architecture does not have, and only the "
    "biases of the last layer match: the rest is frozen.",
    [r"(?i)frozen|freez|requires_grad|trainable", *NO_GRADIENT, *STILL],
)
def names_of_another_architecture_unfrozen(stage: Stage) -> None:
    """Common: a list of names from another model is used to unfreeze."""

    def build(slip: bool) -> Any:
        model = trainees(stage, GARDEN, layers=3)()
        return frozen_but(model, ["h.2.", "layer.2.output.dense.bias"] if slip else [""])

    built(stage, GARDEN, build, steps=50)
