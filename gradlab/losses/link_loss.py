"""`LinkLoss`: base class of InfoNCE with another function of the cosine than ``cos θ / τ``."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, log_sigmoid, sigmoid
from gradlab.batch.similarity import AngleSimilarity, Negatives, PairSimilarity
from gradlab.losses.components import Components
from gradlab.losses.exact_gates import ExactGate, SoftGate
from gradlab.losses.pair_loss import PairLoss


class LogitSummary(NamedTuple):
    """Summary of an anchor's negatives for a `LinkLoss`."""

    log_sum_exp: Float[Array, "*n"]  # log Σ_k e^{φ(S_ik)}
    mean_slope: Float[Array, "*n"]  # Σ_j softmax_j(φ(S_ij)) φ'(S_ij), the total weight


@dataclasses.dataclass(frozen=True)
class LinkLoss(PairLoss):
    """InfoNCE with an increasing link φ of cosines: ``L_i = -log σ(φ(p_i) - log Σ_k e^{φ(S_ik)})``.

    A subclass defines `link` and its derivative `slope`. The weight is
    ``softmax_j(φ(S_ij)) φ'(S_ij)``, the ratio is ``φ'(p_i)`` over the total weight, and the
    simulation is exact. `SoftmaxLoss` is ``φ = s/τ``.

    A cross-entropy over all logits has the same value, but its derivative cancels: at τ = 0.01, up
    to half of the gradient is lost.
    """

    @abc.abstractmethod
    def link(self, cosine: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Return ``φ`` of cosines in [-1, 1]."""

    @abc.abstractmethod
    def slope(self, cosine: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Return ``φ'`` of cosines in [-1, 1]."""

    def positive_logit(self, positive: PairSimilarity) -> Float[Array, "*n"]:
        return self.link(positive.cosine)

    def positive_slope(self, positive: PairSimilarity) -> Float[Array, "*n"]:
        return self.slope(positive.cosine)

    def summary(self, negatives: Negatives) -> Any:
        return LogitSummary(
            self.log_sum_of(negatives),
            negatives.mean_of(self.negative_slopes, self.negative_logits),
        )

    def log_sum_of(self, negatives: Negatives) -> Float[Array, "*n"]:
        """Return ``log Σ_k e^{φ(S_ik)}``."""
        return negatives.log_sum_exp_of(self.negative_logits)

    def lead(self, positive: PairSimilarity, total: Float[Array, "*#n"]) -> Float[Array, "*#n"]:
        """Return ``A_i - LSE_i``, the positive logit less the log-sum-exp of the negatives."""
        return self.positive_logit(positive) - total

    def value(self, positive: PairSimilarity, negatives: Negatives) -> Float[Array, "*n"]:
        """Return ``-log σ(A_i - LSE_i)``."""
        return -log_sigmoid(self.lead(positive, self.log_sum_of(negatives)))

    def dissipation(self, positive: PairSimilarity, summary: Any) -> Float[Array, "*n"]:
        """Return ``σ(LSE_i - A_i)``, the total probability of the negatives under the softmax."""
        return sigmoid(-self.lead(positive, summary.log_sum_exp))

    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return ``softmax_j(φ(S_ij)) φ'(S_ij)`` over the negatives."""
        return negatives.softmax_of(self.negative_logits) * self.negative_slopes(negatives)

    def ratio(self, positive: PairSimilarity, summary: Any) -> Float[Array, "*#n"]:
        """Return ``φ'(p_i)`` over the total weight; infinite if the total weight is 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.positive_slope(positive) / summary.mean_slope

    def components(self, positive: PairSimilarity, negatives: Negatives) -> Components:
        """Compute the components; the positive weight ``φ'(p_i)`` is finite if the ratio is not."""
        dissipation = self.dissipation(positive, self.summary(negatives))
        return Components(dissipation, self.weight(negatives), self.positive_slope(positive))

    def exact_gate(self) -> ExactGate:
        return SoftGate(
            LogitOfAngle(self), lambda angle: self.positive_logit(AngleSimilarity(angle))
        )

    def negative_logits(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return ``φ`` of the cosines, (..., K); -inf in masked columns."""
        cosine = negatives.cosine
        xp = array_namespace(cosine)
        return xp.where(xp.isinf(cosine), cosine, self.link(negatives.finite_cosine))

    def negative_slopes(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return ``φ'`` of the cosines, (..., K)."""
        return self.slope(negatives.finite_cosine)


@dataclasses.dataclass(frozen=True)
class LogitOfAngle:
    """Logit of a negative as a function of its angle.

    It is equal for equal losses, so the simulator caches it.
    """

    loss: LinkLoss

    def __call__(self, angle: np.ndarray) -> np.ndarray:
        return np.asarray(self.loss.negative_logits(Negatives.from_angles(angle)))
