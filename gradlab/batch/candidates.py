"""What the negatives of an anchor are: pools of vectors, the rules that leave pairs out, and hardness; and what is known of them.

Candidates are the columns that a loss's weight has: other view (N), same view (N), extra negatives (M), own negatives (H), as
far as there are such. The positive stands at j = i; without in-batch columns it comes first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, Int

# What `check_batch` takes beside the embeddings, for combinators that ask for it.
CONTEXT = ("own_negatives", "owners", "guide", "mask", "sentences", "labels", "relation", "scores", "teacher")
# Which rows are compared with which: anchors with the other view (S) and with their own view (Q), positives with their
# other view, the anchors (S transposed), and with their own view (Q').
POOLS = ("other", "same", "positive_other", "positive_same")
# Negatives beside the batch: those of every anchor, and those of each anchor's own. They stand with "other" and "same".
BESIDE = ("extra", "own")


@dataclasses.dataclass(frozen=True)
class Block:
    """Columns of the negatives that are of one kind."""

    #: one of `POOLS`, ``"extra"`` (anchors to the extra negatives), ``"own"`` (to their own) or ``"positive_extra"``
    name: str
    rows: Float[Array, "n d"]  #: the anchors or the positives
    vectors: Float[Array, "*_ k d"]  #: what they are compared with, (k, D), or of own negatives (n, k, D)
    columns: slice  #: where the block stands among the K negatives
    #: the column of the block that holds the sentence of the first row, whose pair is not a negative (row r has
    #: column ``own + r``); None if no column is left out
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
    """``α sg(cos θ)``, added to the logits of some negatives."""

    alpha: float
    #: ``"all"`` negatives; those of the ``"other"`` view and the extra negatives; of these the ``"in_batch"`` ones
    #: (without the hard negatives of the row's own sentence); or the ``"hard"`` negatives of the row's own sentence
    on: str = "all"


@dataclasses.dataclass(frozen=True)
class Candidates:
    """What the negatives of an anchor are."""

    #: names from `POOLS` and `BESIDE`; extra and own negatives join the anchors' pools, extra ones also
    #: ``"positive_same"``, unless they are the sentence's own
    pools: tuple[str, ...] = ("other",)
    extra_for_positives: bool = True  #: whether extra negatives join ``"positive_same"``
    repeated: bool = False  #: whether the pair itself counts again among ``"positive_other"``
    rules: tuple[Rule, ...] = ()  #: which pairs are left out
    hardness: tuple[HardnessTerm, ...] = ()  #: what is added to the logits

    def joined_by(self, beside: str) -> bool:
        """Whether the anchors have ``"extra"`` or ``"own"`` negatives."""
        return not {"other", "same", beside}.isdisjoint(self.pools)


USUAL = Candidates()


@dataclasses.dataclass(frozen=True)
class Known:
    """What a call has told of the candidates of the whole batch beside their embeddings; None where it has not."""

    labels: Int[Array, "all"] | None = None  #: rows with the anchor's label are its positives
    relation: Int[Array, "all c"] | None = None  #: 1 for a positive, -1 for a negative, 0 for left out
    scores: Float[Array, "all"] | None = None  #: how similar the two sentences of each pair are
    teacher: Float[Array, "all c"] | None = None  #: a teacher's scores of the candidates

    def mapped(self, change: Callable[[str, Array], Any]) -> Known:
        """Every array that there is changed; ``change`` gets its name too."""
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return Known(**{name: change(name, one) for name, one in given.items() if one is not None})

    def first(self, count: int, extra: Bool[Array, "m"], own: int) -> Known:
        """Of the first sentences, some extra negatives and all ``own`` ones."""

        def change(name: str, given: Array) -> Array:
            if given.ndim == 1:
                return given[:count]
            xp, n, m = array_namespace(given), given.shape[0], extra.shape[0]
            inside = given.shape[1] - m - own
            columns = xp.arange(inside, device=given.device)
            kept = columns % n < count
            rest = xp.ones_like(columns[:1], dtype=xp.bool)
            return given[:count][:, xp.concat([kept, extra, *[rest] * own])]

        return self.mapped(change)

    def exchanged(self) -> Known:
        """Of the other side: of the candidates the other view, transposed; relations within a view hold for both views.

        A teacher's scores within the other view, and anything of extra and own negatives, are not known there.
        """

        def change(name: str, given: Array) -> Array:
            n = given.shape[0]
            if given.ndim == 1 or given.shape[1] < n:
                return given
            xp, other = array_namespace(given), given[:, :n].T
            twice = name == "relation" and given.shape[1] >= 2 * n
            return xp.concat([other, given[:, n : 2 * n]], axis=-1) if twice else other

        return self.mapped(change)

    def without(self, more: int) -> Known:
        """Without the last ``more`` candidates."""
        return self.mapped(lambda _, given: given if given.ndim == 1 else given[:, : given.shape[1] - more])


NOTHING = Known()
