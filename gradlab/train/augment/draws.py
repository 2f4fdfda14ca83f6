"""How many places of a sentence an augmentation changes, and which (ESimCSE, Eqs. 4 and 5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def largest_count(length: int, rate: float) -> int:
    """``min(N, max(2, int(rate * N)))``: the most places that are changed among ``length``."""
    return min(length, max(2, int(rate * length)))


def draw_places(length: int, rate: float, generator: np.random.Generator) -> NDArray[np.int64]:
    """Distinct places among ``length``, ascending; their number is drawn first.

    The number is uniform on the integers from 0 to ``max(2, int(rate * N))``, at most N (a draw beyond N becomes
    N); the places are uniform.
    """
    count = min(length, int(generator.integers(0, max(2, int(rate * length)), endpoint=True)))
    return np.sort(generator.choice(length, size=count, replace=False))
