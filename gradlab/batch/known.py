"""What is known of an anchor's candidates beside their embeddings: labels, relations, scores, a teacher's scores.

Candidates are the columns that a loss's weight has: other view (N), same view (N), extra negatives (M), own negatives (H), as
far as there are such. The positive stands at j = i; without in-batch columns it comes first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, Int


@dataclasses.dataclass(frozen=True)
class Known:
    """What a call has told of the whole batch; None where it has not.

    Attributes:
        labels: (N,) whole numbers: rows with the anchor's label are its positives.
        relation: (N, C): 1 for a positive, -1 for a negative, 0 for what is left out.
        scores: (N,) how similar the two sentences of each pair are.
        teacher: (N, C) a teacher's scores of the candidates.
    """

    labels: Int[Array, "all"] | None = None
    relation: Int[Array, "all c"] | None = None
    scores: Float[Array, "all"] | None = None
    teacher: Float[Array, "all c"] | None = None

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
