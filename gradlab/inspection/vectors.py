"""Embeddings of many texts on disk, read a block at a time."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
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
    """(N, D) embeddings.

    Attributes:
        shape: N and D.
        open: gives them as an array; called anew for each block, so that no part of a mapped file stays in memory.
    """

    shape: tuple[int, int]
    open: Callable[[], NDArray[Any]]

    def __len__(self) -> int:
        return self.shape[0]

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Some rows, divided by their norms, (n, D).

        Raises:
            GradlabError: rows of zeros or with values that are not finite.
        """
        order = np.argsort(rows, kind="stable")  # a file is read from the beginning to the end
        found = np.empty((len(rows), self.shape[1]), dtype=np.float32)
        for start in range(0, len(rows), PIECE):
            some = order[start : start + PIECE]
            found[some] = self.open()[rows[some]]
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


def of_array(array: NDArray[Any]) -> Vectors:
    """Embeddings in memory, or in a mapped file of numpy's, which is mapped anew for each block."""
    if isinstance(array, np.memmap) and array.base is not None and array.filename is not None:
        path, offset, dtype, shape = array.filename, array.offset, array.dtype, array.shape
        order: Any = "F" if np.isfortran(array) else "C"
        return Vectors(shape, lambda: np.memmap(path, dtype, "r", offset, shape, order))  # type: ignore[arg-type]  # (rows, d)
    return Vectors((array.shape[0], array.shape[1]), lambda: array)


@contextlib.contextmanager
def scratch(count: int, dimension: int) -> Iterator[tuple[Callable[[NDArray[Any]], None], Vectors]]:
    """A file of float16 rows in the cache folder that is filled in order and deleted at the end of the block.

    Yields:
        a function that appends rows (n, D), and the rows, to be read when all are there.

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
                yield append, Vectors(shape, lambda: np.memmap(path, np.float16, "r", 0, shape))
    except OSError as error:
        raise GradlabError(
            f"cannot write to {str(folder)!r} ({reason(error)}); set GRADLAB_CACHE_DIR to a place with more room"
        ) from error
