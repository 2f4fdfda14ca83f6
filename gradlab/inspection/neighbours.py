"""Nearest neighbours among many embeddings, by an approximate index of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.inspection.vectors import BLOCK, Vectors

# The index holds the leading principal coordinates in half precision, so that its size does not depend on the encoder.
DIMENSIONS = 128
NEIGHBOURS = 8
# Rows that are indexed or looked up in one call, between two signs of progress.
PART = 1024
# Of pairs drawn at random, the share that is nearer than what counts as near.
BY_CHANCE = 1e-4
_SAMPLE, _DRAWN = 20_000, 200_000


@dataclass(frozen=True)
class Neighbours:
    """Pairs of rows that are near each other, nearest first.

    Attributes:
        pairs: (P, 2) places among the rows that were searched, the smaller first.
        centred: (P,) their cosine after the mean of the embeddings is taken from each of them.
        cosine: (P,) their cosine.
        mean: (D,) the mean of the embeddings, each divided by its norm.
        by_chance: the centred cosine that one in 10,000 pairs of rows drawn at random exceeds.
    """

    pairs: NDArray[np.int64]
    centred: NDArray[np.float32]
    cosine: NDArray[np.float32]
    mean: NDArray[np.float32]
    by_chance: float

    def measure(
        self, vectors: Vectors, pairs: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Cosines (P,) of other pairs of rows of ``vectors``, as they are and centred."""
        return _cosines(vectors, pairs, self.mean)


def nearest_pairs(
    vectors: Vectors,
    rows: NDArray[np.int64],
    most: int,
    advance: Callable[[int], object] = lambda n: None,
) -> Neighbours:
    """The nearest pairs among some rows, each looked for among the 8 nearest neighbours of both.

    Encoders that were never tuned give any two sentences nearly the same large cosine; the mean of the embeddings is
    therefore taken from each of them first (Mu and Viswanath, 2018), for the search alone. ``advance`` is called with the
    number of rows that were indexed or looked up, each twice in all.
    """
    from usearch.index import Index

    mean, axes, by_chance = _principal_axes(vectors, rows)
    # Of 15,000 sentences it finds .990 of the nearest eight (.999 with 64 and 48, in twice the time), and all that are near.
    settings: Any = {"expansion_add": 32, "expansion_search": 32, "enable_key_lookups": False}
    index = Index(ndim=axes.shape[1], metric="cos", dtype="f16", **settings)
    for here, block in _blocks(vectors, rows, mean, axes):
        # One thread: the graph, and with it what is found, is the same each time.
        index.add(np.arange(here.start, here.stop), block, threads=1)
        advance(len(block))
    count = min(NEIGHBOURS + 1, len(rows))
    keys = np.empty((len(rows), count), dtype=np.int32)
    cosines = np.empty((len(rows), count), dtype=np.float32)
    for here, block in _blocks(vectors, rows, mean, axes):
        found = index.search(block, count, threads=1)
        keys[here] = np.asarray(found.keys).reshape(len(block), -1)
        cosines[here] = 1 - np.asarray(found.distances, dtype=np.float32).reshape(len(block), -1)
        advance(len(block))
    pairs = _nearest(keys, cosines, most)
    cosine, centred = _cosines(vectors, rows[pairs], mean)
    order = np.argsort(-centred, kind="stable")
    return Neighbours(pairs[order], centred[order], cosine[order], mean, by_chance)


def _nearest(keys: NDArray[np.int32], cosines: NDArray[np.float32], most: int) -> NDArray[np.int64]:
    """The nearest pairs (P, 2) of different rows, each once, the smaller first, from the neighbours of each row (n, k)."""
    own = np.arange(len(keys))[:, None]
    places = np.flatnonzero((keys != own) & (keys >= 0) & (keys < len(keys)))
    if len(places) > 2 * most:  # each pair is found at most twice
        places = places[np.argpartition(-cosines.ravel()[places], 2 * most)[: 2 * most]]
    pairs = np.sort(np.stack([places // keys.shape[1], keys.ravel()[places]], axis=1), axis=1)
    unique, first = np.unique(pairs @ [len(keys), 1], return_index=True)
    kept = np.sort(np.argsort(-cosines.ravel()[places][first], kind="stable")[:most])
    return np.stack(np.divmod(unique[kept], len(keys)), axis=1)


def _principal_axes(
    vectors: Vectors, rows: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.float32], float]:
    """Mean (D,) and leading principal axes (D, d) of a sample of the rows, and `Neighbours.by_chance` of it."""
    sample = vectors.take(rows[:: max(1, len(rows) // _SAMPLE)])
    mean = sample.mean(0)
    sample -= mean
    parts = (sample[start : start + BLOCK].astype(np.float64) for start in range(0, len(sample), BLOCK))
    values, axes = np.linalg.eigh(sum(part.T @ part for part in parts))
    kept = min(DIMENSIONS, len(values))
    return mean, axes[:, ::-1][:, :kept].astype(np.float32), _by_chance(sample)


def _by_chance(centred: NDArray[np.float32]) -> float:
    """See `Neighbours.by_chance`, of rows from which the mean is taken; they are divided by their norms in place."""
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    np.divide(centred, norms, out=centred, where=norms > 0)
    pairs = np.random.default_rng(0).integers(len(centred), size=(_DRAWN, 2))
    parts = np.array_split(pairs[pairs[:, 0] != pairs[:, 1]], _DRAWN // BLOCK)
    cosines = [(centred[part[:, 0]] * centred[part[:, 1]]).sum(1) for part in parts]
    return float(np.quantile(np.concatenate(cosines), 1 - BY_CHANCE))


def _blocks(
    vectors: Vectors, rows: NDArray[np.int64], mean: NDArray[np.float32], axes: NDArray[np.float32]
) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """Places and principal coordinates of the rows, a part at a time."""
    for number, block in enumerate(vectors.blocks(rows)):
        coordinates: NDArray[np.float32] = np.ascontiguousarray((block - mean) @ axes)
        for start in range(0, len(block), PART):
            some = coordinates[start : start + PART]
            first = number * BLOCK + start
            yield slice(first, first + len(some)), some


def _cosines(
    vectors: Vectors, pairs: NDArray[np.int64], mean: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Cosines (P,) of pairs of rows (P, 2), as they are and centred."""
    cosine, centred = np.empty((2, len(pairs)), dtype=np.float32)
    for start in range(0, len(pairs), BLOCK):
        part = pairs[start : start + BLOCK]
        one, other = (vectors.take(part[:, side]) for side in (0, 1))
        cosine[start : start + len(part)] = (one * other).sum(1)
        one, other = one - mean, other - mean
        norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        # Embeddings that are all equal have no direction left.
        centred[start : start + len(part)] = (one * other).sum(1) / np.where(norms > 0, norms, np.inf)
    return cosine, centred
