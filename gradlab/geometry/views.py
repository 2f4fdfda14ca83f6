"""Two views of a batch, with the similarities that the losses ask for."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, detach
from gradlab.geometry.candidates import blocks_of, hardened, pooled
from gradlab.geometry.embeddings import USUAL, Block, Embeddings
from gradlab.geometry.similarity import Negatives, PairSimilarity


@dataclasses.dataclass(frozen=True)
class Views(Embeddings):
    """`Embeddings` with the similarities that the losses ask for, each computed when it is first asked for."""

    guide: Views | None = None

    @functools.cached_property
    def positive(self) -> PairSimilarity:
        """Anchor i to its own positive, (n,), by chords."""
        return self.pair(self.anchors, self.positives)

    @functools.cached_property
    def negatives(self) -> Negatives:
        """Anchor i to all its `candidates`, (n, k); -inf where a column is no negative."""
        usual = self.candidates.pools == USUAL.pools and not self.candidates.rules
        return self.other_view if usual else pooled(self)

    @property
    def may_lack_negatives(self) -> bool:
        """Whether an anchor may have no negative: rules leave them out, or there are but hard negatives, which may all be its own."""
        only_hard = not (self.in_batch_negatives and self.count > 1) and self.owners is not None
        return bool(self.candidates.rules) or (
            only_hard and not {"other", "same"} & set(self.candidates.pools)
        )

    def pair(self, first: Float[Array, "*#n d"], second: Float[Array, "*#n d"]) -> PairSimilarity:
        """Rows to rows, or all of them to one row, by chords."""
        return PairSimilarity.from_vectors(first, second)

    def products(self, first: Float[Array, "n d"], second: Float[Array, "k d"]) -> Float[Array, "n k"]:
        """All dot products of rows."""
        if self.known_products is None:
            return first @ second.T
        for left, right, product in self.known_products:
            if left is first and right is second:
                return product
            if left is second and right is first:
                return product.T
        product = first @ second.T
        self.known_products.append((first, second, product))
        return product

    def sharing_products(self) -> Views:
        """The same batch; matrix products of its rows are computed once, also for its exchanged views."""
        guide = None if self.guide is None else self.guide.sharing_products()
        return dataclasses.replace(self, guide=guide, known_products=[])

    def hardened(self, negatives: Negatives, temperature: float) -> Negatives:
        """`negatives` with the hardness of the `candidates` in their logits at a temperature."""
        return hardened(negatives, self, temperature)

    def guided(self, block: Block) -> tuple[Float[Array, "n k"], Float[Array, "n"]]:
        """The guide's cosines of the pairs of a block, and of its positives."""
        assert self.guide is not None
        guide = dataclasses.replace(
            self.guide, candidates=self.candidates, in_batch_negatives=self.in_batch_negatives
        )
        (same,) = (one for one in blocks_of(guide) if one.name == block.name)
        found = guide.products(same.rows, same.vectors)
        # Of the same product as the others, so that equal texts have equal cosines.
        positive = guide.products(guide.anchors, guide.positives)
        return found, array_namespace(found).linalg.diagonal(positive)

    def masked(self, block: Block) -> Bool[Array, "n k"] | None:
        """What the given mask says of a block; a mask without columns for the extra negatives keeps them."""
        assert self.mask is not None
        n = self.anchors.shape[0]
        if not block.name.endswith("extra"):
            return self.mask[:, :n]
        return self.mask[:, n:] if self.mask.shape[1] > n else None

    def numbered(self, block: Block) -> tuple[Array, Array]:
        """The numbers of the sentences of a block's rows, (N,), and of its columns, (size,); none if these are not known."""
        assert self.sentences is not None
        n = self.anchors.shape[0]
        rows = self.sentences[:n]
        return rows, self.sentences[n:] if block.name.endswith("extra") else rows

    @property
    def count(self) -> int:
        """N, the sentences of the batch; of one that processes share, those of all."""
        count: int = self.anchors.shape[0]  # not int(...): the explorer records sizes
        return count

    def gathered(self, values: Array) -> Array:
        """What there is one of for each anchor, (N, ...), of all anchors of the batch, also of those on other processes."""
        return values

    def total(self, values: Array) -> Array:
        """The sum over the parts of a batch that processes have, of any shape; of a batch in one piece, ``values``."""
        return values

    @functools.cached_property
    def negative_vectors(self) -> Float[Array, "k d"]:
        """The other view, then the extra negatives; what the columns of a weight stand for."""
        parts = [self.positives] if self.in_batch_negatives else []
        if self.extra_negatives is not None:
            parts.append(self.extra_negatives)
        return parts[0] if len(parts) == 1 else array_namespace(self.anchors).concat(parts, axis=0)

    @property
    def same_view_vectors(self) -> Float[Array, "k d"]:
        """The anchors, then the extra negatives; the columns of a weight on the same view."""
        if self.extra_negatives is None:
            return self.anchors
        return array_namespace(self.anchors).concat([self.anchors, self.extra_negatives], axis=0)

    @functools.cached_property
    def other_view(self) -> Negatives:
        """Anchor i to the other view's sentences and the extra negatives, (n, k); -inf at j = i."""
        own = slice(0, None) if self.in_batch_negatives else None
        vectors, extra, products = self.negative_vectors, self.extra_negatives, None
        if self.known_products is not None and self.in_batch_negatives:
            products = self.products(self.anchors, self.positives)
            if extra is not None:
                xp = array_namespace(self.anchors)
                products = xp.concat([products, self.products(self.anchors, extra)], axis=-1)
        return self._compare(self.anchors, vectors, own, products)

    @functools.cached_property
    def same_view(self) -> Negatives:
        """Anchor i to the other anchors, ``Q_ij``, (n, n); -inf at j = i."""
        return self._compare(self.anchors, self.anchors)

    @functools.cached_property
    def same_view_fixed(self) -> Negatives:
        """`same_view` with the other anchors held fixed: no gradient through ``h_j``."""
        return self._compare(self.anchors, detach(self.anchors))

    @functools.cached_property
    def positive_view(self) -> Negatives:
        """Positive i to the other positives, ``Q'_ij``, (n, n); -inf at j = i."""
        return self._compare(self.positives, self.positives)

    def _compare(
        self,
        first: Float[Array, "n d"],
        second: Float[Array, "k d"],
        own: slice | None = slice(0, None),
        products: Float[Array, "n k"] | None = None,
    ) -> Negatives:
        """Each of the first rows to all of the second; the arguments are those of `Negatives.from_vectors`."""
        return Negatives.from_vectors(first, second, own, products)

    def total_weight(self, weight: Callable[[Views], Float[Array, "n k"]]) -> Float[Array, "n"]:
        """``Σ_j sg(W_ij)`` of what `weight` makes of these views; see `weighted_cosines`."""
        weights = detach(weight(self))
        return array_namespace(weights).sum(weights, axis=-1)

    def weighted_cosines(
        self, weight: Callable[[Views], Float[Array, "n k"]], negatives: Negatives
    ) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
        """Sums over the negatives of each anchor; views that are evaluated in blocks never hold all weights.

        Args:
            weight: maps these views, or a block of their anchors, to the weights of those anchors.
            negatives: of these views.

        Returns:
            ``Σ_j sg(W_ij)`` and ``Σ_j sg(W_ij) cos θ_ij``.
        """
        xp, weights = array_namespace(self.anchors), detach(weight(self))
        return xp.sum(weights, axis=-1), xp.sum(weights * negatives.finite_cosine, axis=-1)

    def exchanged(self) -> Views:
        """The same batch with its views exchanged: the positives are the anchors."""
        guide = None if self.guide is None else self.guide.exchanged()
        return dataclasses.replace(self, anchors=self.positives, positives=self.anchors, guide=guide)

    def without_extra_negatives(self) -> Views:
        """The same batch alone."""
        guide = None if self.guide is None else self.guide.without_extra_negatives()
        n = self.anchors.shape[0]
        mask = None if self.mask is None else self.mask[:, :n]
        numbers = None if self.sentences is None else self.sentences[:n]
        return dataclasses.replace(
            self, extra_negatives=None, owners=None, guide=guide, mask=mask, sentences=numbers
        )

    def first(self, count: int) -> Views:
        """The first sentences alone, with their own extra negatives where it is known whose they are, else with all of them."""
        xp, n, extra, owners = array_namespace(self.anchors), self.count, self.extra_negatives, self.owners
        columns = xp.arange(n + (0 if extra is None else extra.shape[0]), device=self.anchors.device)
        kept = (columns < count) | (columns >= n)
        if owners is not None:
            kept = xp.concat([kept[:n], owners < count])
        return dataclasses.replace(
            self,
            anchors=self.anchors[:count],
            positives=self.positives[:count],
            extra_negatives=None if extra is None else extra[kept[n:]],
            owners=None if owners is None else owners[kept[n:]],
            guide=None if self.guide is None else dataclasses.replace(self.guide, owners=owners).first(count),
            mask=None if self.mask is None else self.mask[:count][:, kept[: self.mask.shape[1]]],
            sentences=None if self.sentences is None else self.sentences[kept[: self.sentences.shape[0]]],
            known_products=None,
        )

    def with_extra_sentences(self) -> Views:
        """The extra negatives as further sentences, whose two views coincide."""
        xp = array_namespace(self.anchors)
        return dataclasses.replace(
            self,
            anchors=xp.concat([self.anchors, self.extra_negatives], axis=0),
            positives=xp.concat([self.positives, self.extra_negatives], axis=0),
            extra_negatives=None,
            # Said of the batch alone, and for losses of pairs.
            owners=None,
            guide=None,
            mask=None,
            sentences=None,
        )

    def with_candidates(self, **changes: Any) -> Views:
        """The same batch with other `candidates`."""
        return dataclasses.replace(self, candidates=dataclasses.replace(self.candidates, **changes))

    def with_fixed_positives(self) -> Views:
        """The same views with the other view and the extra negatives held fixed: no gradient reaches them."""
        extra = None if self.extra_negatives is None else detach(self.extra_negatives)
        return dataclasses.replace(self, positives=detach(self.positives), extra_negatives=extra)


def unit_rows(embeddings: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
    """Rows divided by their Euclidean norms."""
    xp = array_namespace(embeddings)
    return embeddings / xp.linalg.vector_norm(embeddings, axis=-1, keepdims=True)
