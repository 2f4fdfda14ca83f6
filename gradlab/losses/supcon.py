"""Supervised contrastive loss (Khosla et al. 2020)."""

from __future__ import annotations

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float
from gradlab.losses.candidate_loss import Seen, SeveralPositives, log_sum_exp_over, softmax_over
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("supcon", cites="khosla2020supervised")
class SupCon(SeveralPositives):
    """Supervised contrastive loss, the mean over positives outside the logarithm (Khosla et al. 2020, Eq. 2).

    With ``labels=``, the positives P of an anchor are all rows of the other view with its label and, if a
    pool contains the own view, the other anchors with its label. Khosla's loss of 2N views is
    ``symmetric(pool(supcon, negatives=other+same))``. Without labels it is InfoNCE.

    All positives are in the denominator and compete with each other. Let q be the softmax over all candidates
    and Q the probability of all negatives. A positive has the pull share ``V_ip = (1/|P| - q_ip)/Q_i``. With
    ``q_ip > 1/|P|``, it is negative: the positive is **repelled**, which `sincere` and `mil_nce` never do. As
    published, an anchor without negatives still equalises its positives.
    """

    temperature: float = setting(0.1, "softmax temperature τ", rule="positive")

    formula = "log Σ_c exp(cos θ_ic/τ) - 1/|P_i| Σ_p cos θ_ip/τ"

    def value(self, seen: Seen) -> Float[Array, "n"]:
        """Return ``log Σ_c e^{s_c/τ} - mean_p s_p/τ``."""
        xp, logits = array_namespace(seen.cosine), self.logits(seen)
        pulled = xp.sum(xp.where(seen.positive, logits, xp.zeros_like(logits)), axis=-1)
        return log_sum_exp_over(seen.role != 0, logits) - pulled / seen.count(seen.positive)

    def coefficients(self, seen: Seen) -> tuple[Float[Array, "n c"], Float[Array, "n c"]]:
        """Return ``q_j/τ`` and ``(1/|P| - q_p)/τ``."""
        xp = array_namespace(seen.cosine)
        share = softmax_over(seen.role != 0, self.logits(seen)) / self.temperature
        even = 1 / (self.temperature * seen.count(seen.positive))[:, None]
        zero = xp.zeros_like(share)
        return xp.where(seen.negative, share, zero), xp.where(seen.positive, even - share, zero)
