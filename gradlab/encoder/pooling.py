"""Poolers: how the states of a sentence's tokens become its vector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradlab.errors import check_known

if TYPE_CHECKING:
    from torch import Tensor

POOLERS = {
    "cls": "last hidden state of the first token",
    "mean": "mean of the last hidden states over the tokens",
    "first_last": "mean of the first and the last layer's hidden states over the tokens",
}


def check_pooler(name: str) -> str:
    """Return ``name`` if it is a pooler; GradlabError, with the nearest one, if it is not."""
    check_known("pooler", name, POOLERS)
    return name


def pool(name: str, output: Any, attention_mask: Tensor) -> Tensor:
    """Embeddings (rows, D) from what a Hugging Face encoder returns.

    Args:
        name: a key of :data:`POOLERS`; ``first_last`` needs ``output_hidden_states``.
        output: of the encoder.
        attention_mask: (rows, length), 1 for tokens and 0 for padding.
    """
    check_pooler(name)
    hidden: Tensor = output.last_hidden_state
    if name == "cls":
        return hidden[:, 0]
    if name == "first_last":
        # hidden_states[0] is the embedding layer; the first transformer layer is [1] (as in SimCSE's code).
        hidden = (output.hidden_states[1] + hidden) / 2
    elif name != "mean":
        raise AssertionError(f"{name} is in POOLERS, and nothing here computes it")
    weights = attention_mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1)
