"""`Batch`: rows of embeddings, the columns they are compared with, and information about both."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from array_api_compat import (
    array_namespace,
    is_array_api_obj,
    is_numpy_array,
    is_torch_array,
)

from gradlab.arrays import (
    Array,
    Bool,
    Float,
    Int,
    Shaped,
    cached_property,
    compiled,
    detach,
    require,
)
from gradlab.batch.candidates import BESIDE, NOTHING, POOLS, USUAL, Block, Candidates, Known, Rule
from gradlab.batch.similarity import Negatives, PairSimilarity, gaps_of
from gradlab.errors import GradlabError

# Largest number of similarities in a block of `Batch.blocks`, unless a single row has more.
_BLOCK_ENTRIES = 1 << 22
# Fields of `Batch` that hold embeddings, and fields that hold another batch.
KINDS = ("anchors", "positives", "extra_negatives", "own_negatives")
_BATCHES = ("guide", "teacher", "whole")


@dataclasses.dataclass(frozen=True)
class Batch:
    """Unit-norm embeddings of n sentences in two views, and what each sentence is compared with.

    A loss of pairs reads `positive` and `negatives`. A loss of the whole batch reads `same_view`,
    `other_view` and `positive_view`. A `Batch` can hold some rows of a larger batch (see `rows`):
    `anchors` and `positives` are then these rows, and `every`, the larger batch, has the columns.
    """

    anchors: Float[Array, "n d"]  #: the rows ``h_i``
    positives: Float[Array, "n d"]  #: the rows ``h_i'`` of the other view
    #: negatives that all anchors share, such as a queue
    extra_negatives: Float[Array, "m d"] | None = None
    in_batch_negatives: bool = True  #: whether the other sentences of the batch are negatives
    #: h negatives per anchor; None in the exchanged batch
    own_negatives: Float[Array, "_ h d"] | None = None
    owners: Int[Array, "m"] | None = None  #: row whose hard negative each extra negative is, or -1
    guide: Batch | None = None  #: embeddings of the same sentences by another model
    #: (N, N), (N, N + m) or (N, N + m + h): True where column j is not a negative of anchor i
    mask: Bool[Array, "all _"] | None = None
    #: whole numbers that identify the sentences outside the batch: (N,), with the extra negatives
    #: (N + m,), or also with the own negatives, row by row, (N + m + N h,)
    sentences: Int[Array, "k"] | None = None
    known: Known = NOTHING  #: labels, relation, scores and teacher scores
    teacher: Batch | None = None  #: embeddings of the same sentences by a teacher
    candidates: Candidates = USUAL  #: which columns are negatives, and their hardness
    #: how similarities are computed
    comparison: Comparison = dataclasses.field(
        default_factory=lambda: PLAIN, repr=False, compare=False
    )
    #: the batch that `rows` took these rows from; None if this is the whole batch
    whole: Batch | None = dataclasses.field(default=None, repr=False)
    start: int = 0  #: index of the first row in the whole batch
    #: index of the first own negatives' row; above 0 only if other processes hold earlier ones
    own_start: int = 0

    # Rows and columns.

    @property
    def every(self) -> Batch:
        """The whole batch: `whole`, or this batch if it has all rows."""
        return self if self.whole is None else self.whole

    @property
    def embeddings(self) -> tuple[Array | None, ...]:
        """Anchors, positives, extra negatives and own negatives; None for a kind that is absent."""
        return self.anchors, self.positives, self.extra_negatives, self.own_negatives

    @property
    def count(self) -> int:
        """Number of sentences N in the whole batch."""
        count: int = self.every.anchors.shape[0]  # not int(...): the explorer records sizes
        return count

    @property
    def extra_count(self) -> int:
        """Number of extra negatives m."""
        return 0 if self.extra_negatives is None else self.extra_negatives.shape[0]

    @property
    def own_count(self) -> int:
        """Number of own negatives of each anchor, h."""
        return 0 if self.own_negatives is None else self.own_negatives.shape[1]

    def rows(self, start: int, stop: int) -> Batch:
        """Return the rows ``start`` to ``stop`` (excluded), still compared with all columns."""
        own, first = self.own_negatives, self.own_start
        found = dataclasses.replace(
            self,
            anchors=self.anchors[start:stop],
            positives=self.positives[start:stop],
            own_negatives=None if own is None else own[start - first : stop - first],
            own_start=0,
            whole=self.every,
            start=self.start + start,
        )
        return found._with_others(lambda other: other.rows(start, stop), _BATCHES[:2])

    def first(self, count: int) -> Batch:
        """Return a batch of the first ``count`` sentences, without hard negatives of the others."""
        xp, n, m, h = array_namespace(self.anchors), self.count, self.extra_count, self.own_count
        extra, own, owners, mask = self.extra_negatives, self.own_negatives, self.owners, self.mask
        sentences = self.sentences
        columns = xp.arange(n + m + n * h, device=self.anchors.device)
        kept = ((columns < count) | (columns >= n)) & (columns < n + m + count * h)
        if owners is not None:
            kept = xp.concat([kept[:n], owners < count, kept[n + m :]])
        found = dataclasses.replace(
            self,
            anchors=self.anchors[:count],
            positives=self.positives[:count],
            extra_negatives=None if extra is None else extra[kept[n : n + m]],
            own_negatives=None if own is None else own[:count],
            owners=None if owners is None else owners[kept[n : n + m]],
            mask=None if mask is None else mask[:count][:, kept[: mask.shape[1]]],
            sentences=None if sentences is None else sentences[kept[: sentences.shape[0]]],
            known=self.known.first(count, kept[n : n + m], h),
        )
        return found._with_others(lambda one: dataclasses.replace(one, owners=owners).first(count))

    def total(self, function: Callable[[Batch], Float[Array, ""]]) -> Float[Array, ""]:
        """Return the sum of ``function`` over the rows of the whole batch, without gradient.

        The rows come in blocks of at most about four million similarities. The sum is computed once
        for a batch and all `rows` taken from it.
        """
        every = self.every
        if function not in every._totals:
            whole = dataclasses.replace(
                every.mapped(lambda _, embeddings: detach(embeddings)), comparison=PLAIN
            )
            step = max(1, _BLOCK_ENTRIES // (self.count + self.extra_count))
            total: Any = 0
            for start in range(0, self.count, step):
                total = total + function(whole.rows(start, min(start + step, self.count)))
            every._totals[function] = total
        return every._totals[function]

    @cached_property
    def _totals(self) -> dict[Callable[[Batch], Any], Any]:
        return {}

    def mapped(self, change: Callable[[str, Float[Array, "*_ d"]], Float[Array, "*_ e"]]) -> Batch:
        """Return the batch with ``change(name, embeddings)`` replacing each kind of embeddings."""
        given = zip(KINDS, self.embeddings, strict=True)
        found: dict[str, Any] = {
            name: change(name, rows) for name, rows in given if rows is not None
        }
        changed = dataclasses.replace(self, **found)
        return changed._with_others(lambda whole: whole.mapped(change), ("whole",))

    def in_torch(self) -> Batch:
        """Return the batch in torch; numpy arrays share their memory unless they run backwards."""
        if is_torch_array(self.anchors):
            return self
        import torch

        def tensor(array: Array) -> Array:
            if not is_numpy_array(array):
                return array
            backwards = min(array.strides, default=0) < 0  # torch has no such tensors
            return torch.from_numpy(array.copy() if backwards else array)

        return self._with_arrays(tensor)

    def recordable(self) -> Batch:
        """Return the batch in torch, with copies of tensors from inference mode.

        Those tensors cannot take part in autograd.
        """
        return self.in_torch()._with_arrays(lambda one: one.clone() if one.is_inference() else one)

    def _with_arrays(self, change: Callable[[Array], Array]) -> Batch:
        """Return a copy with ``change`` applied to each array, also of the other batches."""
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        found = {name: change(one) for name, one in given.items() if is_array_api_obj(one)}
        found["known"] = self.known.mapped(lambda _, one: change(one))
        changed = dataclasses.replace(self, **found)
        return changed._with_others(lambda other: other._with_arrays(change))

    def _with_others(
        self, change: Callable[[Batch], Batch], names: Sequence[str] = _BATCHES
    ) -> Batch:
        """Return a copy with ``change`` applied to the other batches that this batch refers to."""
        given = {name: getattr(self, name) for name in names}
        found: dict[str, Any] = {
            name: change(one) for name, one in given.items() if one is not None
        }
        return dataclasses.replace(self, **found) if found else self

    def exchanged(self) -> Batch:
        """Return the batch with exchanged views, without own negatives, which only anchors have."""
        mask, n = self.mask, self.count
        if mask is not None:
            pairs, others = mask[:, :n].T, mask[:, n:]
            joined = others.shape[1] > 0  # otherwise a view suffices
            mask = array_namespace(mask).concat([pairs, others], axis=-1) if joined else pairs
        return dataclasses.replace(
            self._with_others(Batch.exchanged),
            anchors=self.positives,
            positives=self.anchors,
            own_negatives=None,
            mask=mask,
            known=self.known.exchanged(self.extra_count + self.own_count),
        )

    def without_extra_negatives(self) -> Batch:
        """Return the batch without extra negatives and own negatives."""
        n = self.count
        return dataclasses.replace(
            self._with_others(Batch.without_extra_negatives),
            extra_negatives=None,
            own_negatives=None,
            owners=None,
            mask=None if self.mask is None else self.mask[:, :n],
            sentences=None if self.sentences is None else self.sentences[:n],
            known=self.known.without(self.extra_count + self.own_count),
        )

    def with_extra_sentences(self) -> Batch:
        """Return a copy whose whole batch has extra negatives as sentences of two equal views."""
        plain: dict[str, Any] = dict.fromkeys(
            ("extra_negatives", "owners", "guide", "mask", "sentences", "teacher")
        )
        plain["known"] = NOTHING
        if self.whole is not None:
            return dataclasses.replace(self, **plain, whole=self.whole.with_extra_sentences())
        xp, extra = array_namespace(self.anchors), self.extra_negatives
        anchors, positives = (
            xp.concat([rows, extra], axis=0) for rows in (self.anchors, self.positives)
        )
        return dataclasses.replace(self, **plain, anchors=anchors, positives=positives)

    def with_candidates(self, **changes: Any) -> Batch:
        """Return the batch with some fields of `candidates` changed."""
        return dataclasses.replace(self, candidates=dataclasses.replace(self.candidates, **changes))

    def with_fixed_positives(self) -> Batch:
        """Return the batch with the positives and all other negatives detached."""
        return self.mapped(lambda name, rows: rows if name == "anchors" else detach(rows))

    def sharing_products(self) -> Batch:
        """Return the batch with a cache of matrix products, which its `exchanged` batches share."""
        found = dataclasses.replace(self, comparison=self.comparison.sharing())
        return found._with_others(Batch.sharing_products, ("guide",))

    # Similarities.

    @cached_property
    def positive(self) -> PairSimilarity:
        """Similarity of anchor i to its own positive, (n,)."""
        return self.pair(self.anchors, self.positives)

    @cached_property
    def negatives(self) -> Negatives:
        """Similarities of anchors to `candidates`, (n, K); -inf where columns are not negatives."""
        return self.comparison.negatives(self, self.candidate_blocks, self.candidates.rules)

    @cached_property
    def other_view(self) -> Negatives:
        """Similarities of anchor i to the other view and extra negatives, (n, K); -inf at j = i."""
        return self.comparison.negatives(self, self._blocks_of(USUAL))

    @cached_property
    def same_view(self) -> Negatives:
        """Similarities ``Q_ij`` of anchor i to all anchors, (n, N); -inf at j = i."""
        return self._within(self.anchors, self.every.anchors)

    @cached_property
    def same_view_fixed(self) -> Negatives:
        """`same_view` with the other anchors ``h_j`` detached."""
        return self._within(self.anchors, self.every._fixed_anchors)

    @cached_property
    def _fixed_anchors(self) -> Float[Array, "all d"]:
        """The detached anchors, one tensor for all rows: `gradlab.scale` knows it by identity."""
        return detach(self.anchors)

    @cached_property
    def positive_view(self) -> Negatives:
        """Similarities ``Q'_ij`` of positive i to all positives, (n, N); -inf at j = i."""
        return self._within(self.positives, self.every.positives)

    def pair(self, first: Float[Array, "*#n d"], second: Float[Array, "*#n d"]) -> PairSimilarity:
        """Return the similarities of matching rows of ``first`` and ``second``; rows broadcast."""
        return self.comparison.pair(first, second)

    def _within(self, rows: Float[Array, "n d"], columns: Float[Array, "all d"]) -> Negatives:
        block = Block("same", rows, columns, slice(0, columns.shape[0]), self.start)
        return self.comparison.negatives(self, [block])

    @property
    def negative_vectors(self) -> Float[Array, "k d"]:
        """The other view, then the extra negatives, (K, D)."""
        return _joined([block.vectors for block in self._blocks_of(USUAL)])

    @property
    def same_view_vectors(self) -> Float[Array, "k d"]:
        """The anchors, then the extra negatives, (K, D)."""
        extra = self.extra_negatives
        return _joined([self.every.anchors] + ([] if extra is None else [extra]))

    @property
    def candidate_blocks(self) -> list[Block]:
        """Columns of the negatives, as one block per kind.

        Raises:
            GradlabError: the pools of `candidates` hold no negatives.
        """
        return self._blocks_of(self.candidates, self.own_negatives)

    def _blocks_of(
        self, candidates: Candidates, own_negatives: Float[Array, "n h d"] | None = None
    ) -> list[Block]:
        extra, pools, every = self.extra_negatives, candidates.pools, self.every
        compared = {
            "other": (self.anchors, every.positives),
            "same": (self.anchors, every.anchors),
            "positive_other": (self.positives, every.anchors),
            "positive_same": (self.positives, every.positives),
        }
        kinds = [
            (name, *compared[name]) for name in POOLS if name in pools and self.in_batch_negatives
        ]
        if extra is not None and candidates.joined_by("extra"):
            kinds.append(("extra", self.anchors, extra))
        if own_negatives is not None and candidates.joined_by("own"):
            kinds.append(("own", self.anchors, own_negatives))
        if extra is not None and "positive_same" in pools and candidates.extra_for_positives:
            kinds.append(("positive_extra", self.positives, extra))
        absent = {"extra": extra is None, "own": own_negatives is None}
        within = not {"other", "same"}.isdisjoint(pools)
        empty = [name for name in BESIDE if within and name in pools and absent[name]]
        if empty or not kinds:
            raise GradlabError(
                f"the pool {empty[0] if empty else '+'.join(pools)} has no negatives; "
                "give in-batch, extra or own negatives that belong to it"
            )
        found, start = [], 0
        for name, rows, vectors in kinds:
            columns = slice(start, start + vectors.shape[-2])
            own = name in POOLS and not (name == "positive_other" and candidates.repeated)
            found.append(Block(name, rows, vectors, columns, self.start if own else None))
            start = columns.stop
        return found

    @property
    def may_lack_negatives(self) -> bool:
        """Whether an anchor can be without negatives, because of a rule or of empty pools."""
        others = self.in_batch_negatives and self.count > 1
        beside = {"extra": self.extra_negatives, "own": self.own_negatives}
        more = any(
            rows is not None and self.candidates.joined_by(name) for name, rows in beside.items()
        )
        return bool(self.candidates.rules) or not (others or more)

    def hardened(self, negatives: Negatives, temperature: float) -> Negatives:
        """Return ``negatives`` with the hardness of `candidates`, detached, added to ``cos θ / τ``.

        Raises:
            GradlabError: the hardness concerns hard negatives, but `owners` is None.
        """
        xp, cosine = array_namespace(negatives.cosine), negatives.cosine
        added = 0.0 * self.anchors[:, :1]
        for term in self.candidates.hardness:
            amount = term.alpha * temperature * detach(cosine)
            if term.on != "all":
                amount = xp.where(self._hard_columns(term.on), amount, xp.zeros_like(amount))
            added = added + amount
        return Negatives(xp.where(xp.isinf(cosine), cosine, cosine + added), negatives.measure)

    def _hard_columns(self, on: str) -> Bool[Array, "n k"]:
        xp, parts = array_namespace(self.anchors), []
        n = self.anchors.shape[0]
        for block in self.candidate_blocks:
            if block.name == "extra" and on in ("in_batch", "hard"):
                parts.append(self.owned if on == "hard" else ~self.owned)
                continue
            acts = {"other": ("other", "in_batch"), "extra": ("other",), "own": ("other", "hard")}
            chosen, size = on in acts.get(block.name, ()), block.vectors.shape[-2]
            parts.append(xp.full((n, size), chosen, dtype=xp.bool, device=self.anchors.device))
        return _joined(parts, axis=-1)

    # Information about the sentences.

    @property
    def owned(self) -> Bool[Array, "n m"]:
        """Whether extra negative k is a hard negative of sentence i.

        Raises:
            GradlabError: `owners` is None.
        """
        if self.owners is None:
            raise GradlabError(
                "whose hard negatives the extra negatives are is not known; give their owners"
            )
        return self._numbers[:, None] == self.owners

    @property
    def _numbers(self) -> Int[Array, "n"]:
        xp, n = array_namespace(self.anchors), self.anchors.shape[0]
        return self.start + xp.arange(n, device=self.anchors.device)

    def guided(
        self, block: Block, by: Batch | None = None
    ) -> tuple[Float[Array, "n k"], Float[Array, "n"]]:
        """Return the cosines of a block's pairs and of positives by the guide, or batch ``by``."""
        known = self.guide if by is None else by
        assert known is not None
        guide = dataclasses.replace(
            known, candidates=self.candidates, in_batch_negatives=self.in_batch_negatives
        )
        (same,) = (one for one in guide.candidate_blocks if one.name == block.name)
        # The positives come from the same kind of product, so that equal texts get equal cosines.
        if block.name == "own":
            xp = array_namespace(guide.anchors)
            vectors = xp.concat([same.vectors, guide.positives[:, None, :]], axis=1)
            every = xp.sum(guide.anchors[:, None, :] * vectors, axis=-1)
            return every[:, :-1], every[:, -1]
        found = guide.comparison.cosines(same.rows, same.vectors)
        positive = guide.comparison.cosines(guide.anchors, guide.every.positives)
        return found, array_namespace(found).linalg.diagonal(positive, offset=self.start)

    def masked(self, block: Block) -> Bool[Array, "n k"] | None:
        """Return a block's mask; None if `mask` has no columns for these extra or own negatives."""
        assert self.mask is not None
        start = self._known_from(block)
        columns = slice(start, start + block.vectors.shape[-2])
        if block.name == "positive_other":  # rows are positives
            return self.mask[columns, self._rows].T
        return self.mask[self._rows, columns] if columns.stop <= self.mask.shape[1] else None

    def numbered(self, block: Block) -> tuple[Array, Array]:
        """Return sentence numbers of rows, (n,), and columns, (k,) or (n, h); empty if unknown."""
        assert self.sentences is not None
        start, k = self._known_from(block), block.vectors.shape[-2]
        if block.name != "own":
            return self.sentences[self._rows], self.sentences[start : start + k]
        own = self.sentences[start:]
        if own.shape[0]:  # another process may have more own negatives per row
            own = array_namespace(own).reshape(own, (self.count, -1))[self._rows, :k]
        return self.sentences[self._rows], own

    @property
    def _rows(self) -> slice:
        return slice(self.start, self.start + self.anchors.shape[0])

    def _known_from(self, block: Block) -> int:
        """Return where a block begins in the columns of `mask` and in `sentences`."""
        n = self.count
        starts = {"extra": n, "positive_extra": n, "own": n + self.extra_count}
        return starts.get(block.name, 0)

    @property
    def begins_inside(self) -> bool:
        """Whether the positive stands at j = i among the candidates; otherwise it comes first."""
        return self.candidate_blocks[0].own is not None

    def of_candidates(self, given: Shaped[Array, "all c"], name: str) -> Shaped[Array, "n c"]:
        """Return this batch's rows of an array that has one column per candidate.

        Raises:
            GradlabError: the loss has other candidates, or another number of them.
        """
        blocks = self.candidate_blocks
        words = {
            "other": "of the other view",
            "same": "of the own view",
            "extra": "extra negatives",
            "own": "own negatives",
        }
        if not all(block.name in words for block in blocks):
            raise GradlabError(
                f"{name} is of candidates of the anchors; "
                f"the pool {blocks[-1].name} compares positives"
            )
        count = blocks[-1].columns.stop + (not self.begins_inside)
        if given.shape[1] != count:
            parts = [f"{block.vectors.shape[-2]} {words[block.name]}" for block in blocks]
            parts = parts if self.begins_inside else ["its positive", *parts]
            raise GradlabError(
                f"{name} has shape {tuple(given.shape)}, but an anchor has {count} candidates: "
                f"{', '.join(parts)}"
            )
        return given[self._rows]

    def roles(self, block: Block) -> Int[Array, "n k"]:
        """Return the role of each pair of a block: 1 if positive, -1 if negative, 0 if neither."""
        xp, labels, relation = array_namespace(self.anchors), self.known.labels, self.known.relation
        if relation is not None:
            shift = int(not self.begins_inside)
            columns = slice(block.columns.start + shift, block.columns.stop + shift)
            return self.of_candidates(relation, "relation")[:, columns]
        shape = (self.anchors.shape[0], block.vectors.shape[-2])
        negative = xp.full(shape, -1, dtype=xp.int64, device=self.anchors.device)
        if labels is None or block.name not in POOLS:
            return negative
        mates = labels[self._rows][:, None] == labels
        return xp.where(mates, xp.ones_like(negative), negative)

    @property
    def own_role(self) -> Int[Array, "n"]:
        """Role of each anchor's own positive: 1, unless ``known.relation`` says otherwise."""
        xp, relation = array_namespace(self.anchors), self.known.relation
        if relation is None:
            return xp.ones(self.anchors.shape[0], dtype=xp.int64, device=self.anchors.device)
        rows = self.of_candidates(relation, "relation")
        return xp.linalg.diagonal(rows, offset=self.start) if self.begins_inside else rows[:, 0]

    def taught(self, name: str) -> Float[Array, "n c"]:
        """Return the teacher's scores of all candidates, or else the cosines of its embeddings.

        Raises:
            GradlabError: there is no teacher, or its scores belong to other candidates.
        """
        xp, scores = array_namespace(self.anchors), self.known.teacher
        if scores is not None:
            return self.of_candidates(scores, "teacher")
        if self.teacher is None:
            raise GradlabError(
                f"{name} needs teacher=: scores of the candidates, or a teacher's embeddings of "
                "the batch"
            )
        blocks = self.candidate_blocks
        found = [self.guided(block, self.teacher) for block in blocks]
        positive, joined = found[0][1][:, None], [part for part, _ in found]
        if not self.begins_inside:
            return xp.concat([positive, *joined], axis=-1)
        joined = _joined(joined, axis=-1)
        return xp.where(own_pairs(joined, self.start), positive, joined)

    # Sums over weights.

    def by_rows(self, function: Callable[[Batch], Float[Array, "rows *d"]]) -> Float[Array, "n *d"]:
        """Return ``function`` of the rows, without gradient; see `Comparison.by_rows`."""
        return self.comparison.by_rows(self, function)

    def total_weight(self, weight: Callable[[Batch], Float[Array, "rows k"]]) -> Float[Array, "n"]:
        """Return ``Σ_j W_ij`` without gradient; ``weight`` maps this batch, or some rows, to W."""

        def total(rows: Batch) -> Float[Array, "rows"]:
            weights = weight(rows)
            return array_namespace(weights).sum(weights, axis=-1)

        return self.by_rows(total)

    def weighted_cosines(
        self, weight: Callable[[Batch], Float[Array, "rows k"]], negatives: Negatives
    ) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
        """Return ``Σ_j sg(W_ij)`` and ``Σ_j sg(W_ij) cos θ_ij``; ``weight``: see `total_weight`."""
        return negatives.weighted_by(self, weight)


class Comparison:
    """Compares the rows of a batch with its columns: all pairs at once, in any array library.

    `gradlab.scale` has subclasses that hold the pairs of a few rows at a time.
    """

    def __init__(self) -> None:
        self._products: list[tuple[Array, Array, Array]] | None = None

    def sharing(self) -> Comparison:
        """Return a copy that computes each matrix product once and transposes it if needed.

        A comparison that shares products already is returned itself.
        """
        if self._products is not None:
            return self
        other = copy.copy(self)
        other._products = []
        return other

    @property
    def sums(self) -> dict[str, Any]:
        """Arguments of `Negatives` that change how it sums columns; empty for the usual sums."""
        return {}

    def pair(self, first: Float[Array, "*#n d"], second: Float[Array, "*#n d"]) -> PairSimilarity:
        """Return the similarities of matching rows of ``first`` and ``second``; rows broadcast."""
        return PairSimilarity.from_vectors(first, second)

    def cosines(
        self, rows: Float[Array, "n d"], columns: Float[Array, "*_ k d"], own: int | None = None
    ) -> Float[Array, "n k"]:
        """Return dot products with columns (k, D) or (n, k, D); entry (r, ``own + r``) is -inf."""
        found = own_cosines(rows, columns) if columns.ndim == 3 else self._product(rows, columns)
        return found if own is None else _without_own(found, own)

    def take(self, blocks: list[Block], index: Int[Array, "n"]) -> Float[Array, "n d"]:
        """Return the vector in column ``index[r]`` of the joined blocks for each row r."""
        xp, found = array_namespace(index), blocks[0].vectors
        for block in blocks:
            place = xp.clip(index - block.columns.start, 0, block.vectors.shape[-2] - 1)
            if block.vectors.ndim == 3:
                part = block.vectors[xp.arange(index.shape[0], device=index.device), place]
            else:
                part = self.taken(block.vectors, place)
            found = (
                part
                if block is blocks[0]
                else xp.where((index >= block.columns.start)[:, None], part, found)
            )
        return found

    def taken(self, vectors: Float[Array, "k d"], index: Int[Array, "n"]) -> Float[Array, "n d"]:
        """Return the rows ``index`` of ``vectors``."""
        return vectors[index]

    def negatives(self, batch: Batch, blocks: list[Block], rules: Sequence[Rule] = ()) -> Negatives:
        """Return the negatives of each row, (n, K); -inf where a column is not a negative.

        Raises:
            GradlabError: a rule that must leave every anchor a negative leaves an anchor none.
        """
        cosines = [self.cosines(block.rows, block.vectors, block.own) for block in blocks]
        xp = array_namespace(batch.anchors)
        for at, block in enumerate(blocks):
            if block.name == "positive_extra" and batch.owners is not None:
                cosines[at] = xp.where(batch.owned, -xp.inf, cosines[at])
        for rule in sorted(rules, key=lambda rule: not rule.must_leave_negatives):
            for at, block in enumerate(blocks):
                out = rule.left_out(block, detach(cosines[at]), batch)
                if out is None:
                    continue
                out = xp.asarray(out, device=block.rows.device)  # a rule may return a numpy array
                if block.name == "positive_other" and block.own is None:
                    out = out & ~own_pairs(out, batch.start)
                cosines[at] = xp.where(out, -xp.inf, cosines[at])
            if rule.must_leave_negatives:
                _check_some_are_left(cosines, batch.start)
        return Negatives(
            _joined(cosines, axis=-1),
            lambda index: self.pair(*self._pairs(blocks, index)),
            gaps=lambda sign: _joined(
                [
                    gaps_of(b.rows, b.vectors, one, sign)
                    for b, one in zip(blocks, cosines, strict=True)
                ],
                axis=-1,
            ),
            whole=self._whole(batch, blocks),
            **self.sums,
        )

    def _whole(self, batch: Batch, blocks: list[Block]) -> Callable[[], Negatives] | None:
        """Return a function for the whole batch's negatives; it must not keep these rows alive."""
        if batch.whole is None:
            return None
        every, side = batch.whole, [block.rows is batch.anchors for block in blocks]

        def negatives() -> Negatives:
            whole = [
                dataclasses.replace(
                    block,
                    rows=every.anchors if anchors else every.positives,
                    own=None if block.own is None else 0,
                )
                for block, anchors in zip(blocks, side, strict=True)
            ]
            return every.comparison.negatives(every, whole)

        return negatives

    def by_rows(
        self, batch: Batch, function: Callable[[Batch], Float[Array, "rows *d"]]
    ) -> Float[Array, "n *d"]:
        """Return ``function`` of all rows at once, without gradient."""
        return detach(function(batch))

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


PLAIN: Comparison = Comparison()


def _joined(parts: list[Array], axis: int = 0) -> Array:
    return parts[0] if len(parts) == 1 else array_namespace(parts[0]).concat(parts, axis=axis)


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


def _without_own(cosine: Float[Array, "n k"], own: int) -> Float[Array, "n k"]:
    return array_namespace(cosine).where(
        own_pairs(cosine, own), -array_namespace(cosine).inf, cosine
    )


def _check_some_are_left(cosines: list[Float[Array, "n _"]], start: int) -> None:
    xp = array_namespace(cosines[0])
    left = xp.zeros_like(cosines[0][:, 0], dtype=xp.bool)
    for cosine in cosines:
        left = left | xp.any(~xp.isinf(cosine), axis=-1)
    if compiled(left):
        require(xp.all(left), "the mask leaves an anchor no negative; leave it at least one")
    elif not bool(xp.all(left)):
        alone = start + int(xp.argmax(xp.astype(~left, cosines[0].dtype)))
        raise GradlabError(f"the mask leaves anchor {alone} no negative; leave it at least one")


def unit_rows(embeddings: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
    """Divide rows by their Euclidean norms."""
    xp = array_namespace(embeddings)
    return embeddings / xp.linalg.vector_norm(embeddings, axis=-1, keepdims=True)
