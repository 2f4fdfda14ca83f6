"""The sigmoid loss of SigLIP (Zhai et al. 2023)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, finite, log_sigmoid, sigmoid
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.losses.base import Preset
from gradlab.losses.exact_gates import SumGate
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("siglip", cites="zhai2023sigmoid")
class SigLIP(PairLoss):
    """Sigmoid loss (Zhai et al. 2023, Algorithm 1): binary classification of pairs, not a softmax.

    The dissipation is the predicted probability of being a pair, summed over the K negatives,
    between 0 and K. It does not depend on the positive, and the pull does not depend on the
    negatives. The ratio is thus unbounded and mostly set by the bias: the published start (t = 1/τ
    = 10, b = -10) has almost only pull.

    ``learnable`` trains temperature and bias with the encoder, as published (`gradlab.learnable`),
    starting from the settings. An anchor without negatives keeps its pull.
    """

    temperature: float = setting(0.1, "temperature τ; the paper's t is 1/τ", rule="positive")
    bias: float = setting(-10.0, "bias b of the logits")
    learnable: bool = setting(True, "whether training also learns temperature and bias")

    pulls_alone: ClassVar[bool] = True

    settings_source = (
        "Temperature and bias begin as in open_clip's SigLIP, after Algorithm 1 of the paper."
    )
    formula = "-log σ(cos θ_ii'/τ + b) - Σ_k≠i log σ(-cos θ_ik'/τ - b)"
    presets = {
        "fixed": Preset({"learnable": False}, "the published start, temperature and bias held")
    }

    @property
    def learned(self) -> tuple[str, ...]:
        return ("temperature", "bias") if self.learnable else ()

    def summary(self, negatives: Negatives) -> Float[Array, "*n"]:
        """Return ``log Σ_k σ(S_ik/τ + b)``; -inf without negatives."""
        return negatives.log_sum_exp_of(self._log_push)

    def value(self, positive: PairSimilarity, negatives: Negatives) -> Float[Array, "*n"]:
        """Return ``-log σ(p/τ + b) - Σ_k log σ(-S_ik/τ - b)``."""
        return -log_sigmoid(self._logits(positive.cosine)) - negatives.sum_of(self._log_rest)

    def dissipation(
        self, positive: PairSimilarity, summary: Float[Array, "*#n"]
    ) -> Float[Array, "*n"]:
        """Return ``Σ_k σ(S_ik/τ + b)``."""
        xp = array_namespace(summary)
        return xp.exp(summary) + xp.zeros_like(positive.chord)

    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return ``σ(S_ij/τ + b) / (τ Σ_k σ(S_ik/τ + b))``."""
        return finite(negatives.softmax_of(self._log_push)) / self.temperature

    def ratio(self, positive: PairSimilarity, summary: Float[Array, "*#n"]) -> Float[Array, "*#n"]:
        """Return ``σ(-p/τ - b)/Σ_k σ(S_ik/τ + b)``; infinite if the push underflows."""
        xp = array_namespace(summary)
        with np.errstate(over="ignore"):
            return xp.exp(log_sigmoid(self._logits(positive.cosine, -1)) - summary)

    def pull(self, positive: PairSimilarity) -> Float[Array, "*n"]:
        """Return ``σ(-p/τ - b)/τ``."""
        return sigmoid(self._logits(positive.cosine, -1)) / self.temperature

    def exact_gate(self) -> SumGate:
        return SumGate(
            lambda angle: np.exp(log_sigmoid(self._logits(np.cos(angle)))), scale=self.temperature
        )

    def _logits(self, cosine: Float[Array, "*n"], sign: int = 1) -> Float[Array, "*n"]:
        return cosine * (sign / self.temperature) + sign * self.bias

    def _log_push(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return ``log σ(S_ik/τ + b)``."""
        return log_sigmoid(self._logits(negatives.finite_cosine))

    def _log_rest(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return ``log σ(-S_ik/τ - b)``."""
        return log_sigmoid(self._logits(negatives.finite_cosine, -1))
