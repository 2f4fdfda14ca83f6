"""Layers behind the encoder that exist in training only: SimCSE's MLP, MoCoSE's projection and predictor (sections 3, 5.2).

MoCoSE's paper says "fully connected layers"; what is around them is as in its authors' code: a layer norm and dropout behind
each layer of the projection and each hidden one of the predictor, tanh behind the predictor's last.

How the layers begin decides whether a small encoder trains at all: a random map in front of the loss hides for a while what
the encoder knows, and the encoder forgets it in the meantime; one that begins as the identity does not.
"""

from __future__ import annotations

from torch import nn


class MLP(nn.Sequential):
    """SimCSE's head: one linear layer of the embeddings' own size and tanh, or "none", as in the code of MoCoSE's authors."""

    def __init__(self, dimension: int, initial: str = "random", activation: str = "tanh") -> None:
        last = [nn.Tanh()] if activation == "tanh" else []
        super().__init__(linear(dimension, dimension, initial), *last)


def projection(
    layers: int, dimension: int, width: int | None = None, dropout: float = 0.1, initial: str = "random"
) -> nn.Module:
    """Of both branches: every layer ``width`` wide (unset: as wide as the embedding), the last one too."""
    hidden = _hidden(layers, dimension, width or dimension, dropout, initial)
    return nn.Sequential(*hidden) if layers else nn.Identity()


def predictor(
    layers: int, dimension: int, width: int | None = None, dropout: float = 0.1, initial: str = "random"
) -> nn.Module:
    """Of the anchors' branch alone: hidden layers ``width`` wide, and back to ``dimension``, which the keys have."""
    if layers == 0:
        return nn.Identity()
    width = width or dimension
    last = linear(width if layers > 1 else dimension, dimension, initial)
    return nn.Sequential(*_hidden(layers - 1, dimension, width, dropout, initial), last, nn.Tanh())


def linear(inputs: int, outputs: int, initial: str = "random") -> nn.Linear:
    """A layer without bias at first: "random", as transformers initialises those of BERT, or the "identity", which passes on
    the first components, and zeros after them where there are more outputs than inputs.
    """
    layer = nn.Linear(inputs, outputs)
    if initial == "identity":
        nn.init.eye_(layer.weight)
    else:
        nn.init.normal_(layer.weight, std=0.02)
    nn.init.zeros_(layer.bias)
    return layer


def _hidden(layers: int, dimension: int, width: int, dropout: float, initial: str) -> list[nn.Module]:
    parts: list[nn.Module] = []
    for inputs in [dimension, *[width] * layers][:layers]:
        parts += [linear(inputs, width, initial), nn.LayerNorm(width), nn.Dropout(dropout)]
    return parts
