"""Supervised contrastive loss (Khosla et al. 2020)."""

from __future__ import annotations

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, log_sigmoid
from gradlab.losses.candidate_loss import (
    ScoredCandidates,
    SeveralPositives,
    log_sum_exp_over,
    softmax_over,
)
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("supcon", cites="khosla2020supervised")
class SupCon(SeveralPositives):
    """Supervised contrastive loss (Khosla et al. 2020, Eq. 2).

    The mean over positives is outside the logarithm. With ``labels=``, the positives P of an anchor
    are all rows of the other view with its label and, if a pool contains the own view, the other
    anchors with its label. Khosla's loss of 2N views is
    ``symmetric(pool(supcon, negatives=other+same))``. Without labels it is InfoNCE.

    All positives are in the denominator and compete with each other. Let q be the softmax over all
    candidates and Q the probability of all negatives. A positive has the pull share
    ``V_ip = (1/|P| - q_ip)/Q_i``. With ``q_ip > 1/|P|``, it is negative: the positive is
    **repelled**, which `sincere` and `mil_nce` never do. As published, an anchor without negatives
    still equalises its positives.
    """

    temperature: float = setting(0.1, "softmax temperature τ", rule="positive")

    formula = "log Σ_c exp(cos θ_ic/τ) - 1/|P_i| Σ_p cos θ_ip/τ"

    def value(self, candidates: ScoredCandidates) -> Float[Array, "n"]:
        """Return the value of `mil_nce` plus what the positives differ by."""
        logits = self.logits(candidates)
        near, far = (
            log_sum_exp_over(candidates.positive, logits),
            log_sum_exp_over(candidates.negative, logits),
        )
        return self._spread(candidates) - log_sigmoid(near - far)

    def _spread(self, candidates: ScoredCandidates) -> Float[Array, "n"]:
        """Return ``log Σ_p e^{s_p/τ} - mean_p s_p/τ``, which is exactly 0 for one positive.

        Its derivative is then exactly 0, too. Autograd adds derivatives up at an array: the logits
        are another one than those of the rest of the value, whose derivatives may be far below 1.
        """
        logits = self.logits(candidates)
        xp = array_namespace(logits)
        pulled = xp.sum(xp.where(candidates.positive, logits, xp.zeros_like(logits)), axis=-1)
        return log_sum_exp_over(candidates.positive, logits) - pulled / candidates.count(
            candidates.positive
        )

    def coefficients(
        self, candidates: ScoredCandidates
    ) -> tuple[Float[Array, "n c"], Float[Array, "n c"]]:
        """Return ``q_j/τ`` and ``(1/|P| - q_p)/τ``."""
        xp = array_namespace(candidates.cosine)
        share = softmax_over(candidates.role != 0, self.logits(candidates)) / self.temperature
        zero = xp.zeros_like(share)
        push = xp.where(candidates.negative, share, zero)
        near = xp.where(candidates.positive, share, zero)
        positives = candidates.count(candidates.positive)[:, None]
        # 1 is the sum of all shares: near 1, the difference of 1 and a share would be rounding.
        advantage = xp.sum(near, axis=-1, keepdims=True) - positives * near
        pull = (xp.sum(push, axis=-1, keepdims=True) + advantage) / positives
        return push, xp.where(candidates.positive, pull, zero)
