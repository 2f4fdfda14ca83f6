"""Embeddings in memory or on disk, read in blocks, and nearest neighbours in bounded memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gradlab.errors import GradlabError
from gradlab.inspection.equal_texts import Groups
from gradlab.inspection.neighbours import nearest_neighbours
from gradlab.inspection.workspace import Workspace
from gradlab.progress_bars import progress_bar

BLOCK = 8192
# Principal coordinates that are searched, in half precision: a bound on memory for any encoder.
DIMENSIONS = 128
NEIGHBOURS = 8
# Share of random pairs that are closer than pairs that count as near.
BY_CHANCE = 1e-4
_SAMPLE, _DRAWN = 20_000, 200_000
# Largest norm of the difference of equal unit rows in float32; one this short has no direction.
ROUNDING = 2**-20
# Decimals in which unit rows of copies agree; rounding and the length that a row had change later
# ones. Copies on both sides of a border between two roundings are each other's neighbours.
DIGITS = 5


@dataclass(frozen=True)
class Vectors:
    """Embeddings in arrays (N, D) or mapped files; row i of array p has the number ``i + N p``."""

    arrays: Sequence[NDArray[Any]]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of embeddings in all arrays, and D."""
        return sum(map(len, self.arrays)), self.arrays[0].shape[1]

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return some rows, divided by their norms, (n, D).

        Raises:
            GradlabError: rows that are zero or not finite.
        """
        order = np.argsort(rows, kind="stable")  # reads a file from the beginning to the end
        array, row = np.divmod(rows[order], len(self.arrays[0]))
        selected_rows = np.empty((len(rows), self.shape[1]), dtype=np.float32)
        for number in np.unique(array):
            selected_rows[order[array == number]] = self.arrays[number][row[array == number]]
        norms = np.linalg.norm(selected_rows, axis=1, keepdims=True)
        bad = np.flatnonzero(~(np.isfinite(norms[:, 0]) & (norms[:, 0] > 0)))
        if len(bad):
            raise GradlabError(
                f"embedding {int(rows[bad[0]])} is zero or not finite; "
                "it has no direction to compare"
            )
        return selected_rows / norms

    def copies(self) -> Groups:
        """Return groups of normalised embeddings that are equal to `DIGITS` digits."""
        hashes = np.empty(self.shape[0], dtype=np.int64)
        for span, block in self.blocks(np.arange(len(hashes))):
            rounded = block.round(DIGITS) + 0.0  # + 0.0 removes the sign of zeros
            hashes[span] = [hash(row.tobytes()) for row in rounded]
        return Groups.of(hashes)

    def all_alike(self) -> bool:
        """Return whether all embeddings have the same direction, up to rounding."""
        first = self.take(np.zeros(1, dtype=np.int64))
        blocks = self.blocks(np.arange(self.shape[0]))
        return all((np.linalg.norm(block - first, axis=1) <= ROUNDING).all() for _, block in blocks)

    def sha256(self) -> str:
        """Return a hash of all numbers."""
        digest = hashlib.sha256(str(self.shape).encode())
        for array in self.arrays:
            for start in range(0, len(array), BLOCK):
                block = np.ascontiguousarray(array[start : start + BLOCK])
                digest.update(block.dtype.str.encode())
                digest.update(block.view(np.uint8).data)
        return digest.hexdigest()

    def blocks(self, rows: NDArray[np.int64]) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """Yield the given rows block by block: a slice into ``rows``, and the embeddings."""
        for start in range(0, len(rows), BLOCK):
            block = self.take(rows[start : start + BLOCK])
            yield slice(start, start + len(block)), block


def given_arrays(embeddings: Any) -> Vectors:
    """Return given embeddings as `Vectors`.

    They are an array, or a mapping with ``anchors``, ``positives`` and ``hard_negatives``.

    Raises:
        GradlabError: other names, or arrays not of floating point and one shape (N, D) with N > 1.
    """
    columns_by_name = embeddings if isinstance(embeddings, Mapping) else {"anchors": embeddings}
    anchors, positives, hard = map(columns_by_name.get, ("anchors", "positives", "hard_negatives"))
    unknown = set(columns_by_name) - {"anchors", "positives", "hard_negatives"}
    if anchors is None or unknown or (hard is not None and positives is None):
        raise GradlabError(
            f"embeddings hold {', '.join(sorted(columns_by_name)) or 'nothing'}; they need "
            "anchors, and may have positives and, beside these, hard_negatives"
        )
    columns = [anchors, positives, *(hard if isinstance(hard, list) else [hard])]
    arrays = [
        rows.detach().cpu().float().numpy() if hasattr(rows, "detach") else np.asarray(rows)
        for rows in columns
        if rows is not None
    ]
    shape = arrays[0].shape
    one_form = all(rows.dtype.kind == "f" and rows.shape == shape for rows in arrays)
    if not one_form or len(shape) != 2 or shape[0] < 2 or not shape[1]:
        shapes = ", ".join(f"{rows.dtype} {rows.shape}" for rows in arrays)
        raise GradlabError(
            "embeddings must be arrays of floating point numbers, all of one shape (sentences, "
            f"dimensions) with at least two sentences, not {shapes}"
        )
    return Vectors(arrays)


def nearest_pairs(
    vectors: Vectors,
    rows: NDArray[np.int64],
    most: int,
    progress: bool = False,
    work: Workspace | None = None,
) -> tuple[pd.DataFrame, NDArray[np.float32], float]:
    """Return the nearest pairs among some rows, found among the 8 nearest neighbours of each row.

    The search subtracts the mean of the embeddings, because untuned encoders give any two sentences
    nearly the same large cosine (Mu and Viswanath, 2018). A search in a workspace goes on after a
    stop.

    Returns:
        the pairs, closest first: ``first`` and ``second``, places among the rows, the smaller
        first; ``cosine``; and ``centred``, the cosine after subtraction of the mean. Then the mean
        of the normalised embeddings, (D,), and the centred cosine that one in 10,000 random pairs
        of rows exceeds.
    """
    mean, axes, by_chance = _principal_axes(vectors, rows)
    projected = np.empty((len(rows), axes.shape[1]), dtype=np.float16)
    blocks = progress_bar(
        vectors.blocks(rows), progress, desc="Reading embeddings", total=-(-len(rows) // BLOCK)
    )
    for span, block in blocks:
        coordinates = (block - mean) @ axes
        norms = np.linalg.norm(coordinates, axis=1, keepdims=True)
        projected[span] = coordinates / np.where(norms > ROUNDING, norms, np.inf)
    count = min(NEIGHBOURS + 1, len(rows))
    keys, cosines = nearest_neighbours(projected, count, progress, work)
    pairs = _nearest(keys, cosines, most)
    neighbours = pd.DataFrame(pairs, columns=["first", "second"])
    neighbours["cosine"], neighbours["centred"] = cosines_of(vectors, rows[pairs], mean)
    neighbours = neighbours.sort_values(
        "centred", ascending=False, kind="stable", ignore_index=True
    )
    return neighbours, mean, by_chance


def cosines_of(
    vectors: Vectors, pairs: NDArray[np.int64], mean: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the cosines (P,) of pairs of rows (P, 2), plain and centred."""
    cosine, centred = np.empty((2, len(pairs)), dtype=np.float32)
    for start in range(0, len(pairs), BLOCK):
        span = slice(start, start + BLOCK)
        first_rows, second_rows = (vectors.take(pairs[span, side]) for side in (0, 1))
        cosine[span] = (first_rows * second_rows).sum(1)
        first_rows, second_rows = first_rows - mean, second_rows - mean
        norms = [np.linalg.norm(rows, axis=1) for rows in (first_rows, second_rows)]
        # Equal embeddings have no direction once the mean is subtracted.
        directed = np.minimum(*norms) > ROUNDING
        centred[span] = (first_rows * second_rows).sum(1) / np.where(
            directed, norms[0] * norms[1], np.inf
        )
    return cosine, centred


def _nearest(keys: NDArray[np.int32], cosines: NDArray[np.float32], most: int) -> NDArray[np.int64]:
    """Return the nearest pairs (P, 2) of different rows, once each, from neighbours (n, k)."""
    own = np.arange(len(keys))[:, None]
    places = np.flatnonzero((keys != own) & (keys >= 0) & (keys < len(keys)))
    if len(places) > 2 * most:  # each pair is found at most twice
        places = places[np.argpartition(-cosines.ravel()[places], 2 * most)[: 2 * most]]
    pairs = np.sort(np.stack([places // keys.shape[1], keys.ravel()[places]], axis=1), axis=1)
    unique, first = np.unique(pairs @ [len(keys), 1], return_index=True)
    nearest = np.sort(np.argsort(-cosines.ravel()[places][first], kind="stable")[:most])
    return np.stack(np.divmod(unique[nearest], len(keys)), axis=1)


def _principal_axes(
    vectors: Vectors, rows: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.float32], float]:
    """Return mean (D,), leading principal axes (D, d), and the centred cosine of chance."""
    sample = vectors.take(rows[:: max(1, len(rows) // _SAMPLE)])
    mean = sample.mean(0, dtype=np.float64).astype(np.float32)
    sample -= mean
    blocks = (
        sample[start : start + BLOCK].astype(np.float64) for start in range(0, len(sample), BLOCK)
    )
    values, axes = np.linalg.eigh(sum(block.T @ block for block in blocks))
    dimensions = min(DIMENSIONS, len(values))
    norms = np.linalg.norm(sample, axis=1, keepdims=True)
    sample /= np.where(norms > ROUNDING, norms, np.inf)
    pairs = np.random.default_rng(0).integers(len(sample), size=(_DRAWN, 2))
    pair_blocks = np.array_split(pairs[pairs[:, 0] != pairs[:, 1]], _DRAWN // BLOCK)
    cosines = [(sample[block[:, 0]] * sample[block[:, 1]]).sum(1) for block in pair_blocks]
    by_chance = float(np.quantile(np.concatenate(cosines), 1 - BY_CHANCE))
    return mean, axes[:, ::-1][:, :dimensions].astype(np.float32), by_chance
