"""Which rows of its batches does a loss have a gradient for?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

# Numbers of the records: share of the places in a batch whose rows had no gradient in any record so
# far, and share of these records in which the other places had one; share of the rows whose
# positive is not the nearest, and shares of these rows and of the others that have no gradient.
IDLE_PLACES, BUSY_PLACES = "idle_places", "busy_places"
WRONG_ROWS, WRONG_IDLE, RIGHT_IDLE = "wrong_rows", "wrong_rows_idle", "right_rows_idle"
ROW_NUMBERS = (IDLE_PLACES, BUSY_PLACES, WRONG_ROWS, WRONG_IDLE, RIGHT_IDLE)
# Gradient of a row that is none, relative to the largest of its batch: of the same row in every
# record, and of rows in one. Rows that are compared.
NONE, HARDLY, MOST_ROWS = 1e-6, 0.01, 256


class RowGradients:
    """Follows the rows without gradient over the recorded batches of a loop."""

    def __init__(self) -> None:
        self._counts: dict[int, Tensor] = {}  # records with a gradient by view and place
        self._records = 0

    def of(self, slopes: Mapping[int, Tensor], views: Sequence[Tensor]) -> dict[str, float]:
        """Return the numbers of a batch; none where it has no gradient at all.

        Args:
            slopes: gradient of the loss at the views that have one, (N, D) each, by their index.
            views: all views, (N, D) each.
        """
        norms = {at: slope.detach().double().norm(dim=-1) for at, slope in slopes.items()}
        sizes = {at: size for at, size in norms.items() if size.ndim == 1 and bool(size.any())}
        if not sizes:
            return {}
        self._records += 1
        idle, busy = max(self._places(at, size) for at, size in sizes.items())
        numbers = {IDLE_PLACES: idle, BUSY_PLACES: busy} if idle > 0 else {}
        if len(views) == 2 and 0 in sizes and views[0].shape == views[1].shape:
            numbers |= _by_rank(sizes[0], views)
        return numbers

    def _places(self, at: int, size: Tensor) -> tuple[float, float]:
        busy = (size > NONE * size.max()).cpu().double()
        count = self._counts.get(at, torch.zeros_like(busy))
        most = min(len(count), len(busy))
        self._counts[at] = count = count[:most] + busy[:most]
        is_busy = count > 0
        shares = count[is_busy] / self._records
        return float((~is_busy).double().mean()), float(shares.mean()) if len(shares) else 0.0


def _by_rank(size: Tensor, views: Sequence[Tensor]) -> dict[str, float]:
    """Return the shares of rows without gradient, by whether their positive is the nearest."""
    first, second = (F.normalize(view.detach()[:MOST_ROWS].double(), dim=1) for view in views)
    cosines = first @ second.T
    wrong = cosines.diagonal() < cosines.max(1).values
    idle = (size[:MOST_ROWS] <= HARDLY * size.max()).double()
    if not bool(wrong.any()) or bool(wrong.all()):
        return {}
    return {
        WRONG_ROWS: float(wrong.double().mean()),
        WRONG_IDLE: float(idle[wrong].mean()),
        RIGHT_IDLE: float(idle[~wrong].mean()),
    }
