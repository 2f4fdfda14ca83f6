"""Rows of the corpus that texts belong to, and pairs of rows of which a loss pushes the texts apart.

A text is known by its number, row + N * column: columns 0 and 1 are anchors and positives, the others hard negatives, which are
pushed by anchors and positives but never by each other.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

# Which kinds of texts a row has, in four bits: those of two groups, each a sentence's own or a hard negative.
_KINDS = (np.arange(16)[:, None] >> np.arange(4) & 1).astype(bool).T


def is_hard(numbers: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Which texts are hard negatives, of N = ``count`` rows."""
    return numbers >= 2 * count


def different_rows(one: NDArray[np.int64], other: NDArray[np.int64], count: int) -> tuple[int, int] | None:
    """The first two texts, in rising order, that different rows push apart; None if there are none."""
    if is_hard(one, count).all() and is_hard(other, count).all():
        return None
    pairs = itertools.product(one.tolist(), other.tolist())
    return next(((a, b) for a, b in pairs if a % count != b % count and min(a, b) < 2 * count), None)


def count_row_pairs(one: NDArray[np.int64], other: NDArray[np.int64], count: int) -> int:
    """Unordered pairs of different rows of which one has a text of ``one`` and the other a text of ``other``, not both hard."""
    if len(one) == len(other) == 1:
        return int(different_rows(one, other, count) is not None)
    sides = [side[is_hard(side, count) == hard] % count for side in (one, other) for hard in (False, True)]
    rows = np.unique(np.concatenate(sides))
    kind = np.zeros(len(rows), dtype=np.int64)
    for bit, side in enumerate(sides):
        kind[np.searchsorted(rows, side)] |= 1 << bit
    size = np.bincount(kind, minlength=16)
    mine, mine_hard, yours, yours_hard = _KINDS
    meet = np.outer(mine, yours | yours_hard) | np.outer(mine_hard, yours)
    pairs = np.outer(size, size) - np.diag(size)
    return int(pairs[meet | meet.T].sum()) // 2


def row_pairs(one: NDArray[np.int64], other: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Pairs of different rows (P, 2), the smaller first, whose own texts are of ``one`` and of ``other``."""
    sides = [np.unique(side[~is_hard(side, count)] % count) for side in (one, other)]
    pairs = np.sort(np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2), axis=1)
    return pairs[pairs[:, 0] < pairs[:, 1]]


def hard_pairs(one: NDArray[np.int64], other: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """(P, 2) rows with a text of their own in one of both, and numbers of hard negatives of other rows in the other."""
    parts = []
    for first, second in ((one, other), (other, one)):
        rows = np.unique(first[~is_hard(first, count)] % count)
        parts.append(np.stack(np.meshgrid(rows, second[is_hard(second, count)]), axis=-1).reshape(-1, 2))
    pairs = np.concatenate(parts)
    return pairs[pairs[:, 0] != pairs[:, 1] % count]
