"""Measures what a loss asks for, by its values on given embeddings, and its dimensions, for JSON.

Each function returns the arguments of the function of the same name in
`gradlab.diagnosis.shape_verdicts`, or None where there is nothing to measure.
"""

from __future__ import annotations

import contextlib
import copy
import math
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.diagnosis.observation import Observation, ObservedBatch
from gradlab.scale.audit.worker import MODEL, GivenModel

# Rows of the batches on which a loss is tried, and their dimensions.
TRIED, WIDTH = 6, 32
Numbers = dict[str, Any]


def direction(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return values of a loss on batches whose answer is known; None for losses with labels.

    ``solved``: positives equal their anchors, which are orthogonal, and negatives are orthogonal to
    both; ``wrong``: positives are orthogonal, and negatives or the next row's positive equal the
    anchor; ``close``: a negative has a cosine of 0.6 with an anchor, and the positive one of 0.5.
    """
    batch = batches[0]
    columns = len(batch.columns)
    if not isinstance(batch.loss, nn.Module) or columns < 2 or batch.labels is not None:
        return None
    if hasattr(batch.loss, "guide") or getattr(batch.loss, "uses_gradient_cache", False):
        return None
    stand_in = GivenModel()
    loss = copy.deepcopy(batch.loss, {id(observation.trainer.model): stand_in})
    if not any(getattr(loss, name, None) is stand_in for name in MODEL):
        return None
    values: dict[str, float] = {}
    with contextlib.suppress(Exception):  # a loss that needs more of a model than embeddings
        values = {name: _value(loss, stand_in, rows) for name, rows in _known(columns).items()}
    return values if values and all(map(math.isfinite, values.values())) else None


def _known(columns: int) -> dict[str, list[Tensor]]:
    """Return the embeddings of each column, (N, D) float32, by the name of a batch."""
    rows = torch.eye(WIDTH)
    anchors, *aside = rows.split(TRIED)[:4]
    further = columns - 2
    close = 0.5 * anchors + (0 if further else 0.6) * anchors.roll(-1, 0)
    close = close + (1 - close.square().sum(1, keepdim=True)).sqrt() * aside[0]
    near = 0.6 * anchors + 0.8 * aside[1]
    return {
        "solved": [anchors, anchors, *[aside[2]] * further],
        "wrong": [anchors, aside[0] if further else anchors.roll(1, 0), *[anchors] * further],
        "close": [anchors, close, *[near] * further],
    }


def _value(loss: Any, stand_in: GivenModel, columns: list[Tensor]) -> float:
    stand_in.rows = torch.cat(columns)
    places = torch.arange(len(stand_in.rows)).split(TRIED)
    features = [
        {"input_ids": place[:, None], "attention_mask": torch.ones(len(place), 1).long()}
        for place in places
    ]
    with torch.no_grad():
        return float(loss(features, None))


def prefixes(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return the dimensions and weights of a Matryoshka loss, beside those of the embeddings."""
    loss = batches[0].loss
    dims = getattr(loss, "matryoshka_dims", None)
    if not dims or not batches[0].embedded:
        return None
    weights = getattr(loss, "matryoshka_weights", None) or [1.0] * len(dims)
    return {
        "dims": [int(size) for size in dims],
        "weights": [float(weight) for weight in weights],
        "width": _width(observation, batches),
    }


def width(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the dimensions of the embeddings; None where they are unknown."""
    size = _width(observation, batches)
    return {"width": size} if size else None


def _width(observation: Observation, batches: list[ObservedBatch]) -> int:
    """Return the dimensions of embeddings, before a loss cuts them; 0 if they are unknown."""
    model = observation.trainer.model
    whole = getattr(model, "get_sentence_embedding_dimension", lambda: None)()
    embedded = max((rows.shape[-1] for rows in batches[0].embedded), default=0)
    return int(whole or embedded)


OF_LOSS = (direction, prefixes, width)
