"""How do the two sides of a loss compare? Their ratio, hubs and push, as text."""

from __future__ import annotations

from gradlab.arrays import to_numpy
from gradlab.decomposition.result import Decomposition
from gradlab.gradient.statistics import two_sided_statistics


def both_sides_text(anchors: Decomposition, positives: Decomposition) -> str:
    """Return a text on both sides of a loss: their ratio, hubs and the inequality of the push."""
    numbers = two_sided_statistics(anchors.components, positives.components)
    names = {
        "ratio_both_sides": "ratio of both sides, median",
        "hubness": "hubness (Gini, 0 is equal)",
        "hubness_largest": "largest hub, equal shares",
        "push_spread": "push on anchors (Gini)",
    }
    rows = [f"  {label:<28}{numbers[name]:>11.4g}" for name, label in names.items()]
    pushes = [float(abs(to_numpy(side.coefficients)).sum()) for side in (anchors, positives)]
    largest = max(pushes)
    words = ""
    if largest and min(pushes) < 0.98 * largest:
        weaker = "positives" if pushes[1] < pushes[0] else "anchors"
        share = f"{100 * min(pushes) / largest:.2g}% of the push on the other side"
        words = f"The sides differ: the {weaker} get {share}."
    title = f"{anchors.loss}: both sides together"
    return "\n".join([title, *filter(None, [words]), "", *rows])
