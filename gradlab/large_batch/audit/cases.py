"""What an audit runs a loss on: a batch, the ways to split it over processes, and what came of each."""

from __future__ import annotations

import dataclasses

import numpy as np

# Sentences on each process, and how many fewer the last one has in an uneven batch.
ROWS, MISSING = 5, 2
# Coordinates beyond the number of vectors, so that their gradients determine the coefficient of each pair.
SPARE = 24
# Shares of each sentence's vectors: common to all, of the sentence, and of the vector alone; a guide errs more, so that it
# masks some negatives.
COMMON, SENTENCE, OWN, GUIDE_OWN = 0.75, 0.45, 0.5, 1.0


@dataclasses.dataclass(frozen=True)
class Case:
    """One way to split a batch.

    Attributes:
        name: "even", "shuffled" or "uneven".
        shares: the sentences of each process, in the order in which it has them.
    """

    name: str
    shares: tuple[tuple[int, ...], ...]

    @property
    def sentences(self) -> list[int]:
        """All of them, in the order of the processes: the batch that one process is given."""
        return [sentence for share in self.shares for sentence in share]

    @property
    def owners(self) -> np.ndarray:
        """(N,) the process that has each of `sentences`."""
        return np.repeat(np.arange(len(self.shares)), [len(share) for share in self.shares])


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a loss gave on one case.

    Attributes:
        case: the case.
        values: of each process.
        whole: of one process with all sentences.
        found: (columns, N, D), the gradient that each row receives once processes are averaged or summed.
        expected: the same from one process.
        rows: (columns, N, D), the embeddings.
        separate: (columns, N, D), the gradient if each process had computed the loss of its own sentences, as if there were
            no others; None where it was not measured.
        slopes: derivatives along one direction: of the processes' values, by differences; of one process's value,
            by differences and by its gradient. None where they were not measured.
        parameters: name -> (gradient received, gradient of one process), of the loss's own parameters.
    """

    case: Case
    values: tuple[float, ...]
    whole: float
    found: np.ndarray
    expected: np.ndarray
    rows: np.ndarray
    separate: np.ndarray | None = None
    slopes: tuple[float, float, float] | None = None
    parameters: dict[str, tuple[np.ndarray, np.ndarray]] = dataclasses.field(default_factory=dict)

    @property
    def error(self) -> float:
        """Largest difference relative to the largest entry."""
        return relative(self.found, self.expected)


def cases(processes: int) -> list[Case]:
    """Even shares, the same in another order, and shares of which the last is smaller."""
    count = processes * ROWS
    order = np.random.default_rng(1).permutation(count)

    def split(sentences: list[int]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(sentences[p * ROWS : (p + 1) * ROWS]) for p in range(processes))

    return [
        Case("even", split(list(range(count)))),
        Case("shuffled", split([int(sentence) for sentence in order])),
        Case("uneven", split(list(range(count - MISSING)))),
    ]


def material(processes: int, columns: int, seed: int) -> dict[str, np.ndarray]:
    """What a loss is run on.

    Returns:
        ``rows``, the embeddings, ``along``, the direction of the slopes, and ``guide``, the embeddings of a guide, (columns, N, D)
        each; ``scores`` of the sentences, (N,), for losses that take scores as labels.
    """
    return {
        "rows": draw(processes, columns, seed),
        "along": draw(processes, columns, seed + 1),
        "guide": draw(processes, columns, seed + 2, GUIDE_OWN),
        "scores": np.random.default_rng(seed + 3).random(processes * ROWS),
    }


def draw(processes: int, columns: int, seed: int, own: float = OWN) -> np.ndarray:
    """Unit rows (columns, N, D): a cone in which sentences are near each other, and a sentence's columns nearer.

    So near that the gates of margin losses are open and no negative is too far to be seen.
    """
    count = processes * ROWS
    dimensions = columns * count + SPARE
    generator = np.random.default_rng(seed)

    def unit(*shape: int) -> np.ndarray:
        rows = generator.standard_normal((*shape, dimensions))
        return rows / np.linalg.norm(rows, axis=-1, keepdims=True)

    rows = COMMON * unit(1, 1) + SENTENCE * unit(1, count) + own * unit(columns, count)
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


def relative(found: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference relative to the largest expected entry; infinite where nothing but 0 is expected and found otherwise."""
    scale, difference = float(abs(expected).max()), float(abs(found - expected).max())
    return difference / scale if scale else float("inf") if difference else 0.0
