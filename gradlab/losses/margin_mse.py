"""Distillation of a teacher's margins."""

from __future__ import annotations

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float
from gradlab.losses.candidate_loss import CandidateLoss, Seen, by_sign
from gradlab.losses.registry import cited, register


@register("margin_mse")
class MarginMSE(CandidateLoss):
    """Mean squared difference between the student's and a teacher's margin of the positive over each negative (Hofstätter et al. 2020).

    Called with ``teacher=``, as `kl`. With ``e_n`` the student's margin less the teacher's, a negative pushes where ``e_n < 0`` and
    pulls where the student holds it apart too far, and the positive the other way round. With one negative the dissipation is
    2|e|. Negatives are all candidates but the positive, or those that labels or a relation call so; with
    ``in_batch_negatives=False`` and own negatives these are the anchor's own alone, as published.
    """

    needs_teacher = True
    title = "Margin-MSE"
    paper = "Hofstätter et al. (2020)"
    bibtex = cited("hofstatter2020improving")
    formula = "1/K Σ_k e_ik², e_ik = (cos θ_ii' - cos θ_ik') - (y_ii - y_ik)"
    latex = {
        "gradient_dissipation": r"\frac{1}{K}\sum_k |e_{ik}| + \left|\frac{1}{K}\sum_k e_{ik}\right|",
        "weight": r"\frac{2}{K}\,\frac{\max(0,\, -e_{ij})}{GD_i}",
        "ratio": r"1,\quad V_{ip} = \frac{2}{K}\,\frac{\max(0,\, e_{ip})}{GD_i}",
    }
    not_simulated = "a teacher's scores do not depend on the student's angles"

    def value(self, seen: Seen) -> Float[Array, "n"]:
        """``mean_n e_n²``."""
        error = self._error(seen)
        return array_namespace(error).sum(error * error, axis=-1) / seen.count(seen.negative & ~seen.own)

    def coefficients(self, seen: Seen) -> tuple[Float[Array, "n c"], Float[Array, "n c"]]:
        """``-2 e_n/K`` of a negative and ``2/K Σ_n e_n`` of the positive, by their signs."""
        xp, error = array_namespace(seen.cosine), self._error(seen)
        each = 2 / seen.count(seen.negative & ~seen.own)[:, None] * error
        return by_sign(xp.where(seen.own, xp.sum(each, axis=-1, keepdims=True), -each))

    def _error(self, seen: Seen) -> Float[Array, "n c"]:
        """``e`` of the negatives, 0 elsewhere."""
        xp = array_namespace(seen.cosine)
        zero = xp.zeros_like(seen.cosine)
        student, teacher = (
            xp.sum(xp.where(seen.own, scores, zero), axis=-1, keepdims=True) - scores
            for scores in (seen.cosine, seen.teacher)
        )
        return xp.where(seen.negative & ~seen.own, student - teacher, zero)
