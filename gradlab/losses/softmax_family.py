"""What softmax losses share: a temperature, which training may learn; and a softmax over the negatives against one positive logit, under any link."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, log_sigmoid, sigmoid
from gradlab.batch.similarity import AngleSimilarity, Negatives, PairSimilarity
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss, PairLoss
from gradlab.losses.components import Components
from gradlab.losses.gates import CosineLogit, ExactGate, SoftGate
from gradlab.settings import setting

# Settings that say how training goes, and change neither value nor components.
OF_TRAINING = ("learnable", "clamp")


@dataclasses.dataclass(frozen=True)
class SoftmaxTemperature(Loss):
    """A loss with a temperature that `gradlab.learnable` trains, and other trainers where ``learnable`` says so."""

    temperature: float = setting(0.05, "softmax temperature τ", rule="positive")
    _: dataclasses.KW_ONLY
    learnable: bool = setting(False, "whether training also learns the temperature")
    clamp: float = setting(
        0.0, "smallest temperature that training reaches; open_clip's is 0.01", rule="non-negative"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clamp > self.temperature:
            raise GradlabError(
                f"clamp={self.clamp:g} is the smallest temperature of {self.name}, which starts from {self.temperature:g}"
            )

    def with_learned_temperatures(self) -> Self:
        return dataclasses.replace(super().with_learned_temperatures(), learnable=True)

    @property
    def learned(self) -> tuple[str, ...]:
        return ("temperature",) if self.learnable else ()


class LogitSummary(NamedTuple):
    """What a `LinkLoss` takes from the negatives of an anchor."""

    log_sum_exp: Float[Array, "*n"]  # log Σ_k e^{φ(S_ik)}
    mean_slope: Float[Array, "*n"]  # Σ_j softmax_j(φ(S_ij)) φ'(S_ij), the total weight


@dataclasses.dataclass(frozen=True)
class LinkLoss(PairLoss):
    """``L_i = -log σ(φ(p_i) - log Σ_k e^{φ(S_ik)})``: InfoNCE with logits ``φ(cos θ)``, for any increasing link ``φ``.

    A subclass says `link` and its derivative `slope`; weight ``softmax_j(φ(S_ij)) φ'(S_ij)``, ratio ``φ'(p_i)`` over the
    total weight, and the exact simulation follow. InfoNCE is ``φ = s/τ`` (`SoftmaxLoss`).

    A cross-entropy over all logits has the same value, but its derivative cancels: up to half of the
    gradient is lost at τ = 0.01.
    """

    @abc.abstractmethod
    def link(self, cosine: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """``φ``, of cosines in [-1, 1]."""

    @abc.abstractmethod
    def slope(self, cosine: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """``φ'``, of cosines in [-1, 1]."""

    def positive_logit(self, positive: PairSimilarity) -> Float[Array, "*n"]:
        return self.link(positive.cosine)

    def positive_slope(self, positive: PairSimilarity) -> Float[Array, "*n"]:
        return self.slope(positive.cosine)

    def summary(self, negatives: Negatives) -> Any:
        return LogitSummary(
            self.log_sum_of(negatives), negatives.mean_of(self.negative_slopes, self.negative_logits)
        )

    def log_sum_of(self, negatives: Negatives) -> Float[Array, "*n"]:
        """``log Σ_k e^{φ(S_ik)}``."""
        return negatives.log_sum_exp_of(self.negative_logits)

    def value(self, positive: PairSimilarity, negatives: Negatives) -> Float[Array, "*n"]:
        """``-log σ(A_i - LSE_i)`` with the positive logit ``A_i``."""
        return -log_sigmoid(self.positive_logit(positive) - self.log_sum_of(negatives))

    def dissipation(self, positive: PairSimilarity, summary: Any) -> Float[Array, "*n"]:
        """``σ(LSE_i - A_i)``: the probability that softmax gives to all negatives together."""
        return sigmoid(summary.log_sum_exp - self.positive_logit(positive))

    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """``softmax_j(φ(S_ij)) φ'(S_ij)`` over the negatives."""
        return negatives.softmax_of(self.negative_logits) * self.negative_slopes(negatives)

    def ratio(self, positive: PairSimilarity, summary: Any) -> Float[Array, "*#n"]:
        """``φ'(p_i)`` over the total weight; infinite where that is 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.positive_slope(positive) / summary.mean_slope

    def components(self, positive: PairSimilarity, negatives: Negatives) -> Components:
        """The pull is ``φ'(p_i)``, also where the total weight is 0 and the ratio infinite."""
        dissipation = self.dissipation(positive, self.summary(negatives))
        return Components(dissipation, self.weight(negatives), self.positive_slope(positive))

    def exact_gate(self) -> ExactGate:
        return SoftGate(LogitOfAngle(self), lambda angle: self.positive_logit(AngleSimilarity.at(angle)))

    def negative_logits(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """``φ`` of the cosines, (..., K), -inf in masked columns."""
        cosine = negatives.cosine
        xp = array_namespace(cosine)
        return xp.where(xp.isinf(cosine), cosine, self.link(negatives.finite_cosine))

    def negative_slopes(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """``φ'`` of the cosines."""
        return self.slope(negatives.finite_cosine)


@dataclasses.dataclass(frozen=True)
class LogitOfAngle:
    """The logit of a negative by its angle; equal for equal losses, so that the simulator can look it up."""

    loss: LinkLoss

    def __call__(self, angle: np.ndarray) -> np.ndarray:
        return np.asarray(self.loss.negative_logits(Negatives.from_angles(angle)))


@dataclasses.dataclass(frozen=True)
class SoftmaxLoss(SoftmaxTemperature, LinkLoss):
    """``L_i = -log σ(A_i - LSE_i)`` with negatives under the link ``φ = s/τ``, and the ratio 1.

    It is InfoNCE with the positive logit ``A_i = p_i/τ``; others override `positive_logit`, and where its derivative is
    not ``1/τ`` the `ratio`.
    """

    takes_hardness: ClassVar[bool] = True
    latex: ClassVar = {
        "weight": r"\frac{e^{\cos\theta_{ij'}/\tau}}{\tau\sum_{k\neq i} e^{\cos\theta_{ik'}/\tau}}",
        "ratio": "1",
    }

    def link(self, cosine: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """``s/τ``."""
        return cosine / self.temperature

    def slope(self, cosine: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """``1/τ``."""
        return array_namespace(cosine).full_like(cosine, 1 / self.temperature)

    def summary(self, negatives: Negatives) -> Float[Array, "*n"]:
        """``LSE_i = log Σ_k exp(S_ik/τ)``."""
        return negatives.log_sum_exp(self.temperature)

    def log_sum_of(self, negatives: Negatives) -> Float[Array, "*n"]:
        return self.summary(negatives)

    def dissipation(self, positive: PairSimilarity, summary: Float[Array, "*#n"]) -> Float[Array, "*n"]:
        """``σ(LSE_i - A_i)``."""
        return sigmoid(summary - self.positive_logit(positive))

    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """``softmax_j(S_ij/τ)/τ`` over the negatives."""
        return negatives.softmax(self.temperature) * (1 / self.temperature)

    def ratio(self, positive: PairSimilarity, summary: Float[Array, "*#n"]) -> Float[Array, "*#n"]:
        """1, unless the positive has a logit of another slope."""
        return array_namespace(positive.chord).ones_like(positive.chord)

    def components(self, positive: PairSimilarity, negatives: Negatives) -> Components:
        return PairLoss.components(self, positive, negatives)

    def exact_gate(self) -> ExactGate:
        """Soft, at the positive logit; negatives of the same temperature are the same to all these losses."""
        logit = CosineLogit(self.temperature)
        return SoftGate(logit, lambda angle: self.positive_logit(AngleSimilarity.at(angle)))
