"""What each hard negative is good for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.inspection.words import normalize

VERDICTS = ("looks like a positive", "matters", "too easy")


def verdicts(hard: NDArray[np.float64], words: Mapping[str, Any]) -> NDArray[Any]:
    """One of :data:`VERDICTS` for each hard negative.

    It looks like a positive if it is at least as similar to its anchor as the positive is, or has the words of either; it
    matters if its anchor pushes it more than the mean negative; else it is too easy.

    Args:
        hard: (n, 6), see `gradlab.inspection.push.PushTotals.hard`.
        words: ``sentence``, ``positive`` and ``hard_negative`` of each, or nothing.
    """
    kind = np.where(hard[:, 3] > 1, 1, 2)
    kind[hard[:, 4] >= hard[:, 5]] = 0
    if words:
        texts = zip(words["sentence"], words["positive"], words["hard_negative"], strict=True)
        kind[[normalize(c) in (normalize(a), normalize(b)) for a, b, c in texts]] = 0
    return np.array(VERDICTS)[kind]
