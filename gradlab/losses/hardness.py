"""Hard negatives that weigh more."""

from __future__ import annotations

import dataclasses

from gradlab.batch.batch import Batch
from gradlab.batch.candidates import HardnessTerm
from gradlab.errors import GradlabError
from gradlab.losses.base import PairLoss
from gradlab.losses.combinator import ChangedRow, OtherCandidates
from gradlab.losses.registry import loss_class, loss_names, register
from gradlab.settings import setting


@register("hardness")
class Hardness(OtherCandidates):
    """Logits ``cos θ/τ + α sg(cos θ)`` of negatives (Lan et al. 2025): their weight and the dissipation change, the ratio stays.

    ``on`` says of which negatives: ``all``; those of the ``other`` view, with the extra ones, in a loss that has more pools; of
    these, ``in_batch`` leaves out the row's own hard negatives, and ``hard`` has them alone (EmbeddingGemma): its own negatives,
    and the extra ones that it owns. The last two ask for the owners of the extra negatives where there are any.
    """

    alpha: float = setting(5.0, "factor α of the cosine that is added", rule="positive")
    on: str = setting(
        "all",
        "negatives that it acts on: all, other (view), in_batch, hard",
        choices=("all", "other", "in_batch", "hard"),
    )

    title = "hardness"
    paper = "Lan et al. (2025)"
    formula = "L with logits cos θ/τ + α sg(cos θ) of negatives"

    def __post_init__(self) -> None:
        super().__post_init__()
        for base in self.bases:
            if not (isinstance(base, PairLoss) and base.takes_hardness):
                able = [name for name in loss_names() if getattr(loss_class(name), "takes_hardness", False)]
                raise GradlabError(
                    f"hardness takes losses whose negatives are logits at a temperature ({', '.join(able)}), not {base.name}"
                )

    def seen(self, views: Batch) -> Batch:
        if self.on == "hard" and views.extra_negatives is None and views.own_negatives is None:
            return views
        return views.with_candidates(hardness=(*views.candidates.hardness, HardnessTerm(self.alpha, self.on)))

    @property
    def not_simulated(self) -> str:  # type: ignore[override]  # of the class in other losses; here it depends on what is changed
        if self.on == "hard":
            return "angles do not tell which negatives are a sentence's own hard ones"
        return str(self.loss.not_simulated)

    def changed(self, row: ChangedRow) -> ChangedRow | None:
        return None if self.on == "hard" else dataclasses.replace(row, alpha=row.alpha + self.alpha)
