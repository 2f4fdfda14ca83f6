"""CosFace (Wang et al. 2018)."""

from __future__ import annotations

from gradlab.arrays import Array, Float
from gradlab.batch.similarity import PairSimilarity
from gradlab.losses.base import Preset
from gradlab.losses.pair_loss import SoftmaxLoss
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("cosface", cites="wang2018cosface")
class CosFace(SoftmaxLoss):
    """InfoNCE with a margin between cosines (Wang et al. 2018, Eq. 4, other sentences as classes).

    The margin only moves the gate: it is InfoNCE with the positive's cosine reduced by m. The
    additive margin softmax (Wang et al. 2018, AM-Softmax) has the same form.
    """

    margin: float = setting(0.1, "margin m subtracted from the positive's cosine")

    settings_source = (
        "The defaults are not published ones; the preset has the margin and scale "
        "(0.35, 64) of pytorch-metric-learning's CosFaceLoss, which are for faces."
    )
    formula = "-log σ((cos θ_ii' - m)/τ - log Σ_k≠i exp(cos θ_ik'/τ))"
    presets = {
        "face": Preset(
            {"temperature": 1 / 64, "margin": 0.35}, "Wang et al. (2018), face recognition"
        )
    }

    def positive_logit(self, positive: PairSimilarity) -> Float[Array, "*n"]:
        """Return ``(cos θ - m)/τ``."""
        return (positive.cosine - self.margin) / self.temperature
