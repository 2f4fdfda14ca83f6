"""The sigmoid loss of SigLIP."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, finite, log_sigmoid, sigmoid
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.losses.base import PairLoss, Preset
from gradlab.losses.components import Components
from gradlab.losses.gates import SumGate
from gradlab.losses.registry import cited, register
from gradlab.settings import setting


@register("siglip")
class SigLIP(PairLoss):
    """Sigmoid loss (Zhai et al. 2023, Algorithm 1): each pair is a two-class problem of its own, no softmax.

    The dissipation is the probability of being taken for a pair, summed over the negatives, between 0 and K; it does
    not depend on the positive, nor the pull on the negatives. So it is a sum where the paradigm has a gate of the
    whole anchor, and the ratio, set by the bias, has no bounds: at the published start (t = 1/τ = 10, b = -10)
    nothing pushes and everything pulls.

    ``learnable`` trains temperature and bias with the encoder, as published (`gradlab.learnable`); the settings are where they
    start. An anchor that has no negative keeps its pull.
    """

    temperature: float = setting(0.1, "temperature τ; the paper's t is 1/τ", rule="positive")
    bias: float = setting(-10.0, "bias b of the logits")
    learnable: bool = setting(True, "whether training also learns temperature and bias")

    pulls_alone: ClassVar[bool] = True

    paper = "Zhai et al. (2023)"
    bibtex = cited("zhai2023sigmoid")
    settings_source = (
        "The start of temperature and bias: that of open_clip's SigLIP, after Algorithm 1 of the paper."
    )
    formula = "-log σ(cos θ_ii'/τ + b) - Σ_k log σ(-cos θ_ik'/τ - b)"
    latex = {
        "gradient_dissipation": r"\sum_{k\neq i}\sigma(\cos\theta_{ik'}/\tau + b)",
        "weight": r"\frac{\sigma(\cos\theta_{ij'}/\tau + b)}{\tau\sum_{k\neq i}\sigma(\cos\theta_{ik'}/\tau + b)}",
        "ratio": r"\frac{\sigma(-\cos\theta_{ii'}/\tau - b)}{\sum_{k\neq i}\sigma(\cos\theta_{ik'}/\tau + b)}",
    }
    presets = {"fixed": Preset({"learnable": False}, "the published start, temperature and bias held")}

    @property
    def learned(self) -> tuple[str, ...]:
        return ("temperature", "bias") if self.learnable else ()

    def summary(self, negatives: Negatives) -> Float[Array, "*n"]:
        """``log Σ_k σ(S_ik/τ + b)``; -inf where there is no negative."""
        return negatives.log_sum_exp_of(self._log_push)

    def value(self, positive: PairSimilarity, negatives: Negatives) -> Float[Array, "*n"]:
        """``-log σ(p/τ + b) - Σ_k log σ(-S_ik/τ - b)``."""
        return -log_sigmoid(self._logits(positive.cosine)) - negatives.sum_of(self._log_rest)

    def dissipation(self, positive: PairSimilarity, summary: Float[Array, "*#n"]) -> Float[Array, "*n"]:
        """``Σ_k σ(S_ik/τ + b)``."""
        xp = array_namespace(summary)
        return xp.exp(summary) + xp.zeros_like(positive.chord)

    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """The share in that sum, over τ."""
        return finite(negatives.softmax_of(self._log_push)) / self.temperature

    def ratio(self, positive: PairSimilarity, summary: Float[Array, "*#n"]) -> Float[Array, "*#n"]:
        """``σ(-p/τ - b)/Σ_k σ(S_ik/τ + b)``; infinite where the push is too small to divide by."""
        xp = array_namespace(summary)
        with np.errstate(over="ignore"):
            return xp.exp(log_sigmoid(self._logits(positive.cosine, -1)) - summary)

    def components(self, positive: PairSimilarity, negatives: Negatives) -> Components:
        """The pull is ``σ(-p/τ - b)/τ``, also where the push is too small to divide by."""
        pull = sigmoid(self._logits(positive.cosine, -1)) / self.temperature
        return dataclasses.replace(super().components(positive, negatives), given_pull=pull)

    def exact_gate(self) -> SumGate:
        return SumGate(lambda angle: np.exp(log_sigmoid(self._logits(np.cos(angle)))), scale=self.temperature)

    def _logits(self, cosine: Float[Array, "*n"], sign: int = 1) -> Float[Array, "*n"]:
        return cosine * (sign / self.temperature) + sign * self.bias

    def _log_push(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """``log σ(S_ik/τ + b)``."""
        return log_sigmoid(self._logits(negatives.finite_cosine))

    def _log_rest(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """``log σ(-S_ik/τ - b)``."""
        return log_sigmoid(self._logits(negatives.finite_cosine, -1))
