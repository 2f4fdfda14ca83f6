"""Decoupled contrastive loss (Yeh et al. 2022)."""

from __future__ import annotations

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.losses.exact_gates import ConstantGate
from gradlab.losses.pair_loss import SoftmaxLoss
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("dcl", cites="yeh2022decoupled")
class DCL(SoftmaxLoss):
    """Decoupled contrastive loss (Yeh et al. 2022, Eq. 6): no positive in InfoNCE's denominator.

    The dissipation is always 1: an anchor is pulled and pushed with the same force, however close
    its positive is. The value is not bounded from below. The published loss has both directions,
    ``symmetric(dcl)``, and the negatives of both views in one denominator.
    """

    temperature: float = setting(0.1, "softmax temperature τ", rule="positive")

    settings_source = (
        "Temperature: the default of lightly's DCLLoss and of a public reimplementation; "
        "the paper was not at hand."
    )
    formula = "-cos θ_ii'/τ + log Σ_k≠i exp(cos θ_ik'/τ)"

    def value(self, positive: PairSimilarity, negatives: Negatives) -> Float[Array, "*n"]:
        """Return ``LSE_i - p_i/τ``."""
        return self.summary(negatives) - positive.cosine / self.temperature

    def dissipation(
        self, positive: PairSimilarity, summary: Float[Array, "*#n"]
    ) -> Float[Array, "*n"]:
        return array_namespace(summary).ones_like(positive.chord + summary)

    def exact_gate(self) -> ConstantGate:
        return ConstantGate()
