"""Circle loss (Sun et al. 2020)."""

from __future__ import annotations

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, detach
from gradlab.batch.similarity import PairSimilarity
from gradlab.losses.base import Preset
from gradlab.losses.link_loss import LinkLoss
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("circle", cites="sun2020circle")
class Circle(LinkLoss):
    """Circle loss (Sun et al. 2020, Eq. 6): cosines farther from their optimum have larger factors.

    The factors ``α_p = [1 + m - p]₊`` and ``α_n = [s + m]₊`` are held fixed, so ``γ α`` is the
    slope of a logit. Dissipation and weight are still those of a softmax. The ratio, ``α_p`` over
    the softmax mean of ``α_n``, is large while the positive is far, and infinite (pull only) if all
    cosines are below -m.
    """

    scale: float = setting(80.0, "scale γ of the logits", rule="positive")
    margin: float = setting(0.4, "relaxation m")

    settings_source = (
        "Both: the defaults of pytorch-metric-learning's CircleLoss, "
        "whose documentation gives those of the presets as the paper's."
    )
    formula = (
        "-log σ(γ α_p (cos θ_ii' - 1 + m) - log Σ_k≠i exp(γ α_k (cos θ_ik' - m))), "
        "α_p = sg([1 + m - cos θ_ii']+), α_k = sg([cos θ_ik' + m]+)"
    )
    presets = {
        "face": Preset({"scale": 256.0, "margin": 0.25}, "Sun et al. (2020), face recognition"),
        "retrieval": Preset(
            {"scale": 80.0, "margin": 0.4}, "Sun et al. (2020), fine-grained retrieval"
        ),
    }

    def link(self, cosine: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Return ``γ α_n (s - m)``, with α_n held fixed."""
        return detach(self.slope(cosine)) * (cosine - self.margin)

    def slope(self, cosine: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Return ``γ α_n``."""
        return self.scale * _positive_part(cosine + self.margin)

    def positive_logit(self, positive: PairSimilarity) -> Float[Array, "*n"]:
        """Return ``γ α_p (p - 1 + m)``, with α_p held fixed."""
        return detach(self.positive_slope(positive)) * (self.margin - positive.one_minus_cosine)

    def positive_slope(self, positive: PairSimilarity) -> Float[Array, "*n"]:
        """Return ``γ α_p``."""
        return self.scale * _positive_part(positive.one_minus_cosine + self.margin)


def _positive_part(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    xp = array_namespace(x)
    return xp.where(x > 0, x, xp.zeros_like(x))
