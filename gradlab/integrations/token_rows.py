"""Tokenised sentences of sentence-transformers, cut into pieces with less padding."""

from __future__ import annotations

from typing import Any, TypeGuard

from torch import Tensor

from gradlab.errors import GradlabError
from gradlab.monitor.captured_views import ROWS


def is_padded(features: dict[str, Any]) -> TypeGuard[dict[str, Any]]:
    """Return whether features are padded rows of tokens with an attention mask, (rows, length)."""
    mask = features.get("attention_mask")
    return isinstance(mask, Tensor) and mask.ndim == 2 and "cu_seq_lens_q" not in features


def used_lengths(mask: Tensor) -> Tensor:
    """Return the columns of each row until its last token, (rows,); padding on the left counts."""
    return mask.shape[1] - mask.long().flip(1).argmax(1)


def tight(features: dict[str, Any], rows: Tensor) -> dict[str, Any]:
    """Return features of some rows, without columns on the right in which all are padding.

    Padding on the left stays, to keep positions.
    """
    mask = features["attention_mask"]
    count, width = mask.shape
    used = int(used_lengths(mask[rows]).max())
    piece: dict[str, Any] = {}
    for name, feature in features.items():
        if isinstance(feature, Tensor) and feature.ndim and len(feature) == count:
            feature = feature[rows]
            in_columns = feature.ndim > 1 and feature.shape[1] == width
            feature = feature[:, :used] if in_columns else feature
        piece[name] = feature
    return piece


def sentence_chunks(features: dict[str, Any], size: int) -> tuple[list[dict[str, Any]], Tensor]:
    """Split a tokenised column of sentences into tight chunks of at most ``size``, longest first.

    Returns:
        the chunks, and the order, (N,), that restores the order of the rows.

    Raises:
        GradlabError: features that are not padded rows of tokens.
    """
    if not is_padded(features):
        raise GradlabError(
            "chunk_size needs padded rows of tokens with an attention_mask; this model's inputs "
            "are of another form"
        )
    by_length = features["attention_mask"].sum(1).argsort(stable=True, descending=True)
    chunks = [{ROWS: rows, **tight(features, rows)} for rows in by_length.split(size)]
    return chunks, by_length.argsort()
