"""`decompose`: components of any loss on two views, found from its gradients alone."""

from gradlab.decomposition.adapters import two_views
from gradlab.decomposition.core import decompose
from gradlab.decomposition.report import Decomposition

__all__ = ["Decomposition", "decompose", "two_views"]
