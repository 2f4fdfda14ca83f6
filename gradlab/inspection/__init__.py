"""Which pairs of sentences carry the gradient of a loss, and which of them are likely false negatives."""

from gradlab.inspection.corpus import inspect
from gradlab.inspection.result import Inspection
from gradlab.inspection.texts import Texts

__all__ = ["Inspection", "Texts", "inspect"]
