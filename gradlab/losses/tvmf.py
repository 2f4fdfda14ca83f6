"""InfoNCE with the heavy-tailed t-vMF similarity (Kobayashi 2021)."""

from __future__ import annotations

from gradlab.arrays import Array, Float
from gradlab.losses.link_loss import LinkLoss
from gradlab.losses.registry import register
from gradlab.losses.temperature import SoftmaxTemperature
from gradlab.settings import setting


@register("tvmf", cites="kobayashi2021tvmf")
class TVMF(SoftmaxTemperature, LinkLoss):
    """InfoNCE with the t-vMF similarity (Kobayashi 2021).

    The similarity is a von Mises-Fisher density with a Student tail. The link
    ``φ(s) = ((1 + s)/(1 + κ(1 - s)) - 1)/τ`` is steep near s = 1 and flat elsewhere. κ = 0 is
    InfoNCE; a larger κ acts less on distant negatives and more on close positives. The loss was
    published for a classifier. Here, the other sentences are the classes, and the defaults are
    not published ones.
    """

    concentration: float = setting(4.0, "concentration κ of the similarity", rule="non-negative")

    title = "t-vMF"
    settings_source = "The defaults are not published ones."
    formula = (
        "-log σ(φ(cos θ_ii') - log Σ_k≠i exp φ(cos θ_ik')), φ(s) = ((1 + s)/(1 + κ(1 - s)) - 1)/τ"
    )

    def link(self, cosine: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Return ``((1 + s)/(1 + κ(1 - s)) - 1)/τ``."""
        return ((1 + cosine) / (1 + self.concentration * (1 - cosine)) - 1) / self.temperature

    def slope(self, cosine: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Return ``(1 + 2κ)/(τ(1 + κ(1 - s))²)``."""
        spread = 1 + self.concentration * (1 - cosine)
        return (1 + 2 * self.concentration) / self.temperature / (spread * spread)
