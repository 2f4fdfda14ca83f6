"""Supervised contrastive loss (Khosla et al. 2020)."""

from __future__ import annotations

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, log_sigmoid
from gradlab.losses.candidate_loss import Seen, SeveralPositives, log_sum_exp_over, softmax_over
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

    def value(self, seen: Seen) -> Float[Array, "n"]:
        """Return the value of `mil_nce` plus what the positives differ by."""
        logits = self.logits(seen)
        near, far = log_sum_exp_over(seen.positive, logits), log_sum_exp_over(seen.negative, logits)
        return self._spread(seen) - log_sigmoid(near - far)

    def _spread(self, seen: Seen) -> Float[Array, "n"]:
        """Return ``log Σ_p e^{s_p/τ} - mean_p s_p/τ``, which is exactly 0 for one positive.

        Its derivative is then exactly 0, too. Autograd adds derivatives up at an array: the logits
        are another one than those of the rest of the value, whose derivatives may be far below 1.
        """
        logits = self.logits(seen)
        xp = array_namespace(logits)
        pulled = xp.sum(xp.where(seen.positive, logits, xp.zeros_like(logits)), axis=-1)
        return log_sum_exp_over(seen.positive, logits) - pulled / seen.count(seen.positive)

    def coefficients(self, seen: Seen) -> tuple[Float[Array, "n c"], Float[Array, "n c"]]:
        """Return ``q_j/τ`` and ``(1/|P| - q_p)/τ``."""
        xp = array_namespace(seen.cosine)
        share = softmax_over(seen.role != 0, self.logits(seen)) / self.temperature
        zero = xp.zeros_like(share)
        push, near = (xp.where(which, share, zero) for which in (seen.negative, seen.positive))
        # 1 is the sum of all shares: near 1, the difference of 1 and a share would be rounding.
        others = xp.sum(near, axis=-1, keepdims=True) - seen.count(seen.positive)[:, None] * near
        pull = (xp.sum(push, axis=-1, keepdims=True) + others) / seen.count(seen.positive)[:, None]
        return push, xp.where(seen.positive, pull, zero)
