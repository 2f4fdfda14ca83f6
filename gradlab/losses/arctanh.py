"""InfoNCE with logits 2 artanh(cos θ)."""

from __future__ import annotations

import dataclasses

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, log_sigmoid, reciprocal, sigmoid
from gradlab.geometry.similarity import Negatives, PairSimilarity
from gradlab.losses.registry import register
from gradlab.losses.softmax_family import LinkLoss, LogitSummary


@register("arctanh")
@dataclasses.dataclass(frozen=True)
class Arctanh(LinkLoss):
    """Temperature-free contrastive loss (Kim and Kim 2025): the logits ``2 artanh(s) = log((1+s)/(1-s))`` span all numbers.

    At the ends they are infinite, and so is the loss where a negative is the anchor itself, or the positive its opposite.
    Nothing is clamped: ``1 - s`` is measured, not rounded, and what has no direction acts on nothing. A negative that is the anchor
    itself takes the whole softmax and pushes nowhere, so that only the pull is left; a pair that coincides has the value 0 and is at
    rest, whatever its negatives are; one that is opposite has a push, and a pull without direction.
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
    table_order = 29

    def link(self, cosine: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """``log(1 + s) - log(1 - s)``."""
        xp = array_namespace(cosine)
        with np.errstate(divide="ignore"):
            return xp.log1p(cosine) - xp.log1p(-cosine)

    def slope(self, cosine: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """``2/(1 - s²)``."""
        with np.errstate(divide="ignore"):
            return 2 / ((1 - cosine) * (1 + cosine))

    def positive_logit(self, positive: PairSimilarity) -> Float[Array, "*n"]:
        """``2 log(|h + h'|/|h - h'|)``; infinite where the pair coincides or is opposite, without a derivative there."""
        near, far = positive.antichord, positive.chord
        return 2 * (_log(near) - _log(far))

    def positive_slope(self, positive: PairSimilarity) -> Float[Array, "*n"]:
        """``2/sin²θ``; 0 where the pair coincides or is opposite, which has no direction."""
        inverse = reciprocal(positive.sine)
        return 2 * inverse * inverse

    def negative_logits(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """``log((2 - d)/d)`` with ``d = 1 - s`` as it was measured, (..., K); -inf in masked columns."""
        xp, gap = array_namespace(negatives.cosine), negatives.one_minus_cosine
        logits = _log(2 - gap) - _log(gap)
        return xp.where(xp.isinf(negatives.cosine), negatives.cosine, logits)

    def summary(self, negatives: Negatives) -> LogitSummary:
        """Log-sum-exp of the logits, and the total weight."""
        weight = self.weight(negatives)
        xp = array_namespace(weight)
        odds, touching = self._odds(negatives)
        total = xp.where(touching, xp.inf, _log(xp.sum(odds, axis=-1)))
        return LogitSummary(total, xp.sum(weight, axis=-1))

    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """``2/d_j² / Σ_k (2 - d_k)/d_k``; zeros where a negative is the anchor itself."""
        xp = array_namespace(negatives.cosine)
        odds, touching = self._odds(negatives)
        inverse = xp.where(xp.isinf(negatives.cosine), 0.0, reciprocal(negatives.one_minus_cosine))
        share = xp.where(touching, 0.0, reciprocal(xp.sum(odds, axis=-1)))
        return 2 * inverse * inverse * share[..., None]

    def value(self, positive: PairSimilarity, negatives: Negatives) -> Float[Array, "*n"]:
        """``-log σ(A_i - LSE_i)``; 0 where the pair coincides."""
        return -log_sigmoid(self._lead(positive, self.summary(negatives)))

    def dissipation(self, positive: PairSimilarity, summary: LogitSummary) -> Float[Array, "*#n"]:
        """``σ(LSE_i - A_i)``; 0 where the pair coincides."""
        return sigmoid(-self._lead(positive, summary))

    def _lead(self, positive: PairSimilarity, summary: LogitSummary) -> Float[Array, "*#n"]:
        """``A_i - LSE_i``, infinite where the pair coincides even if a negative does too."""
        xp = array_namespace(positive.chord)
        apart = positive.chord > 0
        logit = self.positive_logit(positive)
        return xp.where(apart, logit - xp.where(apart, summary.log_sum_exp, 0.0), xp.inf)

    @staticmethod
    def _odds(negatives: Negatives) -> tuple[Float[Array, "*n k"], Bool[Array, "*n"]]:
        """``e^φ = (2 - d)/d``, (..., K), 0 where masked or touching; and which rows have a negative that touches, (...,)."""
        gap = negatives.one_minus_cosine
        xp = array_namespace(gap)
        touches = gap <= 0
        odds = xp.where(touches | xp.isinf(negatives.cosine), 0.0, (2 - gap) * reciprocal(gap))
        return odds, xp.any(touches, axis=-1)


def _log(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """``log x``, -inf at 0 and below, without a derivative there."""
    xp = array_namespace(x)
    inside = x > 0
    return xp.where(inside, xp.log(xp.where(inside, x, 1.0)), -xp.inf)
