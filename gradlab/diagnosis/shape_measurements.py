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
import torch.nn.functional as F
from torch import Tensor, nn

from gradlab.data.words import word_overlap
from gradlab.diagnosis.label_agreement_measurements import WORDED_ROWS, rank_correlation
from gradlab.diagnosis.label_measurements import label_cells
from gradlab.diagnosis.observation import Observation, ObservedBatch
from gradlab.monitor import formula_trials
from gradlab.scale.audit.worker import MODEL, GivenModel

# Rows of the batches on which a loss is tried, and their dimensions.
TRIED, WIDTH = 6, 32
# Dimensions beyond which entries stand for the words of a vocabulary; rounding of a sum of shares.
WIDEST, SUMS_TO_ONE = 8192, 1e-2
SPARSE = "SparseEncoder"  # of sentence-transformers, as of SPLADE
Numbers = dict[str, Any]


def direction(
    observation: Observation, dataset: str, batches: list[ObservedBatch]
) -> Numbers | None:
    """Return values of a loss on batches whose answer is known; None for losses with labels.

    ``solved``: positives equal their anchors, which are orthogonal, and negatives are orthogonal to
    both; ``wrong``: positives are orthogonal, and negatives or the next row's positive equal the
    anchor; ``close``: a negative has a cosine of 0.6 with an anchor, and the positive one of 0.5;
    ``below``: a negative has one of 0.45. With further columns, ``united``: all equal the anchors.
    """
    stand_in, columns = GivenModel(), len(batches[0].columns)
    loss = _on_embeddings(observation, batches[0], stand_in)
    if loss is None:
        return None
    values: dict[str, float] = {}
    with contextlib.suppress(Exception):  # a loss that needs more of a model than embeddings
        values = {
            name: _value(loss, stand_in, rows) for name, rows in _known_batches(columns).items()
        }
    return values if values and all(map(math.isfinite, values.values())) else None


def shape(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return values of a loss of two columns; see `gradlab.monitor.formula_trials`.

    With ``longer``, the loss of embeddings that are three times as long, relative to unit rows;
    ``length``, that of the embeddings; and ``value``, the loss of the first batch. None for losses
    with labels, a teacher or hard negatives.
    """
    stand_in, batch = GivenModel(), batches[0]
    loss = _on_embeddings(observation, batch, stand_in)
    if loss is None or len(batch.columns) != 2 or not batch.embedded:
        return None
    if hasattr(batch.loss, "matryoshka_dims"):  # known batches use all dimensions
        return None

    def function(*views: Tensor) -> Tensor:
        stand_in.rows = torch.cat(views).float()
        return loss(_features(stand_in.rows, len(views[0])), None)

    length = float(torch.cat([rows.double().norm(dim=1) for rows in batch.embedded]).mean())
    values = formula_trials.values_on_known_batches(function, WIDTH, length)
    if not values:
        return None
    # A number of its own that is trained, such as a temperature.
    values["learned"] = float(any(w.requires_grad and w.numel() == 1 for w in loss.parameters()))
    rows = F.normalize(torch.randn(TRIED, WIDTH, generator=torch.Generator().manual_seed(0)))
    with torch.no_grad():
        unit, longer = (float(function(size * rows, size * rows.roll(1, 0))) for size in (1.0, 3.0))
    return {
        "values": values, "longer": longer / unit if unit else 1.0, "value": batch.value,
        "length": length, "pairing": batch.pairing, "rows": len(batch.embedded[0]),
    }  # fmt: skip


def graded(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return a loss of labelled pairs where cosines rise with labels, and where they fall.

    The labels are some of the first batch, in their order; None for other losses. ``words`` is the
    rank correlation of labels with common words.
    """
    stand_in, batch = GivenModel(), batches[0]
    loss = _on_embeddings(observation, batch, stand_in, labelled=True)
    labels = batch.labels
    if loss is None or len(batch.columns) != 2 or labels is None or labels.ndim != 1:
        return None
    if batch.ignores_labels or len(labels) < TRIED or len(set(labels.tolist())) < 2:
        return None
    if any(weight.requires_grad for weight in loss.parameters()):
        return None  # a classifier, whose labels are no grades
    places = torch.linspace(0, len(labels) - 1, TRIED).round().long()
    labels = labels.detach().cpu().sort().values[places]
    anchors, directions = torch.eye(WIDTH).split(TRIED)[:2]
    cosines = torch.linspace(0.0, 0.9, TRIED)[:, None]
    values = []
    for sizes in (cosines, cosines.flip(0)):
        stand_in.rows = torch.cat([anchors, sizes * anchors + (1 - sizes**2).sqrt() * directions])
        with contextlib.suppress(Exception), torch.no_grad():
            values.append(float(loss(_features(stand_in.rows, TRIED), labels)))
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return None
    cells = label_cells(observation, dataset)[:WORDED_ROWS]
    texts = [column[:WORDED_ROWS] for column in observation.table_of(dataset).values()]
    words = 0.0
    if len(texts) == 2 and len(cells) == len(texts[0]):
        overlap = word_overlap(texts)
        words = rank_correlation(cells, [overlap(0, row, 1, row) for row in range(len(cells))])
    return {"rising": values[0], "falling": values[1], "words": words}


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


def entries(observation: Observation, dataset: str, batches: list[ObservedBatch]) -> Numbers | None:
    """Return the lowest entry of the first embeddings, whether each sums to 1, and their cosine."""
    rows = batches[0].embedded[0].detach().double() if batches[0].embedded else torch.empty(0)
    if any(base.__name__ == SPARSE for base in type(observation.trainer.model).__mro__):
        return None  # entries are weights of words, which are never negative
    if rows.ndim != 2 or len(rows) < 2 or not 1 < rows.shape[1] <= WIDEST or rows.is_sparse:
        return None
    cosines = F.normalize(rows, dim=1) @ F.normalize(rows, dim=1).T
    apart = cosines[~torch.eye(len(rows), dtype=torch.bool)]
    if not bool(cosines.isfinite().all()):
        return None
    return {
        "lowest": float(rows.min()),
        "shares": bool(((rows.sum(1) - 1).abs() < SUMS_TO_ONE).all()) and bool((rows >= 0).all()),
        "cosine": float(apart.mean()),
        "at_bounds": sum(
            float((rows == bound).double().mean()) for bound in (rows.min(), rows.max()) if bound
        ),
    }


def _on_embeddings(
    observation: Observation, batch: ObservedBatch, stand_in: GivenModel, *, labelled: bool = False
) -> Any:
    """Return a copy of a loss on embeddings of ``stand_in``; None for losses that need more."""
    if not isinstance(batch.loss, nn.Module) or len(batch.columns) < 2:
        return None
    if (batch.labels is not None) != labelled:
        return None
    if hasattr(batch.loss, "guide") or getattr(batch.loss, "uses_gradient_cache", False):
        return None
    loss = copy.deepcopy(batch.loss, {id(observation.trainer.model): stand_in})
    return loss if any(getattr(loss, name, None) is stand_in for name in MODEL) else None


def _known_batches(columns: int) -> dict[str, list[Tensor]]:
    """Return the embeddings of each column, (N, D) float32, by the name of a batch."""
    rows = torch.eye(WIDTH)
    anchors, *directions = rows.split(TRIED)[:4]
    further = columns - 2
    batches: dict[str, list[Tensor]] = {}
    for name, cosine in (("close", 0.6), ("below", 0.45)):
        positives = 0.5 * anchors + (0 if further else cosine) * anchors.roll(-1, 0)
        positives += (1 - positives.square().sum(1, keepdim=True)).sqrt() * directions[0]
        near = cosine * anchors + math.sqrt(1 - cosine**2) * directions[1]
        batches[name] = [anchors, positives, *[near] * further]
    if further:
        batches["united"] = [anchors] * columns
    return batches | {
        "solved": [anchors, anchors, *[directions[2]] * further],
        "wrong": [anchors, directions[0] if further else anchors.roll(1, 0), *[anchors] * further],
    }


def _value(loss: Any, stand_in: GivenModel, columns: list[Tensor]) -> float:
    stand_in.rows = torch.cat(columns)
    with torch.no_grad():
        return float(loss(_features(stand_in.rows, TRIED), None))


def _features(rows: Tensor, count: int) -> list[dict[str, Tensor]]:
    """Return tokenised columns of ``count`` rows each whose tokens are the numbers of the rows."""
    return [
        {"input_ids": place[:, None], "attention_mask": torch.ones(len(place), 1).long()}
        for place in torch.arange(len(rows)).split(count)
    ]


def _width(observation: Observation, batches: list[ObservedBatch]) -> int:
    """Return the dimensions of embeddings, before a loss cuts them; 0 if they are unknown."""
    model = observation.trainer.model
    # The first is the name of sentence-transformers from version 6 on.
    names = ("get_embedding_dimension", "get_sentence_embedding_dimension")
    size_of = next((getattr(model, name) for name in names if hasattr(model, name)), None)
    whole = size_of() if size_of is not None else None
    embedded = max((rows.shape[-1] for rows in batches[0].embedded), default=0)
    return int(whole or embedded)


OF_LOSS = (direction, prefixes, width, entries, shape, graded)
