"""Combinators of losses on pairs as sums of such losses, each on its own rows."""

from __future__ import annotations

import dataclasses
from typing import Any

from gradlab.errors import GradlabError
from gradlab.geometry.views import unit_rows
from gradlab.losses.base import Loss, PairLoss
from gradlab.losses.per_prefix import PerPrefix
from gradlab.losses.symmetric import Symmetric


@dataclasses.dataclass(frozen=True)
class Term:
    """A loss on pairs that is part of another loss.

    Attributes:
        loss: it.
        factor: what it is multiplied by.
        exchanged: whether its anchors are the positives, and the reverse; then it sees no extra negatives.
        dimensions: leading coordinates that it sees, normalised again; None for all.
    """

    loss: PairLoss
    factor: float = 1.0
    exchanged: bool = False
    dimensions: int | None = None

    def rows(self, anchors: Any, positives: Any, extra_negatives: Any) -> tuple[Any, Any, Any]:
        """What it sees of the rows of the whole loss."""
        given = (positives, anchors, None) if self.exchanged else (anchors, positives, extra_negatives)
        if self.dimensions is None:
            return given
        first, second, extra = (
            None if rows is None else unit_rows(rows[:, : self.dimensions]) for rows in given
        )
        return first, second, extra


def pair_terms(loss: Loss) -> list[Term]:
    """The losses on pairs that a loss is a sum of.

    Raises:
        GradlabError: a loss that is no such sum.
    """
    if isinstance(loss, PairLoss):
        return [Term(loss)]
    if isinstance(loss, Symmetric):
        first, second = (pair_terms(term) for term in loss.terms)
        turned = [dataclasses.replace(one, exchanged=not one.exchanged) for one in second]
        return [dataclasses.replace(one, factor=one.factor / 2) for one in (*first, *turned)]
    if isinstance(loss, PerPrefix):
        return [
            dataclasses.replace(one, factor=one.factor * weight, dimensions=dimensions)
            for dimensions, weight in loss.prefixes.items()
            for one in pair_terms(loss.loss)
        ]
    raise GradlabError(
        f"group= takes losses on pairs such as infonce, arccon, mpt or baseline, and symmetric or per_prefix of them; {loss.name} "
        "needs more of the whole batch than the summaries of its rows"
    )
