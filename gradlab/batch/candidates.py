"""What the negatives of an anchor are: pools of vectors, the rules that leave pairs out, and hardness."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from gradlab.arrays import Array, Bool, Float

# What `check_batch` takes beside the embeddings, for combinators that ask for it.
CONTEXT = ("own_negatives", "owners", "guide", "mask", "sentences", "labels", "relation", "scores", "teacher")
# Which rows are compared with which: anchors with the other view (S) and with their own view (Q), positives with their
# other view, the anchors (S transposed), and with their own view (Q').
POOLS = ("other", "same", "positive_other", "positive_same")
# Negatives beside the batch: those of every anchor, and those of each anchor's own. They stand with "other" and "same".
BESIDE = ("extra", "own")


@dataclasses.dataclass(frozen=True)
class Block:
    """Columns of the negatives that are of one kind.

    Attributes:
        name: one of `POOLS`, ``"extra"`` (anchors to the extra negatives), ``"own"`` (to their own) or ``"positive_extra"``.
        rows: the anchors or the positives, (n, D).
        vectors: what they are compared with, (k, D), or of own negatives (n, k, D).
        columns: where the block stands among the K negatives.
        own: the column of the block that holds the sentence of the first row, whose pair is not a negative (row r has
            column ``own + r``); None if no column is left out.
    """

    name: str
    rows: Float[Array, "n d"]
    vectors: Float[Array, "*_ k d"]
    columns: slice
    own: int | None


class Rule(Protocol):
    """Says which pairs are left out of the negatives."""

    def left_out(self, block: Block, cosine: Float[Array, "n k"], batch: Any) -> Bool[Array, "n k"] | None:
        """Whether each pair of a block of a `Batch` is left out; None if none is."""

    @property
    def must_leave_negatives(self) -> bool:
        """Whether an anchor that is left without negatives is an error."""


@dataclasses.dataclass(frozen=True)
class Labelled:
    """Other positives of an anchor, and what a relation leaves out: to a loss of one positive they are not negatives."""

    must_leave_negatives = False

    def left_out(self, block: Block, cosine: Float[Array, "n k"], batch: Any) -> Bool[Array, "n k"]:
        """Those pairs."""
        found: Bool[Array, "n k"] = batch.roles(block) != -1
        return found


@dataclasses.dataclass(frozen=True)
class HardnessTerm:
    """``α sg(cos θ)``, added to the logits of some negatives.

    Attributes:
        alpha: α.
        on: ``"all"`` negatives; those of the ``"other"`` view and the extra negatives; of these the ``"in_batch"`` ones
            (without the hard negatives of the row's own sentence); or the ``"hard"`` negatives of the row's own sentence.
    """

    alpha: float
    on: str = "all"


@dataclasses.dataclass(frozen=True)
class Candidates:
    """What the negatives of an anchor are.

    Attributes:
        pools: names from `POOLS` and `BESIDE`. Extra and own negatives join the anchors' pools; extra ones also
            ``"positive_same"``, unless they are the sentence's own.
        extra_for_positives: whether extra negatives join ``"positive_same"``.
        repeated: whether the pair itself counts again among ``"positive_other"``.
        rules: which pairs are left out.
        hardness: what is added to the logits.
    """

    pools: tuple[str, ...] = ("other",)
    extra_for_positives: bool = True
    repeated: bool = False
    rules: tuple[Rule, ...] = ()
    hardness: tuple[HardnessTerm, ...] = ()

    def joined_by(self, beside: str) -> bool:
        """Whether the anchors have ``"extra"`` or ``"own"`` negatives."""
        return not {"other", "same", beside}.isdisjoint(self.pools)


USUAL = Candidates()
