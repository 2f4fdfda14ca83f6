"""Supervised InfoNCE revisited, SINCERE (Feeney and Hughes 2023)."""

from __future__ import annotations

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, log_sigmoid, sigmoid
from gradlab.losses.candidate_loss import (
    ScoredCandidates,
    SeveralPositives,
    log_sum_exp_over,
    softmax_over,
)
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("sincere", cites="feeney2023sincere")
class SINCERE(SeveralPositives):
    """Supervised InfoNCE revisited (Feeney and Hughes 2023): InfoNCE averaged over positives.

    No positive is in another's denominator, so none is ever repelled, unlike in `supcon`. Each
    pulls with its own gate ``g_p``: distant positives pull more. Labels work as in `supcon`;
    without labels it is InfoNCE.
    """

    temperature: float = setting(0.1, "softmax temperature τ", rule="positive")

    formula = "-1/|P_i| Σ_p log σ(cos θ_ip/τ - log Σ_k exp(cos θ_ik'/τ))"

    def value(self, candidates: ScoredCandidates) -> Float[Array, "n"]:
        """Return ``mean_p -log σ(s_p/τ - LSE_N)``."""
        xp, gap = array_namespace(candidates.cosine), self._gap(candidates)
        losses = xp.where(candidates.positive, -log_sigmoid(gap), xp.zeros_like(candidates.cosine))
        return xp.sum(losses, axis=-1) / candidates.count(candidates.positive)

    def coefficients(
        self, candidates: ScoredCandidates
    ) -> tuple[Float[Array, "n c"], Float[Array, "n c"]]:
        """Return ``softmax_j Σ_p g_p/τ`` and ``g_p/τ``."""
        xp = array_namespace(candidates.cosine)
        gate = (
            sigmoid(-self._gap(candidates))
            / (self.temperature * candidates.count(candidates.positive))[:, None]
        )
        gate = xp.where(candidates.positive, gate, xp.zeros_like(gate))
        total = xp.sum(gate, axis=-1, keepdims=True)
        return softmax_over(candidates.negative, self.logits(candidates)) * total, gate

    def _gap(self, candidates: ScoredCandidates) -> Float[Array, "n c"]:
        """Return ``s_p/τ - LSE_N``, (n, c); +inf without negatives."""
        logits = self.logits(candidates)
        return logits - log_sum_exp_over(candidates.negative, logits)[:, None]
