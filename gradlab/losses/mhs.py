"""Alignment plus maximum hyperspherical separation (MHS)."""

from __future__ import annotations

import math

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, one_hot, reciprocal
from gradlab.batch.batch import Batch
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.losses.base import Preset
from gradlab.losses.mhe import UniformityLoss
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("mhs", cites="liu2021learning")
class MHS(UniformityLoss):
    """Alignment plus maximum hyperspherical separation (Liu et al. 2021; Li et al. 2024, Table 2).

    Each anchor moves away from its nearest neighbour, which is held fixed. The separation
    is a sum over anchors, not a mean. Of equally close neighbours, the first one counts.
    An anchor that equals its neighbour has no direction away from it and gets the
    weight 0, autograd's subgradient.

    The published results (preset ``"as_published"``) have neighbours in the other view
    (``neighbour_view``) and ``|h_i - h_j|²`` of at least 1e-4 (``squared_distance_floor``); at the
    floor there is no gradient.

    Liu et al. maximise the smallest distance of all pairs, so only the closest pair of the batch
    moves, with both of its sentences. This is the limit of `mhe` at small temperatures: the
    uniformity of ``mhe(nu=2λτ, temperature=τ)`` tends to ``-λ min_k<l |h_k - h_l|²`` and differs
    from it by at most ``2λτ log(N(N-1)/2)``. For λ = 1, use ``mhe(nu=0.002, temperature=0.001)``.
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
    formula = "1/N Σ_i |h_i - h_i'|² - ν Σ_i min_j≠i |h_i - sg(h_j)|"
    presets = {
        "as_published": Preset(
            {"neighbour_view": "other", "squared_distance_floor": 1e-4},
            "results of Li et al. (2024)",
        )
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self._fix(negative_view=self.neighbour_view)

    def uniformity(self, batch: Batch) -> Float[Array, ""]:
        """Return minus the sum of the distances to the nearest neighbours, a scalar."""
        distance = floored_distance(self._neighbours(batch).hardest, self.squared_distance_floor)
        return -array_namespace(distance).sum(distance)

    def uniformity_weight(self, batch: Batch) -> Float[Array, "n k"]:
        """Return ``1/|h_i - h_j|`` at the nearest neighbour; 0 elsewhere and below the floor."""
        neighbours = self._neighbours(batch)
        slope = reciprocal(neighbours.hardest.chord, above=math.sqrt(self.squared_distance_floor))
        return one_hot(neighbours.hardest_index, neighbours.cosine.shape[-1], slope)

    def _neighbours(self, batch: Batch) -> Negatives:
        if self.neighbour_view == "other":
            return batch.with_fixed_positives().other_view
        return batch.same_view_fixed


def floored_distance(neighbour: PairSimilarity, floor: float) -> Float[Array, "n"]:
    """Return ``max(|h_i - h_q|², floor)^½``, (n,), without gradient below the floor."""
    least, chord = math.sqrt(floor), neighbour.chord
    xp = array_namespace(chord)
    return xp.where(chord > least, chord, xp.full_like(chord, least))
