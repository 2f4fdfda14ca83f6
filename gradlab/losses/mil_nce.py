"""Multiple-instance contrastive loss MIL-NCE (Miech et al. 2020)."""

from __future__ import annotations

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, log_sigmoid
from gradlab.losses.candidate_loss import Seen, SeveralPositives, log_sum_exp_over, softmax_over
from gradlab.losses.registry import register


@register("mil_nce", cites="miech2020end")
class MILNCE(SeveralPositives):
    """MIL-NCE (Miech et al. 2020): all positives against all candidates, summed in the logarithm.

    It is enough that any one of the positives is close. The pull is shared by the softmax over the
    positives, so the closest one dominates. Up to the constant ``log |P|``, it is Khosla's loss
    with the mean inside the logarithm. Labels work as in `supcon`; without labels it is InfoNCE.
    """

    title = "MIL-NCE"
    settings_source = (
        "Temperature: that of InfoNCE; the paper's vectors are not normalised, and it has none."
    )
    formula = "-log(Σ_p exp(cos θ_ip/τ)/Σ_c exp(cos θ_ic/τ))"

    def value(self, seen: Seen) -> Float[Array, "n"]:
        """Return ``-log σ(LSE_P - LSE_N)``."""
        logits = self.logits(seen)
        near, far = log_sum_exp_over(seen.positive, logits), log_sum_exp_over(seen.negative, logits)
        return -log_sigmoid(near - far)

    def coefficients(self, seen: Seen) -> tuple[Float[Array, "n c"], Float[Array, "n c"]]:
        """Return ``q_j/τ`` and ``Q softmax_p/τ``."""
        xp, logits = array_namespace(seen.cosine), self.logits(seen)
        share = softmax_over(seen.role != 0, logits) / self.temperature
        push = xp.where(seen.negative, share, xp.zeros_like(share))
        return push, softmax_over(seen.positive, logits) * xp.sum(push, axis=-1, keepdims=True)
