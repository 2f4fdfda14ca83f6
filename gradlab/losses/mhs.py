"""Alignment and maximum hyperspherical separation."""

from __future__ import annotations

import math

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, one_hot, reciprocal
from gradlab.batch.batch import Batch
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.losses.base import Preset
from gradlab.losses.mhe import UniformityLoss
from gradlab.losses.registry import cited, register
from gradlab.settings import setting


@register("mhs")
class MHS(UniformityLoss):
    """Alignment plus maximum hyperspherical separation (Liu et al. 2021; Li et al. 2024, Table 2).

    Each anchor moves away from its nearest neighbour, which is held fixed; the separation is a sum over the
    anchors, not a mean. Of equally near neighbours the first one counts. An anchor whose neighbour is
    the same vector has no direction away from it and gets the weight 0, autograd's subgradient.

    The published results measured the neighbours in the other view (``neighbour_view="other"``) and did not let
    ``|h_i - h_j|²`` fall below 1e-4 (``squared_distance_floor``; pairs below it get no gradient): the preset
    ``"as_published"``.

    Liu et al. maximise one number, the smallest distance of all pairs, so that only the nearest pair of the batch moves. That
    is the limit of `mhe` at small temperatures: ``mhe(nu=2λτ, temperature=τ)`` tends to ``-λ min_k<l |h_k - h_l|²`` and differs by at most
    ``2λτ log(N(N-1)/2)``, as ``mhe(nu=0.002, temperature=0.001)`` for λ = 1. There both of the pair move.
    """

    nu: float = setting(1.0, "factor ν of the separation", rule="positive")
    neighbour_view: str = setting(
        "same",
        "view in which an anchor's nearest neighbour is sought: same or other",
        choices=("same", "other"),
    )
    squared_distance_floor: float = setting(
        0.0, "smallest squared distance to the neighbour", rule="non-negative"
    )

    title = "Alignment + MHS"
    paper = "Liu et al. (2021)"
    bibtex = cited("liu2021learning")
    formula = "1/N Σ_i |h_i - h_i'|² - ν Σ_i min_j≠i |h_i - sg(h_j)|"
    latex = {
        "gradient_dissipation": "1",
        "weight": r"\frac{\nu\,\mathbb{1}\{j = \arg\max_{k\neq i}\cos\theta_{ik}\}}{\|h_i-h_j\|_2}",
        "ratio": r"\frac{2\|h_i-h_j\|_2}{\nu N}",
    }
    presets = {
        "as_published": Preset(
            {"neighbour_view": "other", "squared_distance_floor": 1e-4}, "results of Li et al. (2024)"
        )
    }

    @property
    def negative_view(self) -> str:  # type: ignore[override]  # of the class in other losses; here a setting decides
        return self.neighbour_view

    def uniformity(self, views: Batch) -> Float[Array, ""]:
        """Minus the sum of the distances to the nearest neighbours."""
        distance = floored_distance(self._neighbours(views).hardest, self.squared_distance_floor)
        return -array_namespace(distance).sum(distance)

    def uniformity_weight(self, views: Batch) -> Float[Array, "n k"]:
        """``1/|h_i - h_j|`` at the nearest neighbour, 0 elsewhere and where the floor holds."""
        neighbours = self._neighbours(views)
        slope = reciprocal(neighbours.hardest.chord, above=math.sqrt(self.squared_distance_floor))
        return one_hot(neighbours.hardest_index, neighbours.cosine.shape[-1], slope)

    def _neighbours(self, views: Batch) -> Negatives:
        return (
            views.with_fixed_positives().other_view
            if self.neighbour_view == "other"
            else views.same_view_fixed
        )


def floored_distance(neighbour: PairSimilarity, floor: float) -> Float[Array, "n"]:
    """``max(|h_i - h_q|², floor)^½``, without gradient where the floor holds."""
    least, chord = math.sqrt(floor), neighbour.chord
    xp = array_namespace(chord)
    return xp.where(chord > least, chord, xp.full_like(chord, least))
