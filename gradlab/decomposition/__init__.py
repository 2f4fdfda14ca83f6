"""`decompose`: components of any loss on two views, found from its gradients alone."""

from gradlab.decomposition.decomposing import decompose
from gradlab.decomposition.result import Decomposition
from gradlab.decomposition.two_view_losses import two_views

__all__ = ["Decomposition", "decompose", "two_views"]
