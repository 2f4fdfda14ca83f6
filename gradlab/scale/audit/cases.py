"""The batches on which an audit runs a loss."""

from __future__ import annotations

import dataclasses

import numpy as np

# Sentences per process, and how many the last process lacks in an uneven batch.
ROWS, MISSING = 5, 2
# Dimensions beyond the number of vectors, so that a gradient determines every pair's coefficient.
SPARE = 24
# Scales of the component that all vectors share, of that shared by a sentence's columns, and of a
# vector's own. A guide's own component is larger, so that the guide masks some negatives.
COMMON, SENTENCE, OWN, GUIDE_OWN = 0.75, 0.45, 0.5, 1.0


@dataclasses.dataclass(frozen=True)
class Case:
    """One way to spread a batch over processes.

    Attributes:
        name: "even", "shuffled" or "uneven".
        shares: the sentences of each process, in order.
    """

    name: str
    shares: tuple[tuple[int, ...], ...]

    @property
    def sentences(self) -> list[int]:
        """The sentences of all processes, in order of ranks."""
        return [sentence for share in self.shares for sentence in share]

    @property
    def owners(self) -> np.ndarray:
        """The process that holds each of the `sentences`, (N,)."""
        return np.repeat(np.arange(len(self.shares)), [len(share) for share in self.shares])


def cases(processes: int) -> list[Case]:
    """Return the cases: equal shares, equal shares of shuffled sentences, a smaller last share."""
    count = processes * ROWS
    order = np.random.default_rng(1).permutation(count).tolist()

    def split(sentences: list[int]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(sentences[p * ROWS : (p + 1) * ROWS]) for p in range(processes))

    return [
        Case("even", split(list(range(count)))),
        Case("shuffled", split(order)),
        Case("uneven", split(list(range(count - MISSING)))),
    ]


def material(processes: int, columns: int, seed: int) -> dict[str, np.ndarray]:
    """Return the inputs of a loss.

    Returns:
        ``rows``, the embeddings, ``along``, the direction of the derivatives, and ``guide``, a
        guide's embeddings, (columns, N, D) each; ``scores`` of the sentences, (N,), as labels.
    """
    return {
        "rows": draw(processes, columns, seed),
        "along": draw(processes, columns, seed + 1),
        "guide": draw(processes, columns, seed + 2, GUIDE_OWN),
        "scores": np.random.default_rng(seed + 3).random(processes * ROWS),
    }


def draw(processes: int, columns: int, seed: int, own: float = OWN) -> np.ndarray:
    """Draw unit rows (columns, N, D) in a cone so narrow that margin losses push every negative."""
    count = processes * ROWS
    dimensions = columns * count + SPARE
    generator = np.random.default_rng(seed)

    def unit(*shape: int) -> np.ndarray:
        rows = generator.standard_normal((*shape, dimensions))
        return rows / np.linalg.norm(rows, axis=-1, keepdims=True)

    rows = COMMON * unit(1, 1) + SENTENCE * unit(1, count) + own * unit(columns, count)
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))
