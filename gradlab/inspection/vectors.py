"""Embeddings of many texts on disk, read a block at a time."""

from __future__ import annotations

import contextlib
import mmap
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import GradlabError, reason
from gradlab.train.tokens import cache_folder

BLOCK = 8192
# Rows that are read from one mapping: the system maps up to 64 KB around each of them.
PIECE = 512


@dataclass(frozen=True)
class Vectors:
    """Embeddings in one or more parts of N rows, (parts N, D); row i of part p has the number ``i + N p``.

    Attributes:
        shape: N and D.
        parts: each gives an array (N, D); called anew for each block, so that no part of a mapped file stays in memory.
    """

    shape: tuple[int, int]
    parts: Sequence[Callable[[], NDArray[Any]]]

    def __len__(self) -> int:
        return self.shape[0] * len(self.parts)

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Some rows, divided by their norms, (n, D).

        Raises:
            GradlabError: rows of zeros or with values that are not finite.
        """
        order = np.argsort(rows, kind="stable")  # a file is read from the beginning to the end
        found = np.empty((len(rows), self.shape[1]), dtype=np.float32)
        for start in range(0, len(rows), PIECE):
            some = order[start : start + PIECE]
            part = rows[some] // self.shape[0]
            for number in np.unique(part):
                here = some[part == number]
                found[here] = self.parts[number]()[rows[here] % self.shape[0]]
        norms = np.linalg.norm(found, axis=1, keepdims=True)
        bad = np.flatnonzero(~(np.isfinite(norms[:, 0]) & (norms[:, 0] > 0)))
        if len(bad):
            raise GradlabError(
                f"embedding {int(rows[bad[0]])} is zero or not finite; it has no direction to compare"
            )
        return found / norms

    def blocks(self, rows: NDArray[np.int64]) -> Iterator[NDArray[np.float32]]:
        """The given rows, a block at a time."""
        for start in range(0, len(rows), BLOCK):
            yield self.take(rows[start : start + BLOCK])


def of_arrays(*arrays: NDArray[Any]) -> Vectors:
    """Arrays of one shape (N, D), in memory or in files that numpy maps: those are mapped anew for each block."""

    def opener(array: NDArray[Any]) -> Callable[[], NDArray[Any]]:
        # A part of a mapped file says of itself only where the whole begins.
        if not (isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap) and array.filename):
            return lambda: array
        path, offset, dtype, shape = array.filename, array.offset, array.dtype, array.shape
        order: Any = "F" if np.isfortran(array) else "C"
        return lambda: np.memmap(path, dtype, "r", offset, shape, order)

    return Vectors(arrays[0].shape, [opener(array) for array in arrays])  # type: ignore[arg-type]  # (N, D)


def given_arrays(embeddings: Any) -> Vectors:
    """What a caller gave: an array, or a mapping with ``anchors``, ``positives`` and ``hard_negatives``.

    Raises:
        GradlabError: other names, or arrays that are not (N, D) of floating point numbers, N at least 2, of one shape.
    """
    given = embeddings if isinstance(embeddings, Mapping) else {"anchors": embeddings}
    unknown = set(given) - {"anchors", "positives", "hard_negatives"}
    if "anchors" not in given or unknown:
        raise GradlabError(
            f"embeddings hold {', '.join(sorted(given)) or 'nothing'}; they need anchors, and may have positives and hard_negatives"
        )
    hard = given.get("hard_negatives")
    if hard is not None and given.get("positives") is None:
        raise GradlabError("hard_negatives need positives beside the anchors")
    hard = hard if isinstance(hard, list) else [hard]
    named = {"embeddings": given["anchors"], "positives": given.get("positives")}
    named |= {f"hard negatives {place}": rows for place, rows in enumerate(hard, start=1)}
    arrays = {name: _checked(name, rows) for name, rows in named.items() if rows is not None}
    shape = arrays["embeddings"].shape
    for name, rows in arrays.items():
        if rows.shape != shape:
            raise GradlabError(
                f"{name} have shape {rows.shape} and the embeddings of the sentences {shape}; both need one shape"
            )
    if shape[0] < 2:
        raise GradlabError(f"there is {shape[0] or 'no'} embedding to inspect; a pair takes at least two")
    return of_arrays(*arrays.values())


def _checked(name: str, rows: Any) -> NDArray[Any]:
    array = rows.detach().cpu().float().numpy() if hasattr(rows, "detach") else np.asanyarray(rows)
    if array.ndim != 2 or array.dtype.kind != "f" or not array.shape[1]:
        raise GradlabError(
            f"{name} must be an array of floating point numbers of shape (sentences, dimensions), not {array.dtype} {array.shape}"
        )
    return array


@contextlib.contextmanager
def scratch(count: int, dimension: int) -> Iterator[tuple[Callable[[NDArray[Any]], None], Vectors]]:
    """A file of float16 rows in the cache folder that is deleted at the end of the block.

    Yields a function that appends rows (n, D), and the rows, to be read when all are there.

    Raises:
        GradlabError: if the file cannot be written (no permission, disk full).
    """
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix="inspect-") as place:
            path = Path(place) / "embeddings.float16"
            with path.open("wb") as file:

                def append(rows: NDArray[Any]) -> None:
                    rows.astype(np.float16).tofile(file)
                    file.flush()

                shape = (count, dimension)
                yield append, Vectors(shape, [lambda: np.memmap(path, np.float16, "r", 0, shape)])
    except OSError as error:
        raise GradlabError(
            f"cannot write to {str(folder)!r} ({reason(error)}); set GRADLAB_CACHE_DIR to a place with more room"
        ) from error
