"""Encoders of word vectors without a transformer, and whether a table of them was drawn at random.

Rows of independent entries have lengths that hardly vary, and columns without a mean or a
correlation; word vectors that were trained have neither.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

# Modules of sentence-transformers that stand below others in place of a transformer.
WORD_MODULES = {"BoW", "WordEmbeddings", "StaticEmbedding"}
FEWEST_WORDS = 50  # rows of a table whose numbers say something
SAMPLED_WORDS = 5000


def embeds_words_alone(model: Any) -> bool:
    """Return whether a model of sentence-transformers embeds words without a transformer."""
    kinds = {type(module).__name__ for module in model.modules()}
    return bool(kinds & WORD_MODULES) and not any("attention" in kind.lower() for kind in kinds)


def frozen_table(model: Any) -> dict[str, float] | None:
    """Return the numbers of a frozen table of word vectors; see `randomness`.

    None for models with a transformer, and without a frozen table below weights that are trained.
    """
    if not isinstance(model, nn.Module) or not embeds_words_alone(model):
        return None
    tables = [
        module.weight for module in model.modules()
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and len(module.weight) >= FEWEST_WORDS
    ]  # fmt: skip
    if not tables or any(table.requires_grad for table in tables):
        return None
    if not any(weight.requires_grad for weight in model.parameters()):
        return None
    return {"words": float(len(tables[0])), **randomness(tables[0])}


def randomness(table: Tensor) -> dict[str, float]:
    """Return three numbers of a table, which are near 1 for entries that are drawn independently.

    ``lengths`` is the spread of the lengths of rows relative to that of normal entries, ``mean``
    the square of the mean row, and ``correlation`` the mean square correlation of two columns, both
    relative to what chance gives. The first row, of padding, is left out.
    """
    rows = table.detach()[1:]
    rows = rows[:: max(1, len(rows) // SAMPLED_WORDS)].double()
    count, width = rows.shape
    lengths = rows.norm(dim=1)
    varied = rows.var(dim=0, correction=1)
    mean = rows.mean(0).square() / varied.clamp_min(1e-30)
    square = torch.corrcoef(rows.T).square() if width > 1 else torch.ones(1, 1)
    apart = ~torch.eye(width, dtype=torch.bool, device=square.device)
    return {
        "lengths": float(lengths.std() / lengths.mean()) * math.sqrt(2 * width),
        "mean": count * float(mean.mean()),
        "correlation": (count - 1) * float(square[apart].mean()) if width > 1 else math.inf,
    }
