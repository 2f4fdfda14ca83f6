"""Loops of one's own that bring together rows that do not belong together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import faulty
from tests.judgement.first.fields import HELPDESK, KITCHEN, SHOP
from tests.judgement.first.opposed import Loop, encoder_of, hampered
from tests.judgement.first.turns import Rows, embed
from tests.judgement.stage import Stage, triplets
from tests.judgement.truth import among_alike

APART = (
    r"(?i)(mis|not |un)align|shuffl|(wrong|another|other|different) order|unrelated|mismatch|"
    r"do(es)? not "
    r"(belong|match|fit)",
    r"(?i)(random|wrong|other) (pair|positive|passage|partner)|positives?.{0,60}(no nearer|chance|"
    r"like (any|the) (negative|other)|as far)",
)


class TwoLoaders(Loop):
    """Batches of questions and of answers, of loaders that each shuffle by themselves."""

    def __init__(self, model: Any, table: dict[str, list[str]], seeds: tuple[int, int]) -> None:
        super().__init__(model, table)
        self.loaders = [
            Rows({name: column}, 16, seed)
            for (name, column), seed in zip(table.items(), seeds, strict=True)
        ]

    def inputs(self) -> list[Tensor]:
        return [embed(self.model, column) for loader in self.loaders for column in loader()]


@faulty(
    "a loader of each column, shuffled by itself",
    "Questions and answers come of two loaders that shuffle independently: the rows of a batch do "
    "not belong together.",
    APART,
)
def loaders_shuffled_independently(stage: Stage) -> None:
    """`zip(DataLoader(questions, shuffle=True), DataLoader(answers, shuffle=True))`."""
    hampered(
        stage,
        lambda is_faulty: TwoLoaders(
            encoder_of(stage, HELPDESK), HELPDESK.table(160), (1, 2 if is_faulty else 1)
        ),
        HELPDESK.sought,
    )


class Packed(Loop):
    """Texts are embedded by falling length, as packed sequences ask for; mended, put in order."""

    def __init__(self, model: Any, table: dict[str, list[str]], is_faulty: bool) -> None:
        super().__init__(model, table)
        self.is_faulty = is_faulty

    def inputs(self) -> list[Tensor]:
        return [self._embedded(column) for column in self.rows()]

    def _embedded(self, texts: Sequence[str]) -> Tensor:
        order = sorted(range(len(texts)), key=lambda at: -len(texts[at]))
        rows = embed(self.model, [texts[at] for at in order])
        return rows if self.is_faulty else rows[torch.tensor(order).argsort()]


@faulty(
    "packed by length and not put back in order",
    "Each column is sorted by length to be packed and the embeddings stay in that order: rows of "
    "the two columns no longer belong together.",
    (*APART, r"(?i)\bsort"),
)
def packed_rows_left_in_order_of_length(stage: Stage) -> None:
    """Common with `pack_padded_sequence`: the inverse permutation is left out."""
    hampered(
        stage,
        lambda is_faulty: Packed(encoder_of(stage, KITCHEN), KITCHEN.table(160), is_faulty),
        KITCHEN.sought,
    )


def triplet(is_faulty: bool) -> Any:
    """Triplet loss; the faulty call has its arguments as (anchor, negative, positive)."""

    def loss(anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        rows = (F.normalize(row) for row in (anchor, positive, negative))
        anchor, positive, negative = rows
        if is_faulty:
            positive, negative = negative, positive
        return F.triplet_margin_loss(anchor, positive, negative, margin=0.5)

    return loss


@faulty(
    "arguments of a triplet loss in the order anchor, negative, positive",
    "The call hands the negative over as the positive: answers are pushed away.",
    (
        r"(?i)swap|exchang|revers|order of|switch|\bsigns?\b|wrong way|invert|opposite|maximi",
        r"(?i)negatives?.{0,60}(nearer|closer|more similar|above|pulled)",
        r"(?i)positives?.{0,60}(apart|pushed|away|farther|further|below)",
    ),
)
def negative_handed_over_as_positive(stage: Stage) -> None:
    """Positional arguments of `F.triplet_margin_loss` in another library's order."""
    hampered(
        stage,
        lambda is_faulty: Loop(stage.model(), triplets(), triplet(is_faulty)),
        among_alike,
    )


def rolled_by(shift: int) -> Any:
    """Triplet loss whose negatives are the batch's positives, moved on by ``shift`` rows."""

    def loss(anchor: Tensor, positive: Tensor) -> Tensor:
        anchor, positive = F.normalize(anchor), F.normalize(positive)
        return F.triplet_margin_loss(anchor, positive, positive.roll(shift, 0), margin=0.5)

    return loss


@faulty(
    "negatives rolled by a whole batch",
    "The negatives are the positives moved on by as many rows as the batch has, which are the "
    "positives themselves: the loss is its margin and has no gradient.",
    (
        r"(?i)(negative|positive)s?.{0,60}(same|equal|identical|copy|copies|itself|themselves)",
        r"(?i)roll|no gradient|gradients? (is|are|of) (zero|0)|constant|not move|equals? the "
        r"margin|never (falls|changes)|does not (fall|change|learn|move)",
    ),
)
def negatives_rolled_onto_themselves(stage: Stage) -> None:
    """`positives.roll(batch_size, 0)` for `roll(1, 0)`."""
    hampered(
        stage,
        lambda is_faulty: Loop(
            encoder_of(stage, SHOP), SHOP.table(160), rolled_by(16 if is_faulty else 1)
        ),
        SHOP.sought,
    )
