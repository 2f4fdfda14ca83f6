"""Projection and predictor: layers behind the encoder that exist in training only (MoCoSE, sections 3 and 5.2)."""

from __future__ import annotations

from torch import nn


class Perceptron(nn.Sequential):
    """``layers`` fully connected layers with ReLU between them, initialised as torch does.

    MoCoSE does not name what is between the layers; ReLU, and no normalisation, are ours.

    Attributes:
        dimension: of its output.
    """

    def __init__(self, layers: int, dimension: int, hidden: int, output: int) -> None:
        """From ``dimension`` over ``layers - 1`` times ``hidden`` to ``output``."""
        widths = [dimension, *[hidden] * (layers - 1), output]
        parts: list[nn.Module] = []
        for place in range(layers):
            parts += [nn.ReLU()] * (place > 0) + [nn.Linear(widths[place], widths[place + 1])]
        super().__init__(*parts)
        self.dimension = output


def projection(layers: int, dimension: int, width: int | None = None) -> nn.Module:
    """Of both branches: every layer ``width`` wide (unset: as wide as the embedding), the last one too."""
    width = width or dimension
    return Perceptron(layers, dimension, width, width) if layers else nn.Identity()


def predictor(layers: int, dimension: int, width: int | None = None) -> nn.Module:
    """Of the anchors' branch alone: hidden layers ``width`` wide, and back to ``dimension``, which the keys have."""
    return Perceptron(layers, dimension, width or dimension, dimension) if layers else nn.Identity()
