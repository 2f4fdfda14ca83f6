"""What queues, momentum branches and second views do: the analyses of MoCoSE and ESimCSE.

>>> from gradlab.papers.analyses import traceable_distance
>>> round(traceable_distance(momentum=0.85, queue_size=512, batch_size=64), 2)
14.67
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradlab.papers.analyses.distance import (
        branch_distance,
        branch_distances,
        measured_distances,
        traceable_distance,
    )
    from gradlab.papers.analyses.edits import edited_similarities
    from gradlab.papers.analyses.length import LengthBias, length_bias
    from gradlab.papers.analyses.negatives import by_age, by_size
    from gradlab.papers.analyses.singular import spectrum

__all__ = [
    "LengthBias",
    "branch_distance",
    "branch_distances",
    "by_age",
    "by_size",
    "edited_similarities",
    "length_bias",
    "measured_distances",
    "spectrum",
    "traceable_distance",
]

_HOMES = {
    "LengthBias": "length",
    "branch_distance": "distance",
    "branch_distances": "distance",
    "by_age": "negatives",
    "by_size": "negatives",
    "edited_similarities": "edits",
    "length_bias": "length",
    "measured_distances": "distance",
    "spectrum": "singular",
    "traceable_distance": "distance",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
