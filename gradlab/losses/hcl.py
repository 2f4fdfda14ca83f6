"""Contrastive loss with hard negatives (Robinson et al. 2021)."""

from __future__ import annotations

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float
from gradlab.batch.similarity import Negatives
from gradlab.losses.base import Preset
from gradlab.losses.debiased import ReweightedLoss
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("hcl", cites="robinson2021contrastive")
class HCL(ReweightedLoss):
    """InfoNCE with hard negatives upweighted (Robinson et al. 2021, Eq. 4).

    Negatives are multiplied by ``w_k = e^{βS_ik/τ}/mean_l e^{βS_il/τ}``. As in the authors' code,
    the gradient also passes through ``w_k``. This gives easy negatives a *negative* weight: the
    anchor is pulled towards them, and the shares of the weight are no longer a distribution. The
    two log-sum-exps have no exact simulation; the loss is sampled. The authors' code has the
    negatives of both views in one denominator, K = 2N - 2, and the prior of the preset.
    """

    beta: float = setting(1.0, "concentration β of the weights on hard negatives", rule="positive")

    settings_source = (
        "Temperature and β: the defaults of the authors' code (joshr17/HCL), for images; "
        "its τ⁺ = 0.1 is in the preset."
    )
    formula = (
        "-log σ(cos θ_ii'/τ - log Σ_k≠i w_k exp(cos θ_ik'/τ)), "
        "w_k = exp(β cos θ_ik'/τ)/mean_l exp(β cos θ_il'/τ)"
    )
    presets = {"released": Preset({"prior": 0.1}, "the authors' code: β = 1, τ = 0.5, τ⁺ = 0.1")}

    def log_mass(self, negatives: Negatives) -> Float[Array, "*n"]:
        """Return ``log(K Σ_k e^{(1+β)S_ik/τ}/Σ_k e^{βS_ik/τ})``."""
        hard = negatives.log_sum_exp(self.temperature / (1 + self.beta))
        even = negatives.log_sum_exp(self.temperature / self.beta)
        count = negatives.count
        return hard - even + array_namespace(count).log(count)

    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return ``((1+β) softmax_j((1+β)S_ij/τ) - β softmax_j(βS_ij/τ))/τ``; the sum is 1/τ."""
        hard = negatives.softmax(self.temperature / (1 + self.beta))
        even = negatives.softmax(self.temperature / self.beta)
        return ((1 + self.beta) * hard - self.beta * even) / self.temperature
