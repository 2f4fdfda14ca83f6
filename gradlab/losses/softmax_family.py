"""What InfoNCE and ArcCon share: a softmax over the negatives against one positive logit."""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar

from gradlab.arrays import Array, log_sigmoid, sigmoid
from gradlab.geometry.similarity import Negatives, PairSimilarity
from gradlab.losses.base import PairLoss
from gradlab.settings.declaration import parameter


@dataclasses.dataclass(frozen=True)
class SoftmaxLoss(PairLoss):
    """``L_i = -log σ(A_i - LSE_i)`` with a positive logit ``A_i``, in the log-sigmoid form.

    A cross-entropy over all logits has the same value, but its derivative cancels: up to half of the
    gradient is lost at τ = 0.01.
    """

    takes_hardness: ClassVar[bool] = True
    temperature: float = parameter(0.05, "softmax temperature τ", rule="positive")

    @abc.abstractmethod
    def positive_logit(self, positive: PairSimilarity) -> Array:
        """``A_i``, (...,)."""

    def summary(self, negatives: Negatives) -> Array:
        """``LSE_i = log Σ_k exp(S_ik/τ)``."""
        return negatives.log_sum_exp(self.temperature)

    def value(self, positive: PairSimilarity, negatives: Negatives) -> Array:
        """``-log σ(A_i - LSE_i)``."""
        return -log_sigmoid(self.positive_logit(positive) - self.summary(negatives))

    def dissipation(self, positive: PairSimilarity, summary: Array) -> Array:
        """``σ(LSE_i - A_i)``: the probability that softmax gives to all negatives together."""
        return sigmoid(summary - self.positive_logit(positive))

    def weight(self, negatives: Negatives) -> Array:
        """``softmax_j(S_ij/τ)/τ`` over the negatives."""
        softmax, factor = self.scaled_weight(negatives)
        return softmax * factor

    def scaled_weight(self, negatives: Negatives) -> tuple[Array, float]:
        """The softmax and 1/τ."""
        return negatives.softmax(self.temperature), 1 / self.temperature
