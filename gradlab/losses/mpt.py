"""MPT, the triplet loss on inner products, and the base class that it shares with MET and MAT."""

from __future__ import annotations

import abc
import dataclasses

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, as_float, divide, finite, one_hot
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.losses.components import Components
from gradlab.losses.exact_gates import HardGate
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.registry import register
from gradlab.settings import setting


@dataclasses.dataclass(frozen=True)
class TripletLoss(PairLoss):
    """``L_i = max(0, d(h_i, h_i') - min_{j≠i} d(h_i, h_j') + m)``: a hinge on a distance ``d``.

    The paper misprints the minimum over j as a maximum. Of equally hard negatives, the first one
    counts. A negative with an infinite slope of the distance, such as one equal to its anchor, has
    no direction and gets the weight 0, autograd's subgradient.
    """

    margin: float = setting(0.0, "margin m, in the units of the distance")

    one_hot_weight = True

    @abc.abstractmethod
    def distance(self, similarity: PairSimilarity) -> Float[Array, "*n"]:
        """Return the distance ``d``."""

    @abc.abstractmethod
    def slope(self, similarity: PairSimilarity) -> Float[Array, "*n"]:
        """Return the slope ``-∂d/∂cos θ``."""

    def summary(self, negatives: Negatives) -> PairSimilarity:
        return negatives.hardest

    def value(self, positive: PairSimilarity, negatives: Negatives) -> Float[Array, "*n"]:
        violation = self.distance(positive) - self.distance(negatives.hardest) + self.margin
        xp = array_namespace(violation)
        return xp.where(violation > 0, violation, xp.zeros_like(violation))

    def dissipation(self, positive: PairSimilarity, summary: PairSimilarity) -> Float[Array, "*n"]:
        """Return ``1{d_neg - d_pos < m}``, as in Table 1; Appendix D reverses the sign of MET."""
        gap = self.distance(summary) - self.distance(positive)
        return as_float(gap < self.margin, gap)

    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return the slope of the distance at the hardest negative; 0 elsewhere."""
        slope = finite(self.slope(negatives.hardest))
        return one_hot(negatives.hardest_index, negatives.cosine.shape[-1], slope)

    def components(self, positive: PairSimilarity, negatives: Negatives) -> Components:
        """Compute the components; the positive weight is its slope, even at zero weights."""
        dissipation = self.dissipation(positive, self.summary(negatives))
        return Components(dissipation, self.weight(negatives), self.slope(positive))

    def ratio(self, positive: PairSimilarity, summary: PairSimilarity) -> Float[Array, "*#n"]:
        """Return the slope at the positive over the slope at the hardest negative."""
        return divide(self.slope(positive), self.slope(summary))


@register("mpt", cites="nie2023inadequacy")
class MPT(TripletLoss):
    """Triplet loss on the inner product (Nie et al. 2023); Li et al. 2024, Eq. 3 and Table 1."""

    margin: float = setting(0.23, "margin m between cosines")

    formula = "max(0, max_k cos θ_ik' - cos θ_ii' + m)"

    def distance(self, similarity: PairSimilarity) -> Float[Array, "*n"]:
        """Return ``1 - cos θ``: the paper's ``-cos θ`` plus a constant, for accuracy near θ = 0."""
        return similarity.one_minus_cosine

    def slope(self, similarity: PairSimilarity) -> Float[Array, "*n"]:
        return array_namespace(similarity.chord).ones_like(similarity.chord)

    def exact_gate(self) -> HardGate:
        """Open if the hardest cosine exceeds ``cos θ - m``."""
        kinks = tuple(
            float(np.arccos(c)) for c in (self.margin - 1, self.margin + 1) if -1 <= c <= 1
        )
        return HardGate(lambda angle: np.cos(angle) - self.margin, kinks)
