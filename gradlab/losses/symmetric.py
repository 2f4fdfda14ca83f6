"""A combinator that averages both directions of a loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradlab.arrays import Array, Float
from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.losses.combinator import Modifier, OtherCandidates
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.pool import Pool
from gradlab.losses.registry import get_loss, register
from gradlab.settings import setting


@register("symmetric")
class Symmetric(Modifier):
    """Average a loss over both directions (views exchanged); ``symmetric(infonce)`` is CLIP's loss.

    With coefficients ``n^r, a^r`` of the rows and ``n^c, a^c`` of the exchanged views,
    ``n_ij = (n^r_ij + n^c_ji)/2`` and ``a_i = (a^r_i + a^c_i)/2``, so the ratio is not that of
    the loss. Only anchors have extra negatives; for a single sentence, the other
    direction is 0 without gradient.

    If only one direction is a loss of the whole batch, its value is added in every row: the mean
    over rows is the mean of both directions, ``reduction="sum"`` is N times that, and the
    components belong to the sum.
    """

    reverse: Any = setting(
        "", "loss of the other direction; empty for the same as of the first", rule="text"
    )

    exchanged_terms = (1,)
    title = "symmetric"
    paper = "Radford et al. (2021)"
    formula = "(L(h, h') + L(h', h))/2"
    not_simulated = (
        "half of what pushes an anchor comes from the rows of other sentences, "
        "which the angles of one anchor do not tell"
    )

    def __post_init__(self) -> None:
        if not (isinstance(self.reverse, str) and self.reverse == ""):
            self._fix(reverse=get_loss(self.reverse))
        super().__post_init__()
        if "own_negatives" not in self.loss.looks_at:  # the other direction has none
            self._fix(looks_at=self.looks_at - {"own_negatives"})

    @property
    def terms(self) -> tuple[Loss, ...]:
        return self.loss, self.loss if isinstance(self.reverse, str) else self.reverse

    def terms_of(self, batch: Batch) -> list[tuple[float, Loss, Batch]]:
        (first, second), batch = self.terms, batch.sharing_products()
        return [(0.5, first, batch), (0.5, second, _exchanged(batch))]

    def displaced_pushes(self, batch: Batch) -> Sequence[Float[Array, "n"]] | None:
        """Return half of the rows' displaced pushes, and half of what the other direction pushes.

        An anchor is a negative in the rows of the other direction, which its positive does not
        enter. None unless it `shares_coefficients`.
        """
        of_rows = self.terms[0].displaced_pushes(batch) if self.shares_coefficients(batch) else None
        if of_rows is None:
            return None
        _, (_, reverse, exchanged) = self.terms_of(batch)
        push = reverse.sides_of(exchanged)[1].total_push
        return [(rows + push) / 2 for rows in of_rows]

    def shares_coefficients(self, batch: Batch) -> bool:
        """Whether the positives' coefficients are those of the anchors, transposed."""
        return batch.candidates.pools == ("other",) and all(map(_acts_across_views, self.terms))


def _acts_across_views(loss: Loss) -> bool:
    """Whether all coefficients are of anchors and positives, or of anchors and other negatives."""
    return not loss.has(Pool) and all(
        isinstance(nested, OtherCandidates)
        or (isinstance(nested, PairLoss) and nested.moves_positives == "all")
        for nested in loss.within
    )


def _exchanged(batch: Batch) -> Batch:
    if not batch.in_batch_negatives:
        raise GradlabError(
            "symmetric needs in-batch negatives: its other direction sees no extra negatives"
        )
    return batch.without_extra_negatives().exchanged()
