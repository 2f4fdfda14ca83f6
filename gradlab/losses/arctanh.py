"""InfoNCE with logits 2 artanh(cos θ)."""

from __future__ import annotations

import dataclasses

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float
from gradlab.geometry.similarity import PairSimilarity
from gradlab.losses.registry import register
from gradlab.losses.softmax_family import LinkLoss


@register("arctanh")
@dataclasses.dataclass(frozen=True)
class Arctanh(LinkLoss):
    """Temperature-free contrastive loss (Kim and Kim 2025): the logits ``2 artanh(s) = log((1+s)/(1-s))`` span all numbers.

    At the ends the logits are infinite. A negative whose cosine is rounded to ±1 or beyond counts as if it were the nearest
    number within, with the weight 0, as such a vector has no direction away from the anchor; short of
    that, ``1 - s`` is known to the rounding of ``s``. The positive is measured by its chords; a pair that coincides has
    the value 0, an opposite one is treated as such a negative, and neither has a gradient.
    """

    title = "arctanh"
    paper = "Kim and Kim (2025), arXiv 2501.17683"
    bibtex = """
@article{kim2025temperature,
    title = {Temperature-Free Loss Function for Contrastive Learning},
    author = {Kim, Bum Jun and Kim, Sang Woo},
    journal = {arXiv preprint arXiv:2501.17683},
    year = {2025},
}
"""
    formula = "-log σ(φ(cos θ_ii') - log Σ_k exp φ(cos θ_ik')), φ(s) = 2 artanh(s)"
    latex = {
        "gradient_dissipation": r"\left(1 + \frac{\frac{1+\cos\theta_{ii'}}{1-\cos\theta_{ii'}}}{\sum_{k\neq i}\frac{1+\cos\theta_{ik'}}{1-\cos\theta_{ik'}}}\right)^{-1}",
        "weight": r"\frac{2\,(1-\cos\theta_{ij'})^{-2}}{\sum_{k\neq i}\frac{1+\cos\theta_{ik'}}{1-\cos\theta_{ik'}}}",
        "ratio": r"\frac{2}{\sin^2\theta_{ii'}\,\sum_{j\neq i} W_{ij}}",
    }
    # The rounding of a negative's cosine is a relative error of eps/(1 - s): 4e-6 at angles of 1e-5, where what is
    # tangent is 1e-5 of the whole.
    conditioning = 100.0
    exact_in = frozenset({"tangent", "raw"})
    exact_in_full = exact_in
    table_order = 29

    def link(self, cosine: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """``log(1 + s) - log(1 - s)``, of the nearest cosine within (-1, 1)."""
        xp = array_namespace(cosine)
        inside, edge = self._inside(cosine)
        s = xp.where(inside, cosine, xp.sign(cosine) * edge)
        return xp.log1p(s) - xp.log1p(-s)

    def slope(self, cosine: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """``2/(1 - s²)``; 0 where the cosine is rounded to ±1."""
        xp = array_namespace(cosine)
        inside, _ = self._inside(cosine)
        s = xp.where(inside, cosine, xp.zeros_like(cosine))
        return xp.where(inside, 2 / ((1 - s) * (1 + s)), xp.zeros_like(cosine))

    def positive_logit(self, positive: PairSimilarity) -> Float[Array, "*n"]:
        """``2 log(|h + h'|/|h - h'|)``; infinite where the pair coincides, and the least number there is where it is opposite."""
        xp = array_namespace(positive.chord)
        one = xp.ones_like(positive.chord)
        apart, near = positive.chord > 0, positive.antichord > 0
        logit = 2 * (
            xp.log(xp.where(near, positive.antichord, one)) - xp.log(xp.where(apart, positive.chord, one))
        )
        opposite = self.link(-one)
        return xp.where(apart, xp.where(near, logit, opposite), xp.inf * one)

    def positive_slope(self, positive: PairSimilarity) -> Float[Array, "*n"]:
        """``2/sin²θ``; 0 where the pair coincides or is opposite."""
        xp = array_namespace(positive.chord)
        sine = positive.sine
        usable = sine > 0
        safe = xp.where(usable, sine, xp.ones_like(sine))
        return xp.where(usable, 2 / safe / safe, xp.zeros_like(sine))

    @staticmethod
    def _inside(cosine: Float[Array, "*n"]) -> tuple[Array, float]:
        """Which cosines are strictly between -1 and 1, and the largest such number."""
        xp = array_namespace(cosine)
        return abs(cosine) < 1, 1 - float(xp.finfo(cosine.dtype).eps) / 2
