"""Several losses at once."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.losses.combinator import Combinator, read_weights, write_weights
from gradlab.losses.registry import get_loss, register
from gradlab.settings import setting
from gradlab.settings.text import split_texts


@register("sum")
class Sum(Combinator):
    """``Σ_m λ_m L_m``: the weighted sum of any losses and combinators, on the same batch.

    Coefficients of pairs add up, so the components of the sum follow from those of its terms; ``components(...).terms`` holds
    each term's factor and its own components. A loss of the whole batch stands beside losses of rows as everywhere: each row has
    its value, the mean over rows is the printed sum, and components follow the sum over rows.

    With a term that has prefixes the gradient is the sum of the terms' gradients, and the split that of the longest prefix.
    """

    losses: Any = setting("infonce, gor", "losses that are added; in Python a list of them", rule="text")
    weights: Any = setting("", "factor of each loss, joined by +; empty for 1 each", rule="text")

    first_setting: ClassVar[str] = "losses"
    takes_several: ClassVar[bool] = True
    example = "sum(infonce, gor, weights=1+0.1)"
    title = "sum"
    formula = "Σ_m λ_m L_m(h, h')"
    not_simulated = "its terms have dissipations of their own; simulate them one by one"

    def __post_init__(self) -> None:
        given = split_texts(self.losses) if isinstance(self.losses, str) else self.losses
        if not isinstance(given, (list, tuple)) or not given:
            raise GradlabError(
                f"losses must be a list of losses, or a text such as 'infonce, gor', not {self.losses!r}"
            )
        object.__setattr__(self, "losses", tuple(get_loss(one) for one in given))
        weights = read_weights(self.weights, len(self.losses), "loss")
        object.__setattr__(self, "weights", write_weights(weights))
        super().__post_init__()

    @property
    def terms(self) -> tuple[Loss, ...]:
        found: tuple[Loss, ...] = self.losses
        return found

    @property
    def takes_own_negatives(self) -> bool:  # type: ignore[override]  # of the class in other losses
        return any(loss.takes_own_negatives for loss in self.losses)

    def terms_of(self, batch: Batch) -> list[tuple[float, Loss, Batch]]:
        """Each loss on the batch; losses of whole views without own negatives, beside losses that take them."""
        weights = read_weights(self.weights, len(self.losses), "loss")
        batch = batch.sharing_products()
        views = dataclasses.replace(batch, own_negatives=None) if self.takes_own_negatives else batch
        return [
            (weight, loss, batch if loss.takes_own_negatives else views)
            for weight, loss in zip(weights, self.losses, strict=True)
        ]
