"""InfoNCE (van den Oord et al. 2018)."""

from __future__ import annotations

from gradlab.losses.pair_loss import SoftmaxLoss
from gradlab.losses.registry import register


@register("infonce", cites="oord2018representation")
class InfoNCE(SoftmaxLoss):
    """InfoNCE (van den Oord et al. 2018), the loss of SimCSE; Li et al. 2024, Eq. 1 and Table 1."""

    formula = "-log σ(cos θ_ii'/τ - log Σ_k≠i exp(cos θ_ik'/τ))"
