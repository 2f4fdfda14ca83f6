"""Which pairs of sentences carry the gradient of a loss, and which are likely false negatives."""

from gradlab.inspection.inspecting import find_false_negatives
from gradlab.inspection.result import Inspection
from gradlab.inspection.texts import Texts

inspect = find_false_negatives

__all__ = ["Inspection", "Texts", "find_false_negatives", "inspect"]
