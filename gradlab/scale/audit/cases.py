"""The batches on which an audit runs a loss, and the results on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

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


class Outcome:
    """Gradients of one batch on P processes and on one process.

    A slope (q, c) is the derivative along ``along``, restricted to process q's rows in column c.

    Attributes:
        case: how the batch was spread.
        averaged: whether gradients are averaged over processes or summed.
        values: the loss on each process.
        whole: the loss of the whole batch on one process.
        rows, along: the embeddings and a direction, (columns, N, D).
        contributions: gradients of each process's loss, (P, columns, N, D).
        computed: gradients of the rows, averaged or summed over processes, (columns, N, D).
        expected: gradients on one process, (columns, N, D).
        separate: value of ``computed`` if each process uses only its own sentences.
        slopes: slopes of the loss on each process p by finite differences, (p, q, c).
        expected_slopes: slopes of the loss on one process by finite differences, (q, c).
        parameters: computed and expected gradients of the loss's own parameters, by name.
    """

    def __init__(
        self,
        case: Case,
        job: Mapping[str, Any],
        shares: list[dict[str, Any]],
        alone: dict[str, Any],
        averaged: bool,
    ) -> None:
        """Combine results of `gradlab.scale.audit.worker.measure` on P processes and on one."""
        scale = len(shares) if averaged else 1
        self.case, self.averaged, self.whole = case, averaged, float(alone["value"])
        self.values = [float(share["value"]) for share in shares]
        self.rows, self.along = (job[name][:, case.sentences] for name in ("rows", "along"))
        self.contributions = np.concatenate([share["contributions"] for share in shares], axis=2)
        self.computed = np.concatenate([share["gradient"] for share in shares], axis=1) / scale
        self.expected, self.separate = alone["gradient"], alone["separate"] / scale
        self.slopes = np.stack([share["slopes"] for share in shares])
        self.expected_slopes = alone["slopes"]
        self.parameters = {
            name: (
                np.sum([share["parameters"][name] for share in shares], axis=0) / scale,
                expected,
            )
            for name, expected in alone["parameters"].items()
        }

    @property
    def mean_value(self) -> float:
        """Loss averaged over processes."""
        return sum(self.values) / len(self.values)

    @property
    def error(self) -> float:
        """Largest difference of gradients, relative to the largest expected entry."""
        return relative(self.computed, self.expected)

    def slopes_of(self, gradient: np.ndarray) -> np.ndarray:
        """Return the slopes, (..., q, c), of a gradient (..., columns, N, D)."""
        of_rows = (gradient * self.along).sum(-1)
        owners = self.case.owners
        return np.stack(
            [of_rows[..., owners == q].sum(-1) for q in range(len(self.case.shares))], axis=-2
        )


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


def relative(array: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference over the largest expected entry; inf if only that one is 0."""
    scale, difference = float(abs(expected).max()), float(abs(array - expected).max())
    return difference / scale if scale else float("inf") if difference else 0.0
