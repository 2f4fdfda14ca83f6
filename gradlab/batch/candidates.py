"""`Candidates`: which columns are an anchor's negatives. `Supervision`: labels and scores.

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
    #: (n, k), True where a column is not a negative by the mask of the batch; None without one
    mask: Bool[Array, "n k"] | None = None
    #: sentence numbers of rows, (n,), and of columns, (k,) or (n, k), empty if the columns have
    #: none; None without numbers
    numbers: tuple[Array, Array] | None = None


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


DEFAULT_CANDIDATES = Candidates()


@dataclasses.dataclass(frozen=True)
class Supervision:
    """Labels, relation, scores and a teacher's scores of the whole batch; None if not given."""

    labels: Int[Array, "all"] | None = None  #: rows with the same label are positives of each other
    #: 1 for a positive, -1 for a negative, 0 to leave out
    relation: Int[Array, "all c"] | None = None
    scores: Float[Array, "all"] | None = None  #: similarity of the two sentences of each pair
    teacher: Float[Array, "all scored"] | None = None  #: scores of the candidates by a teacher

    def mapped(self, change: Callable[[str, Array], Any]) -> Supervision:
        """Return a copy with ``change(name, array)`` in place of each array that is not None."""
        return Supervision(
            **{name: change(name, array) for name, array in vars(self).items() if array is not None}
        )

    def first(self, count: int, extra: Bool[Array, "m"], own: int) -> Supervision:
        """Return the part of the first ``count`` sentences, ``extra`` and all ``own`` negatives."""

        def change(name: str, scores: Array) -> Array:
            if scores.ndim == 1:
                return scores[:count]
            xp, n, m = array_namespace(scores), scores.shape[0], extra.shape[0]
            inside = scores.shape[1] - m - own
            columns = xp.arange(inside, device=scores.device)
            of_own = xp.ones_like(columns[:1], dtype=xp.bool)
            return scores[:count][:, xp.concat([columns % n < count, extra, *[of_own] * own])]

        return self.mapped(change)

    def exchanged(self, beside: int) -> Supervision:
        """Return the part for the exchanged batch: the scores of the other view, transposed.

        A relation within one view holds for both views. Other columns, unknown there, are dropped;
        ``beside`` is how many of them extra and own negatives have.
        """

        def change(name: str, scores: Array) -> Array:
            n = scores.shape[0]
            if scores.ndim == 1 or scores.shape[1] - beside < n:  # no in-batch columns
                return scores
            xp, exchanged = array_namespace(scores), scores[:, :n].T
            twice = name == "relation" and scores.shape[1] - beside >= 2 * n
            return xp.concat([exchanged, scores[:, n : 2 * n]], axis=-1) if twice else exchanged

        return self.mapped(change)

    def without(self, count: int) -> Supervision:
        """Return a copy without the last ``count`` candidates."""
        return self.mapped(
            lambda _, scores: scores if scores.ndim == 1 else scores[:, : scores.shape[1] - count]
        )


UNSUPERVISED = Supervision()
