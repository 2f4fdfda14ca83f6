"""Signs in the batches of a loss that something is wrong with their rows; sound ones have none."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# Rows that are compared; share of rows that are nearest to themselves in the batch before, of
# farther rows than a neighbour, and of pairs below a cosine, from which on they are noted.
MOST_ROWS, SAME, NEIGHBOURS, OPPOSITE, BELOW = 64, 0.9, 0.7, 0.05, -0.5
TIMES = 2.0  # how many times as many pairs as other rows are in opposite directions
# Share of farther rows up to which the views of a row are no pairs, and by how much neighbours in
# turn are nearer than others.
NO_PAIRS, NEARER = 0.7, 0.15
# Names of the numbers that are recorded where a sign is seen.
REPEATED, ALTERNATING, OPPOSED = "repeated_rows", "alternating_rows", "opposed_pairs"
ANCHOR_DRIFT, STALE_DRIFT = "anchor_drift", "constant_drift"
WITHOUT_GRADIENT = "rows_without_gradient"
SIGNS = (REPEATED, ALTERNATING, OPPOSED, ANCHOR_DRIFT, STALE_DRIFT, WITHOUT_GRADIENT)


class BatchSigns:
    """Compares each recorded batch of one loss with those before."""

    def __init__(self) -> None:
        self._before: Tensor | None = None
        self._means: list[Tensor] | None = None

    def of(self, views: Sequence[Tensor], is_one_sided: bool = False) -> dict[str, float]:
        """Return numbers of the signs that the unit rows of two views show; none of sound ones.

        They are the share of rows that are nearest to themselves in the record before; the share of
        other rows that are farther than the neighbour of the same view in turn; the share of pairs
        in opposite directions; and, where one view has no gradient, how far the mean of each has
        moved.
        """
        numbers = {
            REPEATED: (_repeated(self._before, *views), SAME),
            ALTERNATING: (_alternating(views), NEIGHBOURS),
            OPPOSED: (_opposed(*views), OPPOSITE),
        }
        self._before = views[0]
        signs = {name: share for name, (share, least) in numbers.items() if share >= least}
        means = [view.mean(0) for view in views]
        if is_one_sided:
            self._means = self._means or means
            drift = [float((new - old).norm()) for new, old in zip(means, self._means, strict=True)]
            signs |= dict(zip((ANCHOR_DRIFT, STALE_DRIFT), drift, strict=True))
        return signs


def _opposed(rows: Tensor, partners: Tensor) -> float:
    """Return the share of pairs in opposite directions; 0 where as many other rows have them.

    Those of embeddings whose cosine is not what is trained, as below a classifier.
    """
    opposed = (rows @ partners.T < BELOW).double()
    pairs = float(opposed.diagonal().mean())
    count = len(rows)
    elsewhere = (float(opposed.sum()) - pairs * count) / max(1, count * (count - 1))
    return pairs if pairs > TIMES * elsewhere else 0.0


def _repeated(before: Tensor | None, rows: Tensor, partners: Tensor) -> float:
    """Return the share of rows that the batch before holds, in their own place or any other."""
    if before is None or before.shape != rows.shape or len(rows) < 4:
        return 0.0
    own, cosines = torch.arange(len(rows)), rows @ before.T
    nearest = cosines.argmax(1)
    in_place = float((nearest == own).double().mean())
    # The same rows in another order: each is the nearest of one other, and nearer than any partner.
    mutual = cosines.argmax(0)[nearest] == own
    close = cosines.max(1).values > (rows * partners).sum(1)
    return max(in_place, float((mutual & close).double().mean()))


def _alternating(views: Sequence[Tensor]) -> float:
    """Return the share of rows that are farther from a row than its neighbour in turn.

    Rows 0 and 1, 2 and 3 ... of one view are neighbours in turn. 0 where rows 1 and 2, 3 and 4 ...
    are as near, as in sorted data, or where the views of a row are nearer than chance.
    """
    count = len(views[0]) // 2 * 2
    if count < 8:
        return 0.0
    # Rows of one kind are compared with each other, since texts of two kinds may alternate.
    even, odd = ([view[start:count:2] for view in views] for start in (0, 1))
    if max(_rank(*even), _rank(*odd)) > NO_PAIRS:
        return 0.0
    in_turn, between = (
        sum(_rank(*view[start : start + count - 2].unflatten(0, (-1, 2)).unbind(1))
            for view in views) / 2
        for start in (0, 1)
    )  # fmt: skip
    return in_turn if in_turn - between > NEARER else 0.0


def _rank(rows: Tensor, partners: Tensor) -> float:
    """Return the mean share of partners of other rows that are farther from a row than its own."""
    cosines = rows @ partners.T
    return float((cosines < cosines.diagonal()[:, None]).double().sum(1).mean()) / (len(rows) - 1)
