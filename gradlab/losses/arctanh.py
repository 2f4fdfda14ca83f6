"""InfoNCE with logits 2 artanh(cos θ)."""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, as_float, detach, log_sigmoid, reciprocal, sigmoid
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.losses.registry import cited, register
from gradlab.losses.softmax_family import LinkLoss, LogitSummary


@register("arctanh")
class Arctanh(LinkLoss):
    """Temperature-free contrastive loss (Kim and Kim 2025): the logits ``2 artanh(s) = log((1+s)/(1-s))`` span all numbers.

    At the ends they are infinite, and so is the loss where a negative is the anchor itself, or the positive its opposite.
    Nothing is clamped: ``1 - s`` is measured, not rounded, and what has no direction acts on nothing. A negative that is the anchor
    itself takes the whole softmax and pushes nowhere, so that only the pull is left; a pair that coincides has the value 0 and is at
    rest, whatever its negatives are; one that is opposite has a push, and a pull without direction. Where its negatives
    are all opposite too, it counts as one of them: the dissipation is 1/2.
    """

    title = "arctanh"
    paper = "Kim and Kim (2025), arXiv 2501.17683"
    bibtex = cited("kim2025temperature")
    formula = "-log σ(φ(cos θ_ii') - log Σ_k exp φ(cos θ_ik')), φ(s) = 2 artanh(s)"
    latex = {
        "gradient_dissipation": r"\left(1 + \frac{\frac{1+\cos\theta_{ii'}}{1-\cos\theta_{ii'}}}{\sum_{k\neq i}\frac{1+\cos\theta_{ik'}}{1-\cos\theta_{ik'}}}\right)^{-1}",
        "weight": r"\frac{2\,(1-\cos\theta_{ij'})^{-2}}{\sum_{k\neq i}\frac{1+\cos\theta_{ik'}}{1-\cos\theta_{ik'}}}",
        "ratio": r"\frac{2}{\sin^2\theta_{ii'}\,\sum_{j\neq i} W_{ij}}",
    }

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
        logits = _log(negatives.one_plus_cosine) - _log(negatives.one_minus_cosine)
        return array_namespace(logits).where(negatives.masked, negatives.cosine, logits)

    def summary(self, negatives: Negatives) -> LogitSummary:
        total, share = self.log_sum_of(negatives), self._share(negatives)
        return LogitSummary(total, 2 * share * negatives.sum_of(self._inverse_squares))

    def log_sum_of(self, negatives: Negatives) -> Float[Array, "*n"]:
        """``log Σ_k (2 - d_k)/d_k``; infinite where a negative is the anchor itself."""
        odds = negatives.sum_of(self._odds)
        return array_namespace(odds).where(self._touching(negatives), np.inf, _log(odds))

    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """``2/d_j² / Σ_k (2 - d_k)/d_k``; zeros where a negative is the anchor itself."""
        return 2 * self._inverse_squares(negatives) * self._share(negatives)[..., None]

    def value(self, positive: PairSimilarity, negatives: Negatives) -> Float[Array, "*n"]:
        """``-log σ(A_i - LSE_i)``; 0 where the pair coincides."""
        return -log_sigmoid(self._lead(positive, self.log_sum_of(negatives)))

    def dissipation(self, positive: PairSimilarity, summary: LogitSummary) -> Float[Array, "*#n"]:
        """``σ(LSE_i - A_i)``; 0 where the pair coincides."""
        return sigmoid(-self._lead(positive, summary.log_sum_exp))

    def _lead(self, positive: PairSimilarity, total: Float[Array, "*#n"]) -> Float[Array, "*#n"]:
        """``A_i - LSE_i``: infinite where the pair coincides even if a negative does too, 0 where positive and negatives are all opposite."""
        xp = array_namespace(positive.chord)
        apart = positive.chord > 0
        logit = self.positive_logit(positive)
        alike = (logit == -xp.inf) & (total == -xp.inf)
        lead = xp.where(alike, 0.0, logit) - xp.where(alike | ~apart, 0.0, total)
        return xp.where(apart, lead, xp.inf)

    def _share(self, negatives: Negatives) -> Float[Array, "*n"]:
        """``1/Σ_k (2 - d_k)/d_k``; 0 where a negative is the anchor itself."""
        odds = negatives.sum_of(self._odds)
        return array_namespace(odds).where(self._touching(negatives), 0.0, reciprocal(odds))

    def _touching(self, negatives: Negatives) -> Bool[Array, "*n"]:
        """Which anchors have a negative that is the anchor itself."""
        return negatives.sum_of(self._touches) > 0

    def _touches(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """1 where a negative is the anchor itself."""
        return as_float(detach(negatives.one_minus_cosine) <= 0, negatives.cosine)

    def _odds(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """``e^φ = (2 - d)/d``, 0 where masked or touching."""
        gap = negatives.one_minus_cosine
        xp = array_namespace(gap)
        return xp.where(negatives.masked | (gap <= 0), 0.0, negatives.one_plus_cosine * reciprocal(gap))

    def _inverse_squares(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """``1/d²``, 0 where masked or touching."""
        xp = array_namespace(negatives.cosine)
        inverse = xp.where(negatives.masked, 0.0, reciprocal(negatives.one_minus_cosine))
        return inverse * inverse


def _log(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """``log x``, -inf at 0 and below, without a derivative there."""
    xp = array_namespace(x)
    inside = x > 0
    return xp.where(inside, xp.log(xp.where(inside, x, 1.0)), -xp.inf)
