"""The stop-gradient surrogate of Eq. 5: any gate, weight and ratio as a loss that can be trained."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, detach, finite
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.losses.base import PairLoss
from gradlab.settings import setting


def effective_ratio_option() -> Any:
    """The field ``effective_ratio``: what training does to the other view; the docstrings of its losses say more."""
    return setting(
        "r",
        "r, or 2r where the positive alone also moves, towards its anchor, as in the published training",
        choices=("r", "2r"),
    )


def surrogate_value(
    dissipation: Float[Array, "*n"],
    pushed: Float[Array, "*n"],
    positive_weight: Float[Array, "*n"] | Float[Array, "n d"],
    pull: Float[Array, "*n"] | Float[Array, "n d"],
) -> Float[Array, "*n"]:
    """``sg(GD_i) (pushed_i - sg(Σ_j W_ij R_ij) pull_i)``.

    Args:
        dissipation: ``GD``.
        pushed: ``Σ_j sg(W_ij) cos θ_ij`` over the negatives.
        positive_weight: ``Σ_j W_ij R_ij``; (n, d) for a diagonal ratio. Where it is infinite or undefined, as
            of some ratios between vectors that coincide or are opposite, it has no direction and counts as 0.
        pull: cosines to the positives; with a diagonal ratio the products ``h_ic h_ic'``, (n, d).
    """
    pulled = finite(detach(positive_weight)) * pull
    pulled = pulled if pulled.ndim == pushed.ndim else array_namespace(pulled).sum(pulled, axis=-1)
    return detach(dissipation) * (pushed - pulled)


@dataclasses.dataclass(frozen=True)
class SurrogateLoss(PairLoss):
    """``L_i = sg(GD_i) Σ_j sg(W_ij) (S_ij - sg(R_i) p_i)`` (Li et al. 2024, Eq. 5).

    Its derivative restates the components, so agreement with autograd says nothing about them.
    """

    surrogate: ClassVar[bool] = True

    def value(self, positive: PairSimilarity, negatives: Negatives) -> Float[Array, "*n"]:
        summary = self.summary(negatives)
        total, pushed = negatives.weighted(self.weight)
        pull = total * self.ratio(positive, summary)
        return surrogate_value(self.dissipation(positive, summary), pushed, pull, positive.cosine)
