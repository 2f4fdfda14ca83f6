"""The repaired MHS of Li et al. 2024."""

from __future__ import annotations

import math

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, detach, reciprocal
from gradlab.batch.batch import Batch
from gradlab.losses.mhs import MHS, floored_distance
from gradlab.losses.modified_family import ModifiedLoss, published_presets
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("modified_mhs")
class ModifiedMHS(ModifiedLoss):
    """MHS with a gate and a constant ratio (Li et al. 2024, Eqs. 15 and 17).

    `ModifiedLoss` explains the options. The paper prints ``max_j`` in the coefficient of the
    alignment; only ``min_j`` gives its Eq. 17. As in `MHS`, the first of equally close neighbours
    counts, and an anchor that equals its neighbour has the weight 0. The published training had a
    ``squared_distance_floor`` of 1e-4.
    """

    static_ratio: float = setting(1.75, "ratio r")
    squared_distance_floor: float = setting(
        0.0, "smallest squared distance to the neighbour", rule="non-negative"
    )

    has_one_value = False
    title = "modified MHS"
    formula = "d_i (sg(r/(2 min_j≠i |h_i - h_j|)) |h_i - h_i'|² - min_j≠i |h_i - sg(h_j)|)"
    presets = published_presets(
        {"margin": 0.30, "static_ratio": 1.75},
        {"margin": 0.27, "static_ratio": 1.00},
        squared_distance_floor=1e-4,
    )

    def value(self, batch: Batch) -> Float[Array, "n"]:
        """Return the loss of each anchor, (n,); 0 if its gate is closed."""
        neighbour = batch.same_view_fixed.hardest
        slope = reciprocal(neighbour.chord, above=math.sqrt(self.squared_distance_floor))
        pull = detach(slope) * self.static_ratio * self.pulled(batch).positive.one_minus_cosine
        value = pull - floored_distance(neighbour, self.squared_distance_floor)
        return array_namespace(value).where(self.dissipation(batch) > 0, value, 0 * detach(value))

    def negative_weight(self, batch: Batch) -> Float[Array, "n k"]:
        return MHS(squared_distance_floor=self.squared_distance_floor).uniformity_weight(batch)
