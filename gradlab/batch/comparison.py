"""How the rows of a batch are compared with its columns: by default, all pairs at once."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_array

from gradlab.arrays import Array, Bool, Float, Int, compiled, detach, require
from gradlab.batch.candidates import Block, Rule
from gradlab.batch.cosine_gaps import gaps_of
from gradlab.batch.similarity import AllCosines, Negatives, PairSimilarity
from gradlab.errors import GradlabError


class Comparison:
    """Compares the rows of a batch with its columns: all pairs at once, in any array library.

    `gradlab.scale` has subclasses that hold the pairs of a few rows at a time.
    """

    #: makes the negatives from the arguments of `AllCosines`
    similarities: Callable[..., AllCosines] = AllCosines
    #: rows, columns and product of each matrix product that is shared; None if none is
    _products: list[tuple[Array, Array, Array]] | None = None

    def sharing(self) -> Comparison:
        """Return a copy that computes each matrix product once and transposes it if needed.

        A comparison that shares products already is returned itself.
        """
        if self._products is not None:
            return self
        comparison = copy.copy(self)
        comparison._products = []
        return comparison

    def pair(self, first: Float[Array, "*#n d"], second: Float[Array, "*#n d"]) -> PairSimilarity:
        """Return the similarities of matching rows of ``first`` and ``second``; rows broadcast."""
        return PairSimilarity.from_vectors(first, second)

    def negatives(self, batch: Any, blocks: list[Block], rules: Sequence[Rule] = ()) -> Negatives:
        """Return the negatives of each row, (n, K); -inf where a column is not a negative.

        Raises:
            GradlabError: a rule that must leave every anchor a negative leaves an anchor none.
        """
        cosines = [self.cosines(block.rows, block.vectors, block.own) for block in blocks]
        if batch.owners is not None:
            self._leave_out_owned(batch, blocks, cosines)
        if rules:
            self._apply_rules(batch, blocks, cosines, rules)
        return self.similarities(
            joined(cosines, axis=-1),
            lambda index: self.pair(*self._pairs(blocks, index)),
            gaps=lambda sign: joined(
                [
                    gaps_of(block.rows, block.vectors, cosine, sign)
                    for block, cosine in zip(blocks, cosines, strict=True)
                ],
                axis=-1,
            ),
            whole=None if batch.origin is None else self._of_whole(batch, blocks),
        )

    def cosines(
        self, rows: Float[Array, "n d"], columns: Float[Array, "*_ k d"], own: int | None = None
    ) -> Float[Array, "n k"]:
        """Return dot products with columns (k, D) or (n, k, D); entry (r, ``own + r``) is -inf."""
        if columns.ndim == 3:
            return own_cosines(rows, columns)
        cosine = self._product(rows, columns)
        if own is None:
            return cosine
        if is_numpy_array(cosine):
            cosine = cosine.copy(order="K")  # see `_without`
            np.fill_diagonal(cosine[:, own:], -np.inf)
            return cosine
        return _without(own_pairs(cosine, own), cosine)

    def take(self, blocks: list[Block], index: Int[Array, "n"]) -> Float[Array, "n d"]:
        """Return the vector in column ``index[r]`` of the joined blocks for each row r."""
        xp, rows = array_namespace(index), blocks[0].vectors
        for block in blocks:
            column = xp.clip(index - block.columns.start, 0, block.vectors.shape[-2] - 1)
            if block.vectors.ndim == 3:
                vectors = block.vectors[xp.arange(index.shape[0], device=index.device), column]
            else:
                vectors = self.rows_at(block.vectors, column)
            inside = (index >= block.columns.start)[:, None]
            rows = vectors if block is blocks[0] else xp.where(inside, vectors, rows)
        return rows

    def rows_at(self, vectors: Float[Array, "k d"], index: Int[Array, "n"]) -> Float[Array, "n d"]:
        """Return the rows ``index`` of ``vectors``."""
        return vectors[index]

    def by_rows(
        self, batch: Any, function: Callable[[Any], Float[Array, "rows *d"]]
    ) -> Float[Array, "n *d"]:
        """Return ``function`` of all rows at once, without gradient."""
        return detach(function(batch))

    def _leave_out_owned(self, batch: Any, blocks: list[Block], cosines: list[Array]) -> None:
        """Leave out pairs of a positive with the hard negatives that its sentence owns."""
        for number, block in enumerate(blocks):
            if block.name == "positive_extra":
                cosines[number] = _without(batch.owned, cosines[number])

    def _apply_rules(
        self, batch: Any, blocks: list[Block], cosines: list[Array], rules: Sequence[Rule]
    ) -> None:
        """Set the cosines of pairs that rules leave out to -inf, first by those that may refuse."""
        xp = array_namespace(batch.anchors)
        for rule in sorted(rules, key=lambda rule: not rule.must_leave_negatives):
            for number, block in enumerate(blocks):
                absent = rule.left_out(block, detach(cosines[number]), batch)
                if absent is None:
                    continue
                absent = xp.asarray(absent, device=block.rows.device)  # a rule may return numpy
                if block.name == "positive_other" and block.own is None:
                    absent = absent & ~own_pairs(absent, batch.start)
                cosines[number] = _without(absent, cosines[number])
            if rule.must_leave_negatives:
                _check_some_are_left(cosines, batch.start)

    def _of_whole(self, batch: Any, blocks: list[Block]) -> Callable[[], Negatives]:
        """Return a function for the whole batch's negatives; it must not keep these rows alive."""
        whole, of_anchors = batch.origin, [block.rows is batch.anchors for block in blocks]

        def negatives() -> Negatives:
            whole_blocks = [
                dataclasses.replace(
                    block,
                    rows=whole.anchors if anchors else whole.positives,
                    own=None if block.own is None else 0,
                )
                for block, anchors in zip(blocks, of_anchors, strict=True)
            ]
            of_whole: Negatives = whole.comparison.negatives(whole, whole_blocks)
            return of_whole

        return negatives

    def _product(
        self, rows: Float[Array, "n d"], columns: Float[Array, "k d"]
    ) -> Float[Array, "n k"]:
        for left, right, product in self._products or ():
            if left is rows and right is columns:
                return product
            if left is columns and right is rows:
                return product.T
        product = rows @ columns.T
        if self._products is not None:
            self._products.append((rows, columns, product))
        return product

    def _pairs(
        self, blocks: list[Block], index: Int[Array, "n"]
    ) -> tuple[Float[Array, "n d"], Float[Array, "n d"]]:
        """Return the rows, and the vectors in the columns ``index`` that they are compared with."""
        rows = blocks[0].rows
        for block in blocks:
            if block.rows is not blocks[0].rows:
                inside = (index >= block.columns.start) & (index < block.columns.stop)
                rows = array_namespace(rows).where(inside[:, None], block.rows, rows)
        return rows, self.take(blocks, index)


PLAIN = Comparison()


def joined(arrays: Sequence[Array], nothing: Array = None, axis: int = 0) -> Array:
    """Return arrays joined along an axis, one array as it is; ``nothing`` if there are none."""
    if len(arrays) < 2:
        return arrays[0] if arrays else nothing
    return array_namespace(arrays[0]).concat(list(arrays), axis=axis)


def own_cosines(
    rows: Float[Array, "n d"], own_negatives: Float[Array, "n h d"]
) -> Float[Array, "n h"]:
    """Return the dot products of each row with its own negatives."""
    return (own_negatives @ rows[:, :, None])[:, :, 0]


def own_pairs(pairs: Array, own: int) -> Bool[Array, "n k"]:
    """Return True for the pairs in column ``own + r`` of row r, False elsewhere."""
    xp = array_namespace(pairs)
    rows, columns = (xp.arange(size, device=pairs.device) for size in pairs.shape)
    return columns == (rows + own)[:, None]


def _without(absent: Bool[Array, "n k"], cosine: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """Return the cosines with -inf in place of absent ones.

    Numpy's keep the order of their memory. `where` would turn a transposed product around, and what
    follows would combine arrays of different orders: at 512 columns, ten times slower.
    """
    if is_numpy_array(cosine):
        cosine = cosine.copy(order="K")
        np.copyto(cosine, -np.inf, where=absent)
        return cosine
    xp = array_namespace(cosine)
    return xp.where(absent, -xp.inf, cosine)


def _check_some_are_left(cosines: list[Float[Array, "n _"]], start: int) -> None:
    xp = array_namespace(cosines[0])
    served = xp.zeros_like(cosines[0][:, 0], dtype=xp.bool)
    for cosine in cosines:
        served = served | xp.any(~xp.isinf(cosine), axis=-1)
    if compiled(served):
        require(xp.all(served), "the mask leaves an anchor no negative; leave it at least one")
    elif not bool(xp.all(served)):
        anchor = start + int(xp.argmax(xp.astype(~served, cosines[0].dtype)))
        raise GradlabError(f"the mask leaves anchor {anchor} no negative; leave it at least one")
