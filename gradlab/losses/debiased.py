"""Debiased contrastive loss (Chuang et al. 2020), and the base class that it shares with `hcl`."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, NamedTuple

from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, log, log_sigmoid, sigmoid
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.losses.components import Components
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.registry import register
from gradlab.losses.temperature import SoftmaxTemperature
from gradlab.settings import setting


class Mass(NamedTuple):
    """Summary of an anchor's negatives for a `ReweightedLoss`."""

    log: Float[Array, "*n"]  # log M, where M is the (reweighted) sum of e^{S_ik/τ}
    count: Float[Array, "*n"]  # K, the number of negatives


@dataclasses.dataclass(frozen=True)
class ReweightedLoss(SoftmaxTemperature, PairLoss):
    """``L_i = -log σ(p/τ - log N_g)``, ``N_g = max((M - K τ⁺ e^{p/τ})/(1 - τ⁺), K e^{-1/τ})``.

    τ⁺ is the probability of a false negative; their expected mass is subtracted from M. The result
    is clamped at the smallest mass that K true negatives can have. When it is clamped, the
    negatives do not push (the dissipation is 0), but the positive still pulls.
    """

    temperature: float = setting(0.5, "softmax temperature τ", rule="positive")
    prior: float = setting(
        0.0, "probability τ⁺ of a false negative; 0 takes nothing off", at_least=0, below=1
    )

    @abc.abstractmethod
    def log_mass(self, negatives: Negatives) -> Float[Array, "*n"]:
        """Return ``log M``."""

    def summary(self, negatives: Negatives) -> Any:
        return Mass(self.log_mass(negatives), negatives.count)

    def value(self, positive: PairSimilarity, negatives: Negatives) -> Float[Array, "*n"]:
        """Return ``log(1 + N_g e^{-p/τ})``."""
        free, clamped, is_free = self._log_ratios(positive, self.summary(negatives))
        return -log_sigmoid(-array_namespace(free).where(is_free, free, clamped))

    def dissipation(self, positive: PairSimilarity, summary: Any) -> Float[Array, "*n"]:
        """Return ``(N_g + c e^{p/τ})/(N_g + e^{p/τ})`` with ``c = K τ⁺/(1 - τ⁺)``; 0 if clamped."""
        free, _, is_free = self._log_ratios(positive, summary)
        excess = summary.count * (self.prior / (1 - self.prior))
        xp = array_namespace(free)
        return xp.where(is_free, sigmoid(free) + excess * sigmoid(-free), xp.zeros_like(free))

    def ratio(self, positive: PairSimilarity, summary: Any) -> Float[Array, "*#n"]:
        """Return 1; infinite if clamped."""
        _, _, is_free = self._log_ratios(positive, summary)
        xp = array_namespace(summary.log)
        unit_ratio = xp.ones_like(positive.chord) + xp.zeros_like(summary.log)
        return xp.where(is_free, unit_ratio, xp.inf * unit_ratio)

    def components(self, positive: PairSimilarity, negatives: Negatives) -> Components:
        """Compute the components; if clamped, the pull is ``N_g/(N_g + e^{p/τ})/τ`` at GD 0."""
        summary = self.summary(negatives)
        dissipation, weight = self.dissipation(positive, summary), self.weight(negatives)
        _, clamped, is_free = self._log_ratios(positive, summary)
        xp = array_namespace(weight)
        pull = xp.where(is_free, dissipation, sigmoid(clamped)) / self.temperature
        positive_weight = self.ratio(positive, summary) / self.temperature
        return Components(dissipation, weight, positive_weight, given_pull=pull)

    def _log_ratios(
        self, positive: PairSimilarity, summary: Any
    ) -> tuple[Float[Array, "*n"], Float[Array, "*n"], Bool[Array, "*n"]]:
        """Return ``log(N_g e^{-p/τ})`` unclamped and clamped, and which anchors are not clamped."""
        xp = array_namespace(summary.log)
        gap = summary.log - positive.cosine / self.temperature
        clamped = xp.log(summary.count) - positive.antichord * positive.antichord / (
            2 * self.temperature
        )
        prior = xp.full_like(gap, self.prior)
        # Intentionally -inf at prior 0: nothing is subtracted.
        log_share = log(summary.count * prior) - gap
        has_remainder = log_share < 0
        log_remainder = xp.log(
            -xp.expm1(xp.where(has_remainder, log_share, -xp.ones_like(log_share)))
        )
        free = gap + log_remainder - xp.log1p(-prior)
        # At prior 0 the mass is never below the clamp, except by rounding.
        return free, clamped, has_remainder & ((free > clamped) | (prior == 0))


@register("debiased", cites="chuang2020debiased")
class Debiased(ReweightedLoss):
    """Debiased contrastive loss (Chuang et al. 2020, Eq. 8): InfoNCE less expected false negatives.

    The closer the positive, the larger the mass subtracted for false negatives. The dissipation
    therefore tends to ``c = K τ⁺/(1 - τ⁺)`` instead of 0, until the clamp stops the push. Such a
    gate is simulated by sampling. The authors' code has the negatives of both views in one
    denominator (K = 2N - 2).
    """

    prior: float = setting(0.1, "probability τ⁺ of a false negative", at_least=0, below=1)

    settings_source = "Both: the defaults of the authors' code (chingyaoc/DCL), for images."
    formula = (
        "log(1 + N exp(-cos θ_ii'/τ)), "
        "N = max((Σ_k≠i exp(cos θ_ik'/τ) - K τ⁺ exp(cos θ_ii'/τ))/(1 - τ⁺), K exp(-1/τ))"
    )

    def log_mass(self, negatives: Negatives) -> Float[Array, "*n"]:
        """Return ``LSE_i``."""
        return negatives.log_sum_exp(self.temperature)

    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return ``softmax_j(S_ij/τ)/τ`` over the negatives."""
        return negatives.softmax(self.temperature) / self.temperature
