"""Where a loss leads: its gradient flow on free embeddings.

Every embedding moves freely on the unit sphere, against the gradient of the whole batch. There is
no encoder. The end of a flow says what a loss asks for, not what a network can do.
"""

from gradlab.flow.flowing import flow
from gradlab.flow.result import Flow, Flows
from gradlab.flow.synthetic import SyntheticBatch, synthetic_batch
from gradlab.settings.objects import call_package

__all__ = ["Flow", "Flows", "SyntheticBatch", "flow", "synthetic_batch"]

call_package(__name__, "flow")
