"""MPT, the triplet loss on inner products."""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Float
from gradlab.batch.similarity import PairSimilarity
from gradlab.losses.gates import HardGate
from gradlab.losses.registry import cited, register
from gradlab.losses.triplet_family import TripletLoss
from gradlab.settings import setting


@register("mpt")
class MPT(TripletLoss):
    """Triplet loss on the inner product (Nie et al. 2023); Li et al. 2024, Eq. 3 and Table 1."""

    margin: float = setting(0.23, "margin m between cosines")

    title = "MPT"
    paper = "Nie et al. (2023)"
    bibtex = cited("nie2023inadequacy")
    formula = "max(0, max_k cos θ_ik' - cos θ_ii' + m)"
    latex = {
        "gradient_dissipation": r"\mathbb{1}\{\cos\theta_{ii'} - \max_{k\neq i}\cos\theta_{ik'} < m\}",
        "weight": r"\mathbb{1}\{j = \arg\max_{k\neq i}\cos\theta_{ik'}\}",
        "ratio": "1",
    }
    table_order = 3

    def distance(self, similarity: PairSimilarity) -> Float[Array, "*n"]:
        """``1 - cos θ``: the paper's ``-cos θ`` moved by a constant, to be accurate near θ = 0."""
        return similarity.one_minus_cosine

    def slope(self, similarity: PairSimilarity) -> Float[Array, "*n"]:
        return array_namespace(similarity.chord).ones_like(similarity.chord)

    def exact_gate(self) -> HardGate:
        """Open while the hardest cosine exceeds ``cos θ - m``: always from ``cos θ = m - 1`` on, never from ``m + 1``."""
        kinks = tuple(float(np.arccos(c)) for c in (self.margin - 1, self.margin + 1) if -1 <= c <= 1)
        return HardGate(lambda angle: np.cos(angle) - self.margin, kinks)
