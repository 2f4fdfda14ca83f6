"""A combinator that gives hard negatives more weight (Lan et al. 2025)."""

from __future__ import annotations

import dataclasses

from gradlab.batch.batch import Batch
from gradlab.batch.candidates import HardnessTerm
from gradlab.errors import GradlabError
from gradlab.losses.combinator import ChangedRow, OtherCandidates
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("hardness")
class Hardness(OtherCandidates):
    """Give negatives logits ``cos θ/τ + α sg(cos θ)`` (Lan et al. 2025); the ratio does not change.

    ``on`` selects the negatives: ``all``; ``other``, those in the other view, extra and own
    negatives; ``hard`` (EmbeddingGemma), the row's own negatives and the extra negatives that it
    owns; or ``in_batch``, those of ``other`` without the ``hard`` ones. The last two need the
    owners of any extra negatives.
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
    not_simulated = "angles do not tell which negatives are a sentence's own hard ones"

    def __post_init__(self) -> None:
        super().__post_init__()
        for base in self.bases:
            if not (isinstance(base, PairLoss) and base.takes_hardness):
                raise GradlabError(
                    "hardness takes losses whose negatives are logits at a temperature, "
                    f"such as infonce, not {base.name}"
                )
        if self.on != "hard":
            self._fix(not_simulated=self.loss.not_simulated)

    def inner_batch(self, batch: Batch) -> Batch:
        if self.on == "hard" and batch.extra_negatives is None and batch.own_negatives is None:
            return batch
        return batch.with_candidates(
            hardness=(*batch.candidates.hardness, HardnessTerm(self.alpha, self.on))
        )

    def changed(self, row: ChangedRow) -> ChangedRow | None:
        return None if self.on == "hard" else dataclasses.replace(row, alpha=row.alpha + self.alpha)
