"""`Candidates`: which columns are an anchor's negatives. `Known`: labels, relations and scores.

The candidates are the columns of a loss's weight: other view (N), same view (N), extra negatives
(M) and own negatives (H), where the batch has them. The positive stands at j = i, or first if there
are no in-batch columns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, Int

# Arguments of `check_batch` beside the embeddings; a combinator asks for those that it needs.
CONTEXT = (
    "own_negatives",
    "owners",
    "guide",
    "mask",
    "sentences",
    "labels",
    "relation",
    "scores",
    "teacher",
)
# Pairs of rows and columns: anchors with the other view (S) and with their own view (Q), positives
# with their other view, the anchors (S transposed), and with their own view (Q').
POOLS = ("other", "same", "positive_other", "positive_same")
# Negatives from outside the batch: those that all anchors share, and those of each anchor alone.
BESIDE = ("extra", "own")


@dataclasses.dataclass(frozen=True)
class Block:
    """Columns of the negatives that are of one kind."""

    #: one of `POOLS`, ``"extra"`` or ``"own"`` (of anchors), ``"positive_extra"`` (of positives)
    name: str
    rows: Float[Array, "n d"]  #: the anchors or the positives
    vectors: Float[Array, "*_ k d"]  #: the columns, (k, D), or (n, k, D) for own negatives
    columns: slice  #: position of the block among the K negatives
    #: the column that holds the sentence of the first row; column ``own + r`` of row r is not a
    #: negative. None if no column is left out
    own: int | None


def candidate_counts(n: int, m: int, h: int, in_batch_negatives: bool) -> list[int]:
    """Return how many candidates an anchor can have, by the pools of a loss.

    Args:
        n: sentences.
        m: extra negatives.
        h: own negatives of each anchor.
        in_batch_negatives: whether the sentences of the batch are candidates.
    """
    whole_views = [n + m + h, 2 * n + m + h] if in_batch_negatives else []
    # Otherwise the positive comes first.
    outside = [1 + size for size in (m + h, m, h) if size]
    return list(dict.fromkeys([*whole_views, *outside]))


class Rule(Protocol):
    """A rule that leaves pairs out of the negatives."""

    def left_out(
        self, block: Block, cosine: Float[Array, "n k"], batch: Any
    ) -> Bool[Array, "n k"] | None:
        """Return True for each pair of the block that is left out; None if none is."""

    @property
    def must_leave_negatives(self) -> bool:
        """Whether it is an error to leave an anchor without negatives."""


@dataclasses.dataclass(frozen=True)
class Labelled:
    """Leaves out candidates that labels or relation exclude, for losses of one positive."""

    must_leave_negatives = False

    def left_out(self, block: Block, cosine: Float[Array, "n k"], batch: Any) -> Bool[Array, "n k"]:
        """Return True for candidates whose role is positive or neither."""
        found: Bool[Array, "n k"] = batch.roles(block) != -1
        return found


@dataclasses.dataclass(frozen=True)
class HardnessTerm:
    """The term ``α sg(cos θ)`` in the logits of some negatives."""

    alpha: float
    #: ``"all"`` negatives; ``"other"``: the other view, extra and own negatives; ``"in_batch"``:
    #: the other view and extra negatives, except the row's own hard negatives; ``"hard"``: the
    #: row's own hard negatives
    on: str = "all"


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Which columns are negatives, and how their logits change."""

    #: names from `POOLS` and `BESIDE`; extra and own negatives join the anchors' pools unless some
    #: of `BESIDE` are named; extra negatives that the sentence does not own also join
    #: ``"positive_same"``
    pools: tuple[str, ...] = ("other",)
    extra_for_positives: bool = True  #: whether extra negatives join ``"positive_same"``
    repeated: bool = False  #: whether ``"positive_other"`` includes the pair of the positive itself
    rules: tuple[Rule, ...] = ()  #: rules that leave pairs out
    hardness: tuple[HardnessTerm, ...] = ()  #: terms that are added to the logits

    def joined_by(self, beside: str) -> bool:
        """Whether the anchors' pools include the ``beside`` negatives, ``"extra"`` or ``"own"``."""
        if not set(BESIDE).isdisjoint(self.pools):
            return beside in self.pools
        return not {"other", "same"}.isdisjoint(self.pools)


USUAL = Candidates()


@dataclasses.dataclass(frozen=True)
class Known:
    """What is known of the whole batch's candidates beside embeddings; None if not given."""

    labels: Int[Array, "all"] | None = None  #: rows with the same label are positives of each other
    #: 1 for a positive, -1 for a negative, 0 to leave out
    relation: Int[Array, "all c"] | None = None
    scores: Float[Array, "all"] | None = None  #: similarity of the two sentences of each pair
    teacher: Float[Array, "all scored"] | None = None  #: scores of the candidates by a teacher

    def mapped(self, change: Callable[[str, Array], Any]) -> Known:
        """Return a copy with ``change(name, array)`` in place of each array that is not None."""
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return Known(**{name: change(name, one) for name, one in given.items() if one is not None})

    def first(self, count: int, extra: Bool[Array, "m"], own: int) -> Known:
        """Return the part of the first ``count`` sentences, ``extra`` and all ``own`` negatives."""

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

    def exchanged(self, beside: int) -> Known:
        """Return the part for the exchanged batch: the scores of the other view, transposed.

        A relation within one view holds for both views. Other columns, unknown there, are dropped;
        ``beside`` is how many of them extra and own negatives have.
        """

        def change(name: str, scores: Array) -> Array:
            n = scores.shape[0]
            if scores.ndim == 1 or scores.shape[1] - beside < n:  # no in-batch columns
                return scores
            xp, other = array_namespace(scores), scores[:, :n].T
            twice = name == "relation" and scores.shape[1] - beside >= 2 * n
            return xp.concat([other, scores[:, n : 2 * n]], axis=-1) if twice else other

        return self.mapped(change)

    def without(self, more: int) -> Known:
        """Return a copy without the last ``more`` candidates."""
        return self.mapped(
            lambda _, given: given if given.ndim == 1 else given[:, : given.shape[1] - more]
        )


NOTHING = Known()
