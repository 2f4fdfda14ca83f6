"""Causal decoders as encoders whose embedding is taken at a place that has not read the text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.judgement.case import faulty
from tests.judgement.first.bodies import body, words_of
from tests.judgement.first.fields import CLINIC, HELPDESK, KITCHEN, Field
from tests.judgement.first.opposed import ranking
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers

PLACE = (
    r"(?i)pool|padd|\bpads?\b|last token|end token|\beos\b|causal|decoder|attention mask",
    r"(?i)embeddings?.{0,60}(depend|differ).{0,60}(batch|pad|length)",
)


class Chosen(nn.Module):
    """Pooling of the states by a function of the ids and the mask."""

    def __init__(self, weigh: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.weigh = weigh

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        states = features["token_embeddings"]
        weights = self.weigh(features["input_ids"], features["attention_mask"]).to(states)
        return features | {"sentence_embedding": (states * weights[..., None]).sum(1)}


def at_place(places: Tensor, like: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(places, like.shape[1])


def last_column(_: Tensor, mask: Tensor) -> Tensor:
    return at_place(torch.full((len(mask),), mask.shape[1] - 1), mask)


def last_real(_: Tensor, mask: Tensor) -> Tensor:
    return at_place((mask * torch.arange(mask.shape[1])).argmax(1), mask)


def first_end(ids: Tensor, mask: Tensor) -> Tensor:
    """The first end token, where the pads are end tokens too."""
    return at_place(((ids == 3) | (mask == 0)).int().argmax(1), mask)


def before_the_text(_: Tensor, mask: Tensor) -> Tensor:
    """The second real token."""
    return at_place((mask.cumsum(1) == 2).int().argmax(1), mask)


def decoded(stage: Stage, field: Field, faulty_one: Any, mended: Any, side: str = "left") -> None:
    """Train a decoder with a pooling and a side of its padding, beside the mended pooling."""
    from sentence_transformers import SentenceTransformer

    def trainer(weigh: Any) -> Any:
        torch.manual_seed(3)
        words = words_of([field.table(200), field.table(50, 1)])
        decoder = body(stage, words, kind="granite")
        decoder.tokenizer.padding_side = side
        model = SentenceTransformer(modules=[decoder, Chosen(weigh)], device="cpu")
        lengths = field.table(160)
        first = next(iter(lengths))
        lengths[first] = [text + " ." * (at % 9) for at, text in enumerate(lengths[first])]
        return stage.trainer(ranking, lengths, model, learning_rate=2e-3, max_steps=40)

    suffers(stage, trainer(faulty_one), lambda: trainer(mended), field.sought)


@faulty(
    "first end token found among pads that are end tokens",
    "Pads are end tokens and stand on the left: the first end token of a row is its first pad, "
    "which has read nothing.",
    PLACE,
)
def first_end_token_is_a_pad(stage: Stage) -> None:
    """`(ids == eos).int().argmax(1)` with `pad_token = eos_token`."""
    decoded(stage, HELPDESK, first_end, last_real)


@faulty(
    "last column of rows padded on the right",
    "The last column is pooled though rows are padded on the right: short texts are embedded by a "
    "pad.",
    PLACE,
)
def last_column_of_right_padded_rows(stage: Stage) -> None:
    """`hidden[:, -1]` with the tokenizer's default side."""
    decoded(stage, CLINIC, last_column, last_real, side="right")


@faulty(
    "token behind the opening pooled in a decoder",
    "The second token is pooled, as where a class token follows the opening: a causal decoder has "
    "read two words by then.",
    PLACE,
)
def second_token_of_a_decoder(stage: Stage) -> None:
    """An index kept from an encoder that reads both ways."""
    decoded(stage, KITCHEN, before_the_text, last_real)
