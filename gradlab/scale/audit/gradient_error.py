"""How far are the gradients on several processes from those on one?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradlab.scale.audit.cases import Case


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


def relative(array: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference over the largest expected entry; inf if only that one is 0."""
    scale, difference = float(abs(expected).max()), float(abs(array - expected).max())
    return difference / scale if scale else float("inf") if difference else 0.0
