"""`Batch`: rows of embeddings, the columns they are compared with, and information about both."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from array_api_compat import (
    array_namespace,
    is_array_api_obj,
    is_numpy_array,
    is_torch_array,
)

from gradlab.arrays import Array, Bool, Float, Int, cached_property, detach
from gradlab.batch.candidates import (
    BESIDE,
    DEFAULT_CANDIDATES,
    POOLS,
    UNSUPERVISED,
    Block,
    Candidates,
    Supervision,
)
from gradlab.batch.comparison import PLAIN, Comparison, joined
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.errors import GradlabError

# Largest number of similarities in a block of `Batch.blocks`, unless a single row has more.
_BLOCK_ENTRIES = 1 << 22
# Fields of `Batch` that hold embeddings, and fields that hold another batch.
KINDS = ("anchors", "positives", "extra_negatives", "own_negatives")
_BATCHES = ("guide", "teacher", "origin")


@dataclasses.dataclass(frozen=True)
class Batch:
    """Unit-norm embeddings of n sentences in two views, and what each sentence is compared with.

    A loss of pairs reads `positive` and `negatives`. A loss of the whole batch reads `same_view`,
    `other_view` and `positive_view`. A `Batch` can hold some rows of a larger batch (see `rows`):
    `anchors` and `positives` are then these rows, and `whole`, the larger batch, has the columns.
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
    supervision: Supervision = UNSUPERVISED  #: labels, relation, scores and teacher scores
    teacher: Batch | None = None  #: embeddings of the same sentences by a teacher
    candidates: Candidates = DEFAULT_CANDIDATES  #: which columns are negatives, and their hardness
    #: how similarities are computed
    comparison: Comparison = dataclasses.field(  # a factory, which torch.compile can trace
        default_factory=lambda: PLAIN, repr=False, compare=False
    )
    #: the batch that `rows` took these rows from; None if this is the whole batch
    origin: Batch | None = dataclasses.field(default=None, repr=False)
    start: int = 0  #: index of the first row in the whole batch
    #: index of the first own negatives' row; above 0 only if other processes hold earlier ones
    own_start: int = 0

    # Rows and columns.

    @property
    def whole(self) -> Batch:
        """The whole batch: `origin`, or this batch if it has all rows."""
        return self if self.origin is None else self.origin

    @property
    def embeddings(self) -> tuple[Array | None, ...]:
        """Anchors, positives, extra negatives and own negatives; None for a kind that is absent."""
        return self.anchors, self.positives, self.extra_negatives, self.own_negatives

    @property
    def count(self) -> int:
        """Number of sentences N in the whole batch."""
        whole = self.origin or self
        count: int = whole.anchors.shape[0]  # not int(...): the explorer records sizes
        return count

    @property
    def extra_count(self) -> int:
        """Number of extra negatives m."""
        return 0 if self.extra_negatives is None else self.extra_negatives.shape[0]

    @property
    def own_count(self) -> int:
        """Number of own negatives of each anchor, h."""
        return 0 if self.own_negatives is None else self.own_negatives.shape[1]

    def column_sizes(self, negative_view: str) -> dict[str, int]:
        """Return how many columns a weight has of each kind of negatives, in their order."""
        n, extra, own = self.count, self.extra_negatives, self.own_negatives
        sizes = {"other": n} if self.in_batch_negatives and negative_view != "same" else {}
        sizes |= {"same": n} if negative_view != "other" else {}
        sizes |= {} if extra is None else {"extra": extra.shape[0]}
        return sizes | ({} if own is None else {"own": own.shape[1]})

    def rows(self, start: int, stop: int) -> Batch:
        """Return the rows ``start`` to ``stop`` (excluded), still compared with all columns."""
        own, first = self.own_negatives, self.own_start
        return dataclasses.replace(
            self,
            anchors=self.anchors[start:stop],
            positives=self.positives[start:stop],
            own_negatives=None if own is None else own[start - first : stop - first],
            own_start=0,
            guide=None if self.guide is None else self.guide.rows(start, stop),
            teacher=None if self.teacher is None else self.teacher.rows(start, stop),
            origin=self if self.origin is None else self.origin,
            start=self.start + start,
        )

    def first(self, count: int) -> Batch:
        """Return a batch of the first ``count`` sentences, without hard negatives of the others."""
        xp, n, m, h = array_namespace(self.anchors), self.count, self.extra_count, self.own_count
        extra, own, owners, mask = self.extra_negatives, self.own_negatives, self.owners, self.mask
        sentences = self.sentences
        columns = xp.arange(n + m + n * h, device=self.anchors.device)
        remain = ((columns < count) | (columns >= n)) & (columns < n + m + count * h)
        if owners is not None:
            remain = xp.concat([remain[:n], owners < count, remain[n + m :]])
        first = dataclasses.replace(
            self,
            anchors=self.anchors[:count],
            positives=self.positives[:count],
            extra_negatives=None if extra is None else extra[remain[n : n + m]],
            own_negatives=None if own is None else own[:count],
            owners=None if owners is None else owners[remain[n : n + m]],
            mask=None if mask is None else mask[:count][:, remain[: mask.shape[1]]],
            sentences=None if sentences is None else sentences[remain[: sentences.shape[0]]],
            supervision=self.supervision.first(count, remain[n : n + m], h),
        )
        return first._with_batches(
            lambda batch: dataclasses.replace(batch, owners=owners).first(count)
        )

    def total(self, function: Callable[[Batch], Float[Array, ""]]) -> Float[Array, ""]:
        """Return the sum of ``function`` over the rows of the whole batch, without gradient.

        The rows come in blocks of at most about four million similarities. The sum is computed once
        for a batch and all `rows` taken from it.
        """
        totals = self.whole._totals
        if function not in totals:
            whole = dataclasses.replace(
                self.whole.mapped(lambda _, embeddings: detach(embeddings)), comparison=PLAIN
            )
            step = max(1, _BLOCK_ENTRIES // (self.count + self.extra_count))
            total: Any = 0
            for start in range(0, self.count, step):
                total = total + function(whole.rows(start, min(start + step, self.count)))
            totals[function] = total
        return totals[function]

    @cached_property
    def _totals(self) -> dict[Callable[[Batch], Any], Any]:
        return {}

    def mapped(self, change: Callable[[str, Float[Array, "*_ d"]], Float[Array, "*_ e"]]) -> Batch:
        """Return the batch with ``change(name, embeddings)`` replacing each kind of embeddings."""
        changed: dict[str, Any] = {
            name: change(name, rows)
            for name, rows in zip(KINDS, self.embeddings, strict=True)
            if rows is not None
        }
        if self.origin is not None:
            changed["origin"] = self.origin.mapped(change)
        return dataclasses.replace(self, **changed)

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
        return self.in_torch()._with_arrays(
            lambda array: array.clone() if array.is_inference() else array
        )

    def _with_arrays(self, change: Callable[[Array], Array]) -> Batch:
        """Return a copy with ``change`` applied to each array, also of the other batches."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        changed = {name: change(array) for name, array in fields.items() if is_array_api_obj(array)}
        changed["supervision"] = self.supervision.mapped(lambda _, array: change(array))
        return dataclasses.replace(self, **changed)._with_batches(
            lambda batch: batch._with_arrays(change)
        )

    def _with_batches(
        self, change: Callable[[Batch], Batch], names: Sequence[str] = _BATCHES
    ) -> Batch:
        """Return a copy with ``change`` applied to the batches that this batch refers to."""
        batches = {name: getattr(self, name) for name in names}
        changed: dict[str, Any] = {
            name: change(batch) for name, batch in batches.items() if batch is not None
        }
        return dataclasses.replace(self, **changed) if changed else self

    def exchanged(self) -> Batch:
        """Return the batch with exchanged views, without own negatives, which only anchors have."""
        mask, n = self.mask, self.count
        if mask is not None:
            pairs, beside = mask[:, :n].T, mask[:, n:]
            mask = joined([pairs, beside], axis=-1) if beside.shape[1] else pairs
        return dataclasses.replace(
            self._with_batches(Batch.exchanged),
            anchors=self.positives,
            positives=self.anchors,
            own_negatives=None,
            mask=mask,
            supervision=self.supervision
            if self.supervision is UNSUPERVISED
            else self.supervision.exchanged(self.extra_count + self.own_count),
        )

    def without_extra_negatives(self) -> Batch:
        """Return the batch without extra negatives and own negatives."""
        if self.extra_negatives is None and self.own_negatives is None:
            return self
        n = self.count
        return dataclasses.replace(
            self._with_batches(Batch.without_extra_negatives),
            extra_negatives=None,
            own_negatives=None,
            owners=None,
            mask=None if self.mask is None else self.mask[:, :n],
            sentences=None if self.sentences is None else self.sentences[:n],
            supervision=self.supervision.without(self.extra_count + self.own_count),
        )

    def with_extra_sentences(self) -> Batch:
        """Return a copy whose whole batch has extra negatives as sentences of two equal views."""
        plain: dict[str, Any] = dict.fromkeys(
            ("extra_negatives", "owners", "guide", "mask", "sentences", "teacher")
        )
        plain["supervision"] = UNSUPERVISED
        if self.origin is not None:
            return dataclasses.replace(self, **plain, origin=self.origin.with_extra_sentences())
        xp, extra = array_namespace(self.anchors), self.extra_negatives
        anchors, positives = (
            xp.concat([rows, extra], axis=0) for rows in (self.anchors, self.positives)
        )
        return dataclasses.replace(self, **plain, anchors=anchors, positives=positives)

    def with_candidates(self, **changes: Any) -> Batch:
        """Return the batch with some fields of `candidates` changed."""
        return dataclasses.replace(self, candidates=dataclasses.replace(self.candidates, **changes))

    def with_fixed_positives(self) -> Batch:
        """Return the batch with the positives and all negatives detached."""
        return self.mapped(lambda name, rows: rows if name == "anchors" else detach(rows))

    def sharing_products(self) -> Batch:
        """Return the batch with a cache of matrix products, which its `exchanged` batches share."""
        comparison = self.comparison.sharing()
        if comparison is self.comparison:
            return self
        guide = None if self.guide is None else self.guide.sharing_products()
        return dataclasses.replace(self, comparison=comparison, guide=guide)

    # Similarities.

    @cached_property
    def positive(self) -> PairSimilarity:
        """Similarity of anchor i to its own positive, (n,)."""
        return self.comparison.pair(self.anchors, self.positives)

    @cached_property
    def negatives(self) -> Negatives:
        """Similarities of anchors to `candidates`, (n, K); -inf where columns are not negatives."""
        return self.comparison.negatives(self, self.candidate_blocks, self.candidates.rules)

    @cached_property
    def other_view(self) -> Negatives:
        """Similarities of anchor i to the other view and extra negatives, (n, K); -inf at j = i."""
        return self.comparison.negatives(self, self._blocks_of(DEFAULT_CANDIDATES))

    @cached_property
    def same_view(self) -> Negatives:
        """Similarities ``Q_ij`` of anchor i to all anchors, (n, N); -inf at j = i."""
        return self._within(self.anchors, self.whole.anchors)

    @cached_property
    def same_view_fixed(self) -> Negatives:
        """`same_view` with the other anchors ``h_j`` detached."""
        return self._within(self.anchors, self.whole._fixed_anchors)

    @cached_property
    def _fixed_anchors(self) -> Float[Array, "all d"]:
        """The detached anchors, one tensor for all rows: `gradlab.scale` knows it by identity."""
        return detach(self.anchors)

    @cached_property
    def positive_view(self) -> Negatives:
        """Similarities ``Q'_ij`` of positive i to all positives, (n, N); -inf at j = i."""
        return self._within(self.positives, self.whole.positives)

    def pair(self, first: Float[Array, "*#n d"], second: Float[Array, "*#n d"]) -> PairSimilarity:
        """Return the similarities of matching rows of ``first`` and ``second``; rows broadcast."""
        return self.comparison.pair(first, second)

    def _within(self, rows: Float[Array, "n d"], columns: Float[Array, "all d"]) -> Negatives:
        block = Block("same", rows, columns, slice(0, columns.shape[0]), self.start)
        return self.comparison.negatives(self, [block])

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
        extra, pools = self.extra_negatives, candidates.pools
        whole = self if self.origin is None else self.origin
        compared = {
            "other": (self.anchors, whole.positives),
            "same": (self.anchors, whole.anchors),
            "positive_other": (self.positives, whole.anchors),
            "positive_same": (self.positives, whole.positives),
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
        blocks, start = [], 0
        for name, rows, vectors in kinds:
            columns = slice(start, start + vectors.shape[-2])
            own = name in POOLS and not (name == "positive_other" and candidates.repeated)
            blocks.append(Block(name, rows, vectors, columns, self.start if own else None))
            start = columns.stop
        if self.mask is None and self.sentences is None:
            return blocks
        return [self._with_mask_and_numbers(block) for block in blocks]

    def _with_mask_and_numbers(self, block: Block) -> Block:
        """Return a block with its columns of `mask` and `sentences`, which have all kinds."""
        n, width = self.count, block.vectors.shape[-2]
        rows = slice(self.start, self.start + self.anchors.shape[0])
        # A block within the batch has the first columns, whichever view they belong to.
        start = {"extra": n, "positive_extra": n, "own": n + self.extra_count}.get(block.name, 0)
        columns, mask, numbers = slice(start, start + width), self.mask, self.sentences
        if mask is not None and block.name == "positive_other":  # rows are positives
            mask = mask[columns, rows].T
        elif mask is not None:
            mask = mask[rows, columns] if columns.stop <= mask.shape[1] else None
        if numbers is not None:
            of_columns = numbers[columns]
            if block.name == "own":
                of_columns = numbers[start:]
                if of_columns.shape[0]:  # another process may have more own negatives per row
                    xp = array_namespace(numbers)
                    of_columns = xp.reshape(of_columns, (n, -1))[rows, :width]
            numbers = numbers[rows], of_columns
        return dataclasses.replace(block, mask=mask, numbers=numbers)

    @property
    def may_lack_negatives(self) -> bool:
        """Whether an anchor can be without negatives, because of a rule or of empty pools."""
        if self.candidates.rules:
            return True
        if self.in_batch_negatives and (self.anchors.shape[0] > 1 or self.count > 1):
            return False
        outside = {"extra": self.extra_negatives, "own": self.own_negatives}
        return not any(
            rows is not None and self.candidates.joined_by(name) for name, rows in outside.items()
        )

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
        xp, n = array_namespace(self.anchors), self.anchors.shape[0]
        return (self.start + xp.arange(n, device=self.anchors.device))[:, None] == self.owners

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
