"""What a combinator makes of a loss of pairs, as a function of one anchor's similarities: what the simulator draws."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float
from gradlab.batch.similarity import Negatives, PairSimilarity


@dataclasses.dataclass(frozen=True)
class ChangedRow:
    """A loss of pairs that sees other negatives than there are; shapes as in `gradlab.losses.base.PairLoss`.

    Attributes:
        loss: a `PairLoss`, or another changed row.
        change: what it sees of the negatives; -inf in columns that are left out.
    """

    loss: Any
    change: Callable[[Negatives], Negatives]

    @property
    def name(self) -> str:
        return str(self.loss.name)

    @property
    def one_hot_weight(self) -> bool:
        return bool(self.loss.one_hot_weight)

    @property
    def pulls_alone(self) -> bool:
        return bool(self.loss.pulls_alone)

    def summary(self, negatives: Negatives) -> Any:
        """The loss's, and which anchors have no negative left; None where those keep their pull."""
        seen, alone = self._seen(negatives)
        return self.loss.summary(seen), alone

    def dissipation(self, positive: PairSimilarity, summary: Any) -> Float[Array, "*n"]:
        """Gradient dissipation; 0 where no negative is left."""
        own, alone = summary
        return _where(alone, self.loss.dissipation(positive, own), 0.0)

    def ratio(self, positive: PairSimilarity, summary: Any) -> Float[Array, "*n"]:
        """Ratio; NaN where no negative is left."""
        own, alone = summary
        return _where(alone, self.loss.ratio(positive, own), float("nan"))

    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Weight; zeros where no negative is left."""
        seen, alone = self._seen(negatives)
        return _where(None if alone is None else alone[..., None], self.loss.weight(seen), 0.0)

    def _seen(self, negatives: Negatives) -> tuple[Negatives, Bool[Array, "*n"] | None]:
        changed = self.change(negatives)
        if self.pulls_alone:
            return changed, None
        xp, cosine = array_namespace(changed.cosine), changed.cosine
        alone = xp.all(xp.isinf(cosine), axis=-1)
        # Where nothing is left everything stays finite at right angles; what comes of it is dropped.
        return dataclasses.replace(changed, cosine=xp.where(alone[..., None], 0.0, cosine)), alone


def _where(condition: Array | None, values: Array, other: float) -> Array:
    if condition is None:
        return values
    xp = array_namespace(values)
    return xp.where(condition, xp.full_like(values, other), values)
