"""Multiple-instance contrastive loss MIL-NCE (Miech et al. 2020)."""

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


@register("mil_nce", cites="miech2020end")
class MILNCE(SeveralPositives):
    """MIL-NCE (Miech et al. 2020): all positives against all candidates, summed in the logarithm.

    It is enough that any one of the positives is close. The pull is shared by the softmax over the
    positives, so the closest one dominates. Up to the constant ``log |P|``, it is Khosla's loss
    with the mean inside the logarithm. Labels work as in `supcon`; without labels it is InfoNCE.
    """

    title = "MIL-NCE"
    settings_source = (
        "Temperature: as for InfoNCE; the paper's vectors are not normalised, and it has none."
    )
    formula = "-log(Σ_p exp(cos θ_ip/τ)/Σ_c exp(cos θ_ic/τ))"

    def value(self, candidates: ScoredCandidates) -> Float[Array, "n"]:
        """Return ``-log σ(LSE_P - LSE_N)``."""
        logits = self.logits(candidates)
        near, far = (
            log_sum_exp_over(candidates.positive, logits),
            log_sum_exp_over(candidates.negative, logits),
        )
        return -log_sigmoid(near - far)

    def coefficients(
        self, candidates: ScoredCandidates
    ) -> tuple[Float[Array, "n c"], Float[Array, "n c"]]:
        """Return ``q_j/τ`` and ``Q softmax_p/τ``."""
        xp, logits = array_namespace(candidates.cosine), self.logits(candidates)
        share = softmax_over(candidates.role != 0, logits) / self.temperature
        push = xp.where(candidates.negative, share, xp.zeros_like(share))
        return push, softmax_over(candidates.positive, logits) * xp.sum(
            push, axis=-1, keepdims=True
        )
