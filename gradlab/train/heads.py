"""Projection and predictor: layers behind the encoder that exist in training only (MoCoSE, sections 3 and 5.2).

The paper says "fully connected layers"; what is around them is as in its authors' code: a layer norm and dropout behind
each layer of the projection and each hidden one of the predictor, tanh behind the predictor's last. Without the norms and
with torch's own biases the parts that all sentences share outweigh what tells them apart, and training starts badly.
"""

from __future__ import annotations

from torch import nn


class Perceptron(nn.Sequential):
    """Fully connected layers in a row.

    Attributes:
        dimension: of the output.
    """

    def __init__(self, *parts: nn.Module, dimension: int) -> None:
        super().__init__(*parts)
        self.dimension = dimension


def projection(layers: int, dimension: int, width: int | None = None, dropout: float = 0.1) -> nn.Module:
    """Of both branches: every layer ``width`` wide (unset: as wide as the embedding), the last one too."""
    if layers == 0:
        return nn.Identity()
    width = width or dimension
    return Perceptron(*_hidden(layers, dimension, width, dropout), dimension=width)


def predictor(layers: int, dimension: int, width: int | None = None, dropout: float = 0.1) -> nn.Module:
    """Of the anchors' branch alone: hidden layers ``width`` wide, and back to ``dimension``, which the keys have."""
    if layers == 0:
        return nn.Identity()
    width = width or dimension
    last = _linear(width if layers > 1 else dimension, dimension)
    return Perceptron(*_hidden(layers - 1, dimension, width, dropout), last, nn.Tanh(), dimension=dimension)


def _hidden(layers: int, dimension: int, width: int, dropout: float) -> list[nn.Module]:
    parts: list[nn.Module] = []
    for place in range(layers):
        parts += [_linear(width if place else dimension, width), nn.LayerNorm(width), nn.Dropout(dropout)]
    return parts


def _linear(rows: int, columns: int) -> nn.Linear:
    """Initialised as transformers initialises the layers of BERT."""
    layer = nn.Linear(rows, columns)
    nn.init.normal_(layer.weight, std=0.02)
    nn.init.zeros_(layer.bias)
    return layer
