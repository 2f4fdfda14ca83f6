"""What queues, momentum branches and second views do: the analyses of MoCoSE and ESimCSE.

>>> from studies.analyses import traceable_distance
>>> round(traceable_distance(momentum=0.85, queue_size=512, batch_size=64), 2)
14.67
"""

from studies.analyses.distance import (
    branch_distance,
    branch_distances,
    measured_distances,
    traceable_distance,
)
from studies.analyses.edits import edited_similarities
from studies.analyses.length import LengthBias, length_bias
from studies.analyses.singular import spectrum

__all__ = [
    "LengthBias",
    "branch_distance",
    "branch_distances",
    "edited_similarities",
    "length_bias",
    "measured_distances",
    "spectrum",
    "traceable_distance",
]
