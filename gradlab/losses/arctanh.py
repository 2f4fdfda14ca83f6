"""InfoNCE with the logits 2 artanh(cos θ) (Kim and Kim 2025)."""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, as_float, detach, reciprocal
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.losses.link_loss import LinkLoss, LogitSummary
from gradlab.losses.registry import register


@register("arctanh", cites="kim2025temperature")
class Arctanh(LinkLoss):
    """Temperature-free contrastive loss with logits ``2 artanh(s)`` (Kim and Kim 2025).

    The logits, ``2 artanh(s) = log((1+s)/(1-s))``, are infinite at s = ±1, and so is the loss if a
    negative equals the anchor or the positive is opposite. Nothing is clamped: ``1 - s`` is
    computed from chords, and forces without a direction are 0. A negative equal to the anchor takes
    the whole softmax without pushing, so only the pull remains. A pair that coincides has the
    value 0 and does not move, whatever its negatives. An opposite pair is pushed, and its pull has
    no direction; if all of its negatives are opposite too, the dissipation is 1/2.
    """

    title = "arctanh"
    paper = "Kim and Kim (2025), arXiv 2501.17683"
    formula = "-log σ(φ(cos θ_ii') - log Σ_k≠i exp φ(cos θ_ik')), φ(s) = 2 artanh(s)"

    def link(self, cosine: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Return ``log(1 + s) - log(1 - s)``."""
        xp = array_namespace(cosine)
        with np.errstate(divide="ignore"):
            return xp.log1p(cosine) - xp.log1p(-cosine)

    def slope(self, cosine: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Return ``2/(1 - s²)``."""
        with np.errstate(divide="ignore"):
            return 2 / ((1 - cosine) * (1 + cosine))

    def positive_logit(self, positive: PairSimilarity) -> Float[Array, "*n"]:
        """Return ``2 log(|h + h'|/|h - h'|)``; ±inf, without derivative, for parallel vectors."""
        near, far = positive.antichord, positive.chord
        return 2 * (_log(near) - _log(far))

    def positive_slope(self, positive: PairSimilarity) -> Float[Array, "*n"]:
        """Return ``2/sin²θ``; 0 for a coinciding or opposite pair, whose pull has no direction."""
        inverse = reciprocal(positive.sine)
        return 2 * inverse * inverse

    def negative_logits(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return ``log((2 - d)/d)``, (..., K); ``d = 1 - s`` is accurate near 0; -inf if masked."""
        logits = _log(negatives.one_plus_cosine) - _log(negatives.one_minus_cosine)
        return array_namespace(logits).where(negatives.masked, negatives.cosine, logits)

    def summary(self, negatives: Negatives) -> LogitSummary:
        total, share = self.log_sum_of(negatives), self._share(negatives)
        return LogitSummary(total, 2 * share * negatives.sum_of(self._inverse_squares))

    def log_sum_of(self, negatives: Negatives) -> Float[Array, "*n"]:
        """Return ``log Σ_k (2 - d_k)/d_k``; infinite if a negative equals the anchor."""
        odds = negatives.sum_of(self._odds)
        return array_namespace(odds).where(self._touching(negatives), np.inf, _log(odds))

    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return ``2/d_j² / Σ_k (2 - d_k)/d_k``; zeros if a negative equals the anchor."""
        return 2 * self._inverse_squares(negatives) * self._share(negatives)[..., None]

    def lead(self, positive: PairSimilarity, total: Float[Array, "*#n"]) -> Float[Array, "*#n"]:
        """Return ``A_i - LSE_i``; +inf if the pair coincides, 0 if all cosines are -1."""
        xp = array_namespace(positive.chord)
        is_distinct = positive.chord > 0
        logit = self.positive_logit(positive)
        alike = (logit == -xp.inf) & (total == -xp.inf)
        lead = xp.where(alike, 0.0, logit) - xp.where(alike | ~is_distinct, 0.0, total)
        return xp.where(is_distinct, lead, xp.inf)

    def _share(self, negatives: Negatives) -> Float[Array, "*n"]:
        """Return ``1/Σ_k (2 - d_k)/d_k``; 0 if a negative equals the anchor."""
        odds = negatives.sum_of(self._odds)
        return array_namespace(odds).where(self._touching(negatives), 0.0, reciprocal(odds))

    def _touching(self, negatives: Negatives) -> Bool[Array, "*n"]:
        """Return True for anchors with a negative equal to the anchor."""
        return negatives.sum_of(self._touches) > 0

    def _touches(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return 1 for each negative equal to its anchor, else 0."""
        return as_float(detach(negatives.one_minus_cosine) <= 0, negatives.cosine)

    def _odds(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return ``e^φ = (2 - d)/d``; 0 if masked or equal to the anchor."""
        gap = negatives.one_minus_cosine
        odds = negatives.one_plus_cosine * reciprocal(gap)
        return array_namespace(gap).where(negatives.masked | (gap <= 0), 0.0, odds)

    def _inverse_squares(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return ``1/d²``; 0 if masked or equal to the anchor."""
        xp = array_namespace(negatives.cosine)
        inverse = xp.where(negatives.masked, 0.0, reciprocal(negatives.one_minus_cosine))
        return inverse * inverse


def _log(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return ``log x``; -inf, without derivative, at 0 and below."""
    xp = array_namespace(x)
    inside = x > 0
    return xp.where(inside, xp.log(xp.where(inside, x, 1.0)), -xp.inf)
