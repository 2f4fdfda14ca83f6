"""A combinator that adds several losses."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from gradlab.arrays import cached_property
from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.losses.combinator import Combinator, read_weights, write_weights
from gradlab.losses.registry import get_loss, register
from gradlab.settings import setting
from gradlab.settings.call_parsing import split_texts


@register("sum")
class Sum(Combinator):
    """Weighted sum ``Σ_m λ_m L_m`` of any losses and combinators on the same batch.

    Coefficients of pairs add up; ``components(...).terms`` holds the factor and the components of
    each term. Beside losses with one value per anchor, the value of a loss of the whole batch is
    added in every row: the mean over rows is the printed sum, and the components belong to the
    sum over rows.

    With prefixes, the gradient is the sum of the terms' gradients; components use
    the longest prefix.
    """

    losses: Any = setting(
        "infonce, gor", "losses that are added; in Python a list of them", rule="text"
    )
    weights: Any = setting("", "factor of each loss, joined by +; empty for 1 each", rule="text")

    first_setting: ClassVar[str] = "losses"
    takes_several: ClassVar[bool] = True
    example = "sum(infonce, gor, weights=1+0.1)"
    title = "sum"
    formula = "Σ_m λ_m L_m(h, h')"
    not_simulated = "its terms have dissipations of their own; simulate them one by one"

    def __post_init__(self) -> None:
        losses = split_texts(self.losses) if isinstance(self.losses, str) else self.losses
        if not isinstance(losses, (list, tuple)) or not losses:
            raise GradlabError(
                "losses must be a list of losses, or a text such as 'infonce, gor', "
                f"not {self.losses!r}"
            )
        self._fix(losses=tuple(get_loss(loss) for loss in losses))
        self._fix(weights=write_weights(self._factors))
        super().__post_init__()

    @property
    def terms(self) -> tuple[Loss, ...]:
        return tuple(self.losses)

    @cached_property
    def _factors(self) -> list[float]:
        return read_weights(self.weights, len(self.losses), "loss")

    def terms_of(self, batch: Batch) -> list[tuple[float, Loss, Batch]]:
        """Return each loss with the batch; those that take no own negatives get it without them."""
        without_own = batch = batch.sharing_products()
        if "own_negatives" in self.looks_at:
            without_own = dataclasses.replace(batch, own_negatives=None)
        return [
            (weight, loss, batch if "own_negatives" in loss.looks_at else without_own)
            for weight, loss in zip(self._factors, self.losses, strict=True)
        ]
