"""Heads, in training only: SimCSE's MLP, MoCoSE's projection and predictor (sections 3 and 5.2).

MoCoSE's paper says "fully connected layers"; the rest follows its authors' code: layer norm and
dropout after each projection layer and hidden predictor layer, and tanh after the predictor.

The initial weights decide whether a small encoder trains at all: at first, a random map before the
loss hides what the encoder knows, and the encoder forgets it. An identity hides nothing.
"""

from __future__ import annotations

import itertools

from torch import nn

from gradlab.encoder.model import Encoder
from gradlab.train.settings import ModelSettings

# Names of the dropout behind the layers, in the configurations of models.
_DROPOUTS = ("hidden_dropout_prob", "hidden_dropout", "dropout", "resid_pdrop", "mlp_dropout")


class MLP(nn.Sequential):
    """SimCSE's head: a linear layer of the embedding's size and tanh ("none" in MoCoSE's code)."""

    def __init__(self, dimension: int, initial: str = "random", activation: str = "tanh") -> None:
        last = [nn.Tanh()] if activation == "tanh" else []
        super().__init__(linear(dimension, dimension, initial), *last)


def heads(settings: ModelSettings, encoder: Encoder) -> tuple[nn.Module, nn.Module, nn.Module]:
    """Return head, projection and predictor for an encoder, each the identity without one."""
    width, dropout, initial = encoder.dimension, settings.dropout, settings.head_initial
    if dropout is None:  # that of the encoder
        dropout_rates = map(vars(encoder.model.config).get, _DROPOUTS)
        dropout = float(next((rate for rate in dropout_rates if rate is not None), 0.1))
    head: nn.Module = nn.Identity()
    if settings.pooler == "cls_mlp":
        head = MLP(width, initial, settings.pooler_activation)
    layers, projected = settings.projection_layers, settings.projection_width
    first = projection(layers, width, projected, dropout, initial)
    width = projected or width if layers else width
    last = predictor(settings.predictor_layers, width, settings.predictor_width, dropout, initial)
    return head, first, last


def projection(
    layers: int,
    dimension: int,
    width: int | None = None,
    dropout: float = 0.1,
    initial: str = "random",
) -> nn.Module:
    """Return both branches' projection; all layers are ``width`` wide (None: as the embedding)."""
    sizes = [dimension, *[width or dimension] * layers]
    return nn.Sequential(*_hidden(sizes, dropout, initial)) if layers else nn.Identity()


def predictor(
    layers: int,
    dimension: int,
    width: int | None = None,
    dropout: float = 0.1,
    initial: str = "random",
) -> nn.Module:
    """Return the anchors' predictor: hidden layers ``width`` wide, and ``dimension`` outputs."""
    if layers == 0:
        return nn.Identity()
    sizes = [dimension, *[width or dimension] * (layers - 1)]
    last = linear(sizes[-1], dimension, initial)
    return nn.Sequential(*_hidden(sizes, dropout, initial), last, nn.Tanh())


def linear(inputs: int, outputs: int, initial: str = "random") -> nn.Linear:
    """Return a zero-bias linear layer: "random" as transformers initialises BERT, or "identity".

    The identity passes on the first components, and adds zeros if outputs outnumber inputs.
    """
    layer = nn.Linear(inputs, outputs)
    if initial == "identity":
        nn.init.eye_(layer.weight)
    else:
        nn.init.normal_(layer.weight, std=0.02)
    nn.init.zeros_(layer.bias)
    return layer


def _hidden(sizes: list[int], dropout: float, initial: str) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for inputs, width in itertools.pairwise(sizes):
        layers += [linear(inputs, width, initial), nn.LayerNorm(width), nn.Dropout(dropout)]
    return layers
