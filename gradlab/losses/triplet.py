"""Triplet loss with labels and mining (Schroff et al. 2015)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, Int, as_float, one_hot, take
from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError
from gradlab.losses.candidate_loss import CandidateLoss, ScoredCandidates
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("triplet", cites="schroff2015facenet")
class Triplet(CandidateLoss):
    """``Σ max(0, cos θ_in' - cos θ_ip + m)`` over triplets (Schroff et al. 2015).

    A triplet is an anchor, a positive and a negative. ``mining`` selects the triplets of an anchor:
    ``all``; ``hard``, the farthest positive with the closest negative; or ``semi_hard``, each
    positive with the closest negative farther than it, or the farthest negative if there is none.
    Of equally hard candidates, the first one counts. Labels define the positives, as in `supcon`;
    without labels, each anchor has its own positive. The dissipation is the number of active
    triplets, which violate the margin; weights and pull shares are a sentence's fraction of them.

    The value of an anchor is the sum over its triplets. ``mean_over`` changes the mean over a
    batch, as in other libraries: ``active`` averages over active triplets, ``positives`` over pairs
    of anchor and positive. Values and dissipations are then multiplied by N over that number.
    """

    margin: float = setting(0.1, "margin m between cosines", rule="non-negative")
    mining: str = setting(
        "all", "triplets that count: all, hard or semi_hard", choices=("all", "hard", "semi_hard")
    )
    mean_over: str = setting(
        "anchors",
        "what a batch's mean counts: anchors, active triplets, or pairs of anchor and positive",
        choices=("anchors", "active", "positives"),
    )

    settings_source = "Margin: the paper's 0.2 of squared distances, which are 2 - 2 cos θ."
    formula = "Σ_p Σ_k max(0, cos θ_ik' - cos θ_ip + m)"
    not_simulated = (
        "the number of active triplets depends on the positive and all negatives together; "
        "mpt and met have one of each anchor"
    )

    def value(self, candidates: ScoredCandidates) -> Float[Array, "n"]:
        xp, cosine = array_namespace(candidates.cosine), candidates.cosine
        total = xp.zeros_like(cosine[:, 0])
        for index, negatives in self._triplets(candidates):
            excess = cosine - take(cosine, index)[:, None] + self.margin
            active = negatives & (excess > 0)
            total = total + xp.sum(xp.where(active, excess, xp.zeros_like(excess)), axis=-1)
        return total

    def coefficients(
        self, candidates: ScoredCandidates
    ) -> tuple[Float[Array, "n c"], Float[Array, "n c"]]:
        """Return the number of active triplets with each candidate as negative, and as positive."""
        cosine = candidates.cosine
        push = pull = array_namespace(cosine).zeros_like(cosine)
        for index, negatives in self._triplets(candidates):
            excess = cosine - take(cosine, index)[:, None] + self.margin
            active = as_float(negatives & (excess > 0), cosine)
            push, count = push + active, array_namespace(cosine).sum(active, axis=-1)
            pull = pull + one_hot(index, cosine.shape[-1], count)
        return push, pull

    def factor(self, batch: Batch) -> Any:
        """Return N over the number that ``mean_over`` counts in the whole batch."""
        if self.mean_over == "anchors":
            return 1.0
        own = batch.whole.own_negatives
        if own is not None and own.shape[0] < batch.count:
            raise GradlabError(
                f"triplet(mean_over={self.mean_over}) counts triplets of all processes, "
                "which do not know each other's own negatives; use mean_over=anchors"
            )
        total, xp = batch.total(self._count), array_namespace(batch.anchors)
        return batch.count / xp.where(total > 0, total, xp.ones_like(total))

    def _count(self, rows: Batch) -> Float[Array, ""]:
        """Return the number of active triplets of some rows, or of their pairs with positives."""
        candidates, lacks_positive = self._candidates_of(rows)
        xp, counts = (
            array_namespace(candidates.cosine),
            as_float(candidates.positive, candidates.cosine),
        )
        if self.mean_over == "active":
            counts = self.coefficients(candidates)[0]
        if lacks_positive is not None:
            counts = xp.where(lacks_positive[:, None], 0 * counts, counts)
        return xp.sum(counts)

    def _triplets(
        self, candidates: ScoredCandidates
    ) -> Iterator[tuple[Int[Array, "n"], Bool[Array, "n c"]]]:
        """Yield a positive of each anchor at a time, (n,), and its triplets' negatives, (n, c)."""
        xp, cosine, inf = array_namespace(candidates.cosine), candidates.cosine, float("inf")
        places = xp.arange(cosine.shape[-1], device=cosine.device)
        if self.mining == "hard":
            positive = xp.argmin(xp.where(candidates.positive, cosine, inf), axis=-1)
            negative = xp.argmax(xp.where(candidates.negative, cosine, -inf), axis=-1)
            yield positive, candidates.negative & (places == negative[:, None])
            return
        remaining_positives = as_float(candidates.positive, cosine)  # positives not yet yielded
        for _ in range(int(xp.max(xp.sum(remaining_positives, axis=-1)))):
            index = xp.argmax(remaining_positives, axis=-1)
            negatives = candidates.negative & (xp.max(remaining_positives, axis=-1) > 0)[:, None]
            remaining_positives = xp.where(
                places == index[:, None], xp.zeros_like(remaining_positives), remaining_positives
            )
            if self.mining == "semi_hard":
                farther = negatives & (cosine < take(cosine, index)[:, None])
                near = xp.argmax(xp.where(farther, cosine, -inf), axis=-1)
                far = xp.argmin(xp.where(negatives, cosine, inf), axis=-1)
                negative_index = xp.where(xp.any(farther, axis=-1), near, far)
                negatives = negatives & (places == negative_index[:, None])
            yield index, negatives
