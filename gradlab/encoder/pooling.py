"""Poolers: how the hidden states of a sentence's tokens become one vector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

POOLERS = {
    "cls": "last hidden state of the first token",
    "mean": "mean of the last hidden states over the tokens",
    "last": "last hidden state of the last token, for decoders",
    "first_last": "mean of the first and the last layer's hidden states over the tokens",
}


def pool(name: str, output: Any, attention_mask: Tensor) -> Tensor:
    """Return embeddings (rows, D) from the output of a Hugging Face encoder.

    Args:
        name: a key of :data:`POOLERS`; ``first_last`` needs ``output_hidden_states``.
        output: the output of the encoder.
        attention_mask: (rows, length), 1 for tokens and 0 for padding, on the right for ``cls``.
    """
    hidden: Tensor = output.last_hidden_state
    if name == "cls":
        return hidden[:, 0]
    if name == "last":
        # Padding may be on either side.
        last = attention_mask.shape[1] - 1 - attention_mask.flip(1).argmax(1)
        return hidden.take_along_dim(last[:, None, None], dim=1).squeeze(1)
    if name == "first_last":
        # hidden_states[0] is the embedding layer; the first transformer layer is [1], as in SimCSE.
        hidden = (output.hidden_states[1] + hidden) / 2
    weights = attention_mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1)
