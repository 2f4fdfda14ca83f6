"""Distillation of a teacher's margins (Hofstätter et al. 2020)."""

from __future__ import annotations

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float
from gradlab.losses.candidate_loss import CandidateLoss, ScoredCandidates, by_sign
from gradlab.losses.registry import register


@register("margin_mse", cites="hofstatter2020improving")
class MarginMSE(CandidateLoss):
    """Mean squared difference of the student's and a teacher's margins (Hofstätter et al. 2020).

    A margin is the positive's score minus a negative's. Pass ``teacher=``, as for
    `kl`. Let ``e_n`` be the student's margin minus the teacher's. A negative pushes if
    ``e_n < 0`` and pulls if ``e_n > 0``; the positive does the opposite, by the sum over
    negatives, and its pull share is negative where it pushes. With one negative, the dissipation
    is 2|e|. Negatives are all candidates but the positive, or those that labels or a relation
    define. An anchor whose own pair a relation does not call a positive is left out, with a
    warning. For the published loss, pass own negatives with ``in_batch_negatives=False``.
    """

    looks_at = CandidateLoss.looks_at | {"teacher"}
    pulls_only_own = True
    title = "Margin-MSE"
    paper = "Hofstätter et al. (2020)"
    formula = "1/K Σ_k e_ik², e_ik = (cos θ_ii' - cos θ_ik') - (y_ii - y_ik)"
    not_simulated = "a teacher's scores do not depend on the student's angles"

    def value(self, candidates: ScoredCandidates) -> Float[Array, "n"]:
        """Return ``mean_n e_n²``."""
        error, count = (
            self._error(candidates),
            candidates.count(candidates.negative & ~candidates.is_own_positive),
        )
        return array_namespace(error).sum(error * error, axis=-1) / count

    def coefficients(
        self, candidates: ScoredCandidates
    ) -> tuple[Float[Array, "n c"], Float[Array, "n c"]]:
        """Return ``-2 e_n/K`` for negatives and ``2/K Σ_n e_n`` for the positive, split by sign."""
        xp, error = array_namespace(candidates.cosine), self._error(candidates)
        slopes = (
            2 / candidates.count(candidates.negative & ~candidates.is_own_positive)[:, None] * error
        )
        return by_sign(
            xp.where(candidates.is_own_positive, xp.sum(slopes, axis=-1, keepdims=True), -slopes)
        )

    def _error(self, candidates: ScoredCandidates) -> Float[Array, "n c"]:
        """Return ``e_n`` for negatives, (n, c); 0 elsewhere."""
        xp = array_namespace(candidates.cosine)
        zero = xp.zeros_like(candidates.cosine)
        student, teacher = (
            xp.sum(xp.where(candidates.is_own_positive, scores, zero), axis=-1, keepdims=True)
            - scores
            for scores in (candidates.cosine, candidates.teacher)
        )
        return xp.where(candidates.negative & ~candidates.is_own_positive, student - teacher, zero)
