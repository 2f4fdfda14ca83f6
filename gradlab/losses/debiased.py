"""Debiased contrastive loss."""

from __future__ import annotations

from gradlab.arrays import Array, Float
from gradlab.batch.similarity import Negatives
from gradlab.losses.registry import cited, register
from gradlab.losses.reweighted_family import ReweightedLoss
from gradlab.settings import setting


@register("debiased")
class Debiased(ReweightedLoss):
    """Debiased contrastive loss (Chuang et al. 2020, Eq. 8): InfoNCE less the mass that false negatives are expected to have.

    The more the positive dominates, the more it is believed to be among the negatives: the dissipation then rises to
    ``c = K τ⁺/(1 - τ⁺)`` instead of falling to 0, until the clamp stops the push altogether. That is not a gate
    of the exact simulator's kind, so it is sampled. The authors' code takes the negatives of both views in one
    denominator, K = 2N - 2.
    """

    prior: float = setting(0.1, "probability τ⁺ of a false negative", at_least=0, below=1)

    title = "Debiased"
    paper = "Chuang et al. (2020)"
    bibtex = cited("chuang2020debiased")
    settings_source = "Both: the defaults of the authors' code (chingyaoc/DCL), for images."
    formula = "log(1 + N exp(-cos θ_ii'/τ)), N = max((Σ_k exp(cos θ_ik'/τ) - K τ⁺ exp(cos θ_ii'/τ))/(1 - τ⁺), K exp(-1/τ))"
    latex = {
        "gradient_dissipation": r"\frac{N_g + \frac{K\tau^+}{1-\tau^+} e^{\cos\theta_{ii'}/\tau}}{N_g + e^{\cos\theta_{ii'}/\tau}}\,\mathbb{1}\{N_g > K e^{-1/\tau}\}",
        "weight": r"\frac{e^{\cos\theta_{ij'}/\tau}}{\tau\sum_{k\neq i} e^{\cos\theta_{ik'}/\tau}}",
        "ratio": "1",
    }
    table_order = 25

    def log_mass(self, negatives: Negatives) -> Float[Array, "*n"]:
        """``LSE_i``."""
        return negatives.log_sum_exp(self.temperature)

    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """``softmax_j(S_ij/τ)/τ`` over the negatives."""
        return negatives.softmax(self.temperature) / self.temperature
