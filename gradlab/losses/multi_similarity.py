"""Multi-similarity loss (Wang et al. 2019)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, divide, finite, log_sigmoid, sigmoid
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.losses.base import Preset
from gradlab.losses.exact_gates import CosineLogit, SoftGate
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("multi_similarity", cites="wang2019multi")
class MultiSimilarity(PairLoss):
    """Multi-similarity loss (Wang et al. 2019, Eq. 15), without the paper's mining of pairs.

    Pull and push have separate gates and stop independently, so the ratio is unbounded. The
    dissipation is the gate of the push, which does not depend on the positive. An anchor without
    negatives keeps its pull.
    """

    alpha: float = setting(2.0, "sharpness α of the positive's gate", rule="positive")
    beta: float = setting(50.0, "sharpness β of the negatives' gate", rule="positive")
    threshold: float = setting(0.5, "cosine λ at which both gates are half open for one pair")

    pulls_alone: ClassVar[bool] = True

    title = "Multi-similarity"
    settings_source = (
        "All three: the defaults of pytorch-metric-learning's MultiSimilarityLoss; "
        "λ is .5 in the authors' code too, and 1 in the paper by that library's documentation."
    )
    formula = "log(1 + exp(-α(cos θ_ii' - λ)))/α + log(1 + Σ_k≠i exp(β(cos θ_ik' - λ)))/β"
    presets = {
        "paper": Preset({"threshold": 1.0}, "Wang et al. (2019): λ = 1, α = 2, β = 50, with mining")
    }

    def summary(self, negatives: Negatives) -> Float[Array, "*n"]:
        """Return ``log Σ_k exp(β S_ik) - βλ``."""
        return negatives.log_sum_exp(1 / self.beta) - self.beta * self.threshold

    def value(self, positive: PairSimilarity, negatives: Negatives) -> Float[Array, "*n"]:
        """Return ``-log σ(α(p - λ))/α - log σ(-summary)/β``."""
        pulled = -log_sigmoid(self.alpha * (positive.cosine - self.threshold)) / self.alpha
        return pulled - log_sigmoid(-self.summary(negatives)) / self.beta

    def dissipation(
        self, positive: PairSimilarity, summary: Float[Array, "*#n"]
    ) -> Float[Array, "*n"]:
        """Return ``σ(summary)``, the gate of the push."""
        return sigmoid(summary) + array_namespace(summary).zeros_like(positive.chord)

    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return ``softmax_j(β S_ij)`` over the negatives."""
        return finite(negatives.softmax(1 / self.beta))

    def ratio(self, positive: PairSimilarity, summary: Float[Array, "*#n"]) -> Float[Array, "*#n"]:
        """Return ``σ(-α(p - λ))`` over the gate of the push."""
        return divide(self.pull(positive), sigmoid(summary))

    def pull(self, positive: PairSimilarity) -> Float[Array, "*n"]:
        """Return ``σ(-α(p - λ))``, the gate of the pull."""
        return sigmoid(-self.alpha * (positive.cosine - self.threshold))

    def exact_gate(self) -> SoftGate:
        fixed = self.beta * self.threshold
        return SoftGate(CosineLogit(1 / self.beta), lambda angle: np.full_like(angle, fixed))
