"""MAT, the triplet loss on angles."""

from __future__ import annotations

import math

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, divide
from gradlab.batch.similarity import PairSimilarity
from gradlab.losses.exact_gates import Angles, HardGate
from gradlab.losses.mpt import TripletLoss
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("mat", cites="li2024towards")
class MAT(TripletLoss):
    """Triplet loss on the angle: the third dynamic ratio, only in the code of Li et al. 2024."""

    margin: float = setting(0.15 * math.pi, "margin m between angles", rule="angle", unit="radians")

    paper = "Li et al. (2024), published code"
    formula = "max(0, θ_ii' - min_k θ_ik' + m)"

    def distance(self, similarity: PairSimilarity) -> Float[Array, "*n"]:
        """Return ``θ`` in radians."""
        return similarity.angle

    def slope(self, similarity: PairSimilarity) -> Float[Array, "*n"]:
        """Return ``1/sin θ``."""
        sine = similarity.sine
        return divide(array_namespace(sine).ones_like(sine), sine)

    def exact_gate(self) -> HardGate:
        """Open while the smallest negative angle is below ``θ + m``; always once that reaches π."""

        def threshold(angle: Angles) -> Angles:
            reach = angle + self.margin
            return np.where(reach >= np.pi, -np.inf, np.where(reach < 0, np.inf, np.cos(reach)))

        kinks = tuple(k for k in (math.pi - self.margin, -self.margin) if 0 <= k <= math.pi)
        return HardGate(threshold, kinks)
