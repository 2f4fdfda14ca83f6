"""ArcCon (Zhang et al. 2022)."""

from __future__ import annotations

import math

from gradlab.arrays import Array, Float, divide
from gradlab.batch.similarity import PairSimilarity
from gradlab.losses.pair_loss import SoftmaxLoss
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("arccon", cites="zhang2022contrastive")
class ArcCon(SoftmaxLoss):
    """InfoNCE with an angular margin on the positive (Zhang et al. 2022; Li et al. 2024, Eq. 2)."""

    margin: float = setting(
        math.radians(10), "angle u added to the positive's", rule="angle", unit="radians"
    )

    formula = "-log σ(cos(θ_ii' + u)/τ - log Σ_k≠i exp(cos θ_ik'/τ))"

    def positive_logit(self, positive: PairSimilarity) -> Float[Array, "*n"]:
        # By the addition theorem, which avoids the inverse cosine near 0 and π.
        return positive.cosine_beyond(self.margin) / self.temperature

    def ratio(self, positive: PairSimilarity, summary: Float[Array, "*#n"]) -> Float[Array, "*#n"]:
        """Return ``sin(θ + u)/sin θ``: infinite at 0, below 1 for θ > (π - u)/2, < 0 from π - u."""
        u = self.margin
        return math.cos(u) + math.sin(u) * divide(positive.cosine, positive.sine)
