"""Baseline and stop-gradient surrogate for any gate, weight and ratio (Li et al. 2024, Eq. 5)."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, detach, finite
from gradlab.batch.batch import Batch
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.losses.batch_loss import BatchLoss
from gradlab.losses.exact_gates import HardGate
from gradlab.losses.mpt import MPT
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.registry import register
from gradlab.settings import setting


def effective_ratio_option() -> Any:
    """Return the field ``effective_ratio``; `Baseline` and `ModifiedLoss` explain it."""
    return setting(
        "r",
        "r, or 2r where the positive alone also moves, towards its anchor, "
        "as in the published training",
        choices=("r", "2r"),
    )


def surrogate_value(
    dissipation: Float[Array, "*n"],
    pushed: Float[Array, "*n"],
    positive_weight: Float[Array, "*n"] | Float[Array, "n d"],
    pull: Float[Array, "*n"] | Float[Array, "n d"],
) -> Float[Array, "*n"]:
    """Return the surrogate ``sg(GD_i) (pushed_i - sg(Σ_j W_ij R_ij) pull_i)``, (...,).

    Args:
        dissipation: ``GD``.
        pushed: ``Σ_j sg(W_ij) cos θ_ij`` over the negatives.
        positive_weight: ``Σ_j W_ij R_ij``; infinite or undefined ones, as between vectors that
            coincide or are opposite, have no direction and count as 0.
        pull: cosines to the positives; for a diagonal ratio the products ``h_ic h_ic'``.
    """
    pulled = finite(detach(positive_weight)) * pull
    pulled = pulled if pulled.ndim == pushed.ndim else array_namespace(pulled).sum(pulled, axis=-1)
    return detach(dissipation) * (pushed - pulled)


class SurrogateLoss(PairLoss):
    """Base class of stop-gradient surrogates (Li et al. 2024, Eq. 5).

    The value is ``L_i = sg(GD_i) Σ_j sg(W_ij) (S_ij - sg(R_i) p_i)``. The derivative restates the
    components, so agreement with autograd does not validate them.
    """

    surrogate = True
    effective_ratio: str  # a field of each subclass

    def __post_init__(self) -> None:
        super().__post_init__()
        self._fix(negatives_are_fixed=self.effective_ratio == "2r")

    def value(self, positive: PairSimilarity, negatives: Negatives) -> Float[Array, "*n"]:
        summary = self.summary(negatives)
        total, pushed = negatives.weighted(self.weight)
        pull = total * self.ratio(positive, summary)
        return surrogate_value(self.dissipation(positive, summary), pushed, pull, positive.cosine)


class SurrogateOnViews(BatchLoss):
    """Base class of the same surrogates on whole views, and of what else has an effective ratio.

    With ``effective_ratio="2r"``, only the anchors and, towards them, the positives move. With
    ``"r"``, negatives in the other view move too; if the negatives are the other anchors, neither
    these nor the positives move.
    """

    has_one_value = False
    effective_ratio: str  # a field of each subclass

    @property
    def moves_positives(self) -> str:
        """``"pull"`` with ``"2r"``; else ``"nothing"`` with same-view negatives, or ``"all"``."""
        if self.effective_ratio == "2r":
            return "pull"
        return "nothing" if self.negative_view == "same" else "all"

    def pulled(self, batch: Batch) -> Batch:
        """Return the views whose pairs are pulled, with fixed positives if these do not move."""
        return batch.with_fixed_positives() if self.moves_positives == "nothing" else batch

    def value(self, batch: Batch) -> Float[Array, "*n"]:
        if self.negative_view == "same":
            negatives = batch.same_view_fixed
        else:
            moving = self.moves_positives == "all"
            negatives = (batch if moving else batch.with_fixed_positives()).other_view
        total, pushed = batch.weighted_cosines(self.negative_weight, negatives)
        positive_weight, pulled = self.positive_weight(batch, total), self.pulled(batch)
        diagonal = positive_weight.ndim > 1
        pull = pulled.anchors * pulled.positives if diagonal else pulled.positive.cosine
        return surrogate_value(self.dissipation(batch), pushed, positive_weight, pull)


@register("baseline", cites="li2024towards")
class Baseline(SurrogateLoss):
    """MPT's gate, a softmax weight without 1/τ and a free constant ratio (Li et al. 2024, Eq. 5).

    ``effective_ratio`` determines how training moves the other view; components and the anchors'
    gradient do not depend on it. With ``"r"`` (Eq. 5 as printed), positives and negatives move
    too: pull and push act on both sentences of a pair. With ``"2r"``, as in the published
    training, no gradient reaches the negatives, but the positive still moves towards its anchor:
    the pair closes as under the ratio 2r with fixed positives (exactly so to first order, if
    embeddings move freely).
    """

    margin: float = setting(0.30, "margin m of the gate, between cosines")
    temperature: float = setting(0.05, "softmax temperature τ of the weight", rule="positive")
    static_ratio: float = setting(1.0, "ratio r")
    effective_ratio: str = effective_ratio_option()

    title = "baseline (Eq. 5)"
    formula = (
        "sg(1{cos θ_ii' - max_k cos θ_ik' < m}) Σ_j sg(softmax_j(cos θ_ij'/τ)) "
        "(cos θ_ij' - r cos θ_ii')"
    )

    def summary(self, negatives: Negatives) -> PairSimilarity:
        return negatives.hardest

    def dissipation(self, positive: PairSimilarity, summary: PairSimilarity) -> Float[Array, "*n"]:
        return MPT(self.margin).dissipation(positive, summary)

    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return ``softmax_j(S_ij/τ)``."""
        return negatives.softmax(self.temperature)

    def ratio(self, positive: PairSimilarity, summary: PairSimilarity) -> Float[Array, "*#n"]:
        return array_namespace(positive.chord).full_like(positive.chord, self.static_ratio)

    def exact_gate(self) -> HardGate:
        return MPT(self.margin).exact_gate()
