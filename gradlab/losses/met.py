"""MET, the triplet loss on Euclidean distances."""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, divide
from gradlab.batch.similarity import PairSimilarity
from gradlab.losses.exact_gates import Angles, HardGate
from gradlab.losses.mpt import TripletLoss
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("met", cites="nie2023inadequacy")
class MET(TripletLoss):
    """Triplet loss on the Euclidean distance (Nie et al. 2023); Li et al. 2024, Table 1."""

    margin: float = setting(0.45, "margin m between chords")

    formula = "max(0, |h_i - h_i'| - min_k |h_i - h_k'| + m)"

    def distance(self, similarity: PairSimilarity) -> Float[Array, "*n"]:
        """Return ``|h - h'|``."""
        return similarity.chord

    def slope(self, similarity: PairSimilarity) -> Float[Array, "*n"]:
        """Return ``1/|h - h'|``."""
        chord = similarity.chord
        return divide(array_namespace(chord).ones_like(chord), chord)

    def exact_gate(self) -> HardGate:
        """Open while the smallest negative chord is below ``2 sin(θ/2) + m``; always beyond 2."""
        # sin(θ/2) where 2 sin(θ/2) + m is 2, and 0
        halves = (1 - self.margin / 2, -self.margin / 2)
        kinks = tuple(float(2 * np.arcsin(half)) for half in halves if 0 <= half <= 1)

        def threshold(angle: Angles) -> Angles:
            chord = 2 * np.sin(angle / 2) + self.margin
            # No chord is below 0 (so the gate is closed); all are below a limit beyond 2.
            return np.where(chord < 0, np.inf, 1 - chord**2 / 2)

        return HardGate(threshold, kinks)
