"""Which words or sub-words of a sentence does an augmentation change?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def draw_positions(length: int, rate: float, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return distinct random positions below ``length``, ascending (ESimCSE, Eqs. 4 and 5).

    Their number is drawn first: uniform on the integers from 0 to ``max(2, int(rate * length))``,
    but at most ``length``. The positions are uniform.
    """
    count = min(length, int(generator.integers(0, max(2, int(rate * length)), endpoint=True)))
    return np.sort(generator.choice(length, size=count, replace=False))
