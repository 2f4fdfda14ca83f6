"""Supervised InfoNCE revisited, SINCERE (Feeney and Hughes 2023)."""

from __future__ import annotations

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, log_sigmoid, sigmoid
from gradlab.losses.candidate_loss import Seen, SeveralPositives, log_sum_exp_over, softmax_over
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

    def value(self, seen: Seen) -> Float[Array, "n"]:
        """Return ``mean_p -log σ(s_p/τ - LSE_N)``."""
        xp, gap = array_namespace(seen.cosine), self._gap(seen)
        each = xp.where(seen.positive, -log_sigmoid(gap), xp.zeros_like(seen.cosine))
        return xp.sum(each, axis=-1) / seen.count(seen.positive)

    def coefficients(self, seen: Seen) -> tuple[Float[Array, "n c"], Float[Array, "n c"]]:
        """Return ``softmax_j Σ_p g_p/τ`` and ``g_p/τ``."""
        xp = array_namespace(seen.cosine)
        gate = sigmoid(-self._gap(seen)) / (self.temperature * seen.count(seen.positive))[:, None]
        gate = xp.where(seen.positive, gate, xp.zeros_like(gate))
        total = xp.sum(gate, axis=-1, keepdims=True)
        return softmax_over(seen.negative, self.logits(seen)) * total, gate

    def _gap(self, seen: Seen) -> Float[Array, "n c"]:
        """Return ``s_p/τ - LSE_N``, (n, c); +inf without negatives."""
        logits = self.logits(seen)
        return logits - log_sum_exp_over(seen.negative, logits)[:, None]
