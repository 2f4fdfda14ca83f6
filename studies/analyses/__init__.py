"""What queues, momentum branches and second views do: the analyses of MoCoSE and ESimCSE.

>>> from studies.analyses import traceable_distance
>>> round(traceable_distance(momentum=0.85, queue_size=512, batch_size=64), 2)
14.67
"""

from studies.analyses.encoders import edited_similarities, length_bias, spectrum
from studies.analyses.runs import traceable_distance

__all__ = ["edited_similarities", "length_bias", "spectrum", "traceable_distance"]
