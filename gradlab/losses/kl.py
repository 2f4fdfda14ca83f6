"""Distillation of a teacher's distribution over the candidates."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float
from gradlab.batch.batch import Batch
from gradlab.losses.candidate_loss import (
    CandidateLoss,
    ScoredCandidates,
    by_sign,
    log_sum_exp_over,
    softmax_over,
)
from gradlab.losses.registry import register
from gradlab.losses.temperature import SoftmaxTemperature
from gradlab.settings import setting


@register("kl", cites="hinton2015distilling")
class KL(SoftmaxTemperature, CandidateLoss):
    """Kullback-Leibler divergence of the student's softmax from a teacher's (Hinton et al. 2015).

    Pass ``teacher=``: scores of the candidates, or a teacher's embeddings of the batch, whose
    cosines are the scores. Let y be the teacher's softmax and q the student's. A candidate with
    q > y pushes, one with q < y pulls, in proportion to the difference. Half of ``Σ|q - y|`` pushes
    and half pulls: **the dissipation is the total variation between student and teacher**. An own
    positive with q > y is pushed away, too: its pull share is negative, and the ratio is infinite
    if it is the only candidate that pushes.

    ``times_tau_squared=true`` multiplies by τ², as Hinton et al. do. The dissipation
    does not change.
    """

    teacher_temperature: float = setting(
        0.05, "temperature of the teacher's softmax", rule="positive"
    )
    times_tau_squared: bool = setting(False, "whether the divergence is multiplied by τ²")

    looks_at = CandidateLoss.looks_at | {"teacher"}
    title = "KL to a teacher"
    settings_source = (
        "Temperatures: as for InfoNCE; what is published differs with the teacher's scores."
    )
    formula = "Σ_c y_ic log(y_ic/q_ic), q_ic = exp(cos θ_ic/τ)/Σ_k exp(cos θ_ik/τ)"
    not_simulated = "a teacher's scores do not depend on the student's angles"

    @property
    def unit(self) -> Any:
        """Unit in which the dissipation is the total variation: τ, or 1/τ for a loss times τ²."""
        return 1 / self.temperature if self.times_tau_squared else self.temperature

    def factor(self, batch: Batch) -> Any:
        return self.temperature**2 if self.times_tau_squared else 1.0

    def value(self, candidates: ScoredCandidates) -> Float[Array, "n"]:
        """Return ``Σ_c y_c (log y_c - log q_c)``."""
        xp, logits = array_namespace(candidates.cosine), candidates.cosine / self.temperature
        present, scores = candidates.role != 0, self._teacher_logits(candidates)
        student = logits - log_sum_exp_over(present, logits)[:, None]
        teacher = scores - log_sum_exp_over(present, scores)[:, None]
        shares = softmax_over(present, scores)
        # A candidate without a share adds nothing, even if its logarithm is infinite.
        differences = xp.where(shares > 0, teacher - student, xp.zeros_like(shares))
        return xp.sum(shares * differences, axis=-1)

    def coefficients(
        self, candidates: ScoredCandidates
    ) -> tuple[Float[Array, "n c"], Float[Array, "n c"]]:
        """Return ``(q - y)/τ``, split by sign into push and pull."""
        present = candidates.role != 0
        student = softmax_over(present, candidates.cosine / self.temperature)
        teacher = softmax_over(present, self._teacher_logits(candidates))
        return by_sign((student - teacher) / self.temperature)

    def _teacher_logits(self, candidates: ScoredCandidates) -> Float[Array, "n c"]:
        """Return the teacher's scores over its temperature, below the largest score of each row.

        Scores of absent candidates do not count. Subtracting first keeps large scores finite.
        """
        xp, present = array_namespace(candidates.cosine), candidates.role != 0
        largest = xp.max(xp.where(present, candidates.teacher, -xp.inf), axis=-1, keepdims=True)
        scores = xp.where(present, candidates.teacher, largest)
        return (scores - largest) / self.teacher_temperature
