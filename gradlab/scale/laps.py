"""Evaluation in two laps: a loss runs once on all rows; blocks compute its sums over similarities.

In the first lap, every block adds to the sums that the loss asks for, one or two numbers per row.
Autograd then gives the derivatives of the loss with respect to these sums. In the second lap, the
blocks are computed again and turn these derivatives into gradients of rows and columns. A
log-sum-exp within one view computes each pair of sentences once, one across views serves both
directions, one over all pairs needs one lap, and similarities that fit into one block are stored
for the second lap.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from gradlab.arrays import cached_property
from gradlab.batch.batch import PLAIN, Batch, Comparison, own_cosines
from gradlab.batch.candidates import Block, Rule
from gradlab.batch.similarity import Negatives, OfEach, PairSimilarity
from gradlab.errors import GradlabError
from gradlab.scale.blocks import (
    FEWEST_ROWS,
    Blocks,
    Gradients,
    add_chord_gradients,
    chords,
    cosines,
    default_block_size,
    few_rows,
    slices,
)
from gradlab.scale.processes import Processes

# Blocks in which the pairs within a view are computed once; b blocks leave (b - 1)/2b of them out.
HALVES = 4
# Propagates the derivative with respect to an answer to the gradients of the rows.
Backward = Callable[[Gradients, Tensor], None]


class Laps(Comparison):
    """Compares all rows with all columns, for losses that need only a few numbers per row.

    Attributes:
        answers: the numbers that were computed for the loss, as leaves of its graph.
    """

    def __init__(self, processes: Processes, block_size: int | None = None) -> None:
        """Start without answers; all processes hold all rows and share the work."""
        super().__init__()
        self.processes, self._block_size = processes, block_size
        self.answers: list[Tensor] = []
        self._backwards: list[Backward] = []
        self._totals: dict[Any, Tensor] = {}
        self._made: dict[Any, tuple[_Product, int]] = {}
        self._softmaxes: dict[Any, _Softmax] = {}
        self._kept: dict[Any, list[tuple[slice, int, Tensor]]] = {}  # see `_exponentials`
        self._held: list[Any] = []  # keeps tensors alive whose ids are keys

    def negatives(self, batch: Batch, blocks: list[Block], rules: Sequence[Rule] = ()) -> Columns:
        """Return the negatives of all rows, not yet computed."""
        assert not rules
        if blocks[-1].name == "own":
            return Columns(self, blocks[:-1], (blocks[-1], batch.own_start))
        return Columns(self, blocks)

    def sharing(self) -> Laps:
        """Return this object, which already shares products."""
        return self

    def pair(self, first: Tensor, second: Tensor) -> PairSimilarity:
        """Return similarities of matching rows by chords, some rows at a time; rows broadcast."""
        if first.shape != second.shape:
            first, second = torch.broadcast_tensors(first, second)
        left, right = first.detach(), second.detach()
        lengths = chords(left, right)

        def backward(gradients: Gradients, upstream: Tensor) -> None:
            into = gradients.by(first), gradients.by(second)
            add_chord_gradients(left, right, lengths, upstream, self._share(len(left)), into)

        return PairSimilarity(*self.answer(lengths, backward))

    def by_rows(self, batch: Batch, function: Callable[[Batch], Tensor]) -> Tensor:
        """Return ``function`` of the rows, evaluated block by block, without gradient."""
        with torch.no_grad():
            parts = [function(rows) for _, rows in self.blocks(batch)]
            return self.gather(torch.cat(parts), len(batch.anchors))

    def blocks(self, batch: Batch) -> Iterator[tuple[slice, Batch]]:
        """Yield this process's rows of a batch in blocks, each with all of its similarities."""
        for some in self.row_slices(batch.anchors, batch.count):
            yield some, dataclasses.replace(batch.rows(some.start, some.stop), comparison=PLAIN)

    def row_slices(self, rows: Tensor, columns: int, parts: int = 1) -> Iterator[slice]:
        """Yield slices of this process's share of rows, or an empty one, as others wait for it.

        Without a given block size, there are at least ``parts`` of them if there are enough rows.
        """
        share, size = self._share(len(rows)), self._rows_in_block(rows, columns)
        if self._block_size is None:
            size = max(FEWEST_ROWS, min(size, -(-len(rows) // parts)))
        return slices(share.start, share.stop, size) if len(rows[share]) else iter([share])

    def _rows_in_block(self, rows: Tensor, columns: int) -> int:
        return self._block_size or default_block_size(columns, rows.device)

    def _share(self, count: int) -> slice:
        rank, processes = self.processes.rank, self.processes.count
        return slice(count * rank // processes, count * (rank + 1) // processes)

    def gather(self, own: Tensor, count: int) -> Tensor:
        """Gather the parts of ``count`` rows from all processes; ``own`` is this process's part."""
        processes = self.processes.count
        sizes = [
            count * (rank + 1) // processes - count * rank // processes for rank in range(processes)
        ]
        return self.processes.gather(own, sizes)

    def answer(self, value: Tensor, backward: Backward) -> Tensor:
        """Return a value as a leaf of the loss's graph, or unchanged if no gradient is wanted."""
        if not torch.is_grad_enabled():
            return value
        self.answers.append(value.detach().requires_grad_())
        self._backwards.append(backward)
        return self.answers[-1]

    def backward(self, derivatives: Sequence[Tensor | None], gradients: Gradients) -> None:
        """Run the second lap: propagate the derivatives with respect to `answers` to the rows.

        This process adds only its part; the gradient is the sum over processes.
        """
        for backward, derivative in zip(self._backwards, derivatives, strict=True):
            if derivative is not None:
                backward(gradients, derivative)
        for softmax in self._softmaxes.values():
            self._add_softmax(softmax, gradients)

    def close(self) -> None:
        """Release the batches, which hold a reference to this object."""
        self._backwards.clear()
        self._held.clear()
        self._made.clear()
        self._softmaxes.clear()
        self._kept.clear()

    # Log-sum-exps.

    def log_sum_exp(self, blocks: list[Block], temperature: float) -> Tensor:
        """Return ``log Σ_k exp(cos θ_ik / τ)`` of each row, (n,), as an answer."""
        products = [_Product.of(block) for block in blocks]
        found = self.known_log_sum_exp(blocks, temperature)

        def backward(_: Gradients, upstream: Tensor) -> None:
            for product in products:
                known, axis = self._made[product.key]
                softmax = self._softmaxes.setdefault(
                    (known.key, temperature), _Softmax(known, temperature)
                )
                softmax.terms.append((axis, found, upstream))

        return self.answer(found, backward)

    def own_cosines(self, block: Block, first: int) -> Tensor:
        """Return the cosines of all rows with their own negatives, (n, h), as an answer.

        Each process holds own negatives of rows from ``first`` on; columns that it lacks are -inf.
        """
        rows, own = block.rows, block.vectors
        count = own.shape[1]
        found = rows.new_zeros(len(rows), max(self.processes.collect(count)))
        found[first : first + len(own), count:] = -torch.inf
        parts = [
            (slice(first + some.start, first + some.stop), some)
            for some in slices(0, len(own), FEWEST_ROWS)
        ]
        for here, some in parts:
            found[here, :count] = own_cosines(rows.detach()[here], own.detach()[some])

        def backward(gradients: Gradients, upstream: Tensor) -> None:
            by_rows, by_own = gradients.by(rows), gradients.by(own)
            upstream = upstream[:, :count]
            for here, some in parts:
                if by_rows is not None:
                    by_rows[here] += (upstream[here, None] @ own.detach()[some])[:, 0]
                if by_own is not None:
                    by_own[some] += upstream[here, :, None] * rows.detach()[here, None]

        return self.answer(self.processes.total(found), backward)

    def known_log_sum_exp(self, blocks: list[Block], temperature: float) -> Tensor:
        """Return `log_sum_exp` without gradient."""
        products = [_Product.of(block) for block in blocks]
        key = tuple(product.key for product in products), temperature
        if key not in self._totals:
            self._learn(products, temperature, *self._sum_exponentials(products, temperature))
        return self._totals[key]

    def _learn(
        self, products: list[_Product], temperature: float, rows: Tensor, columns: Tensor | None
    ) -> None:
        """Store log-sum-exps, and the product from which the second lap computes each softmax."""
        self._held.append(products)
        self._totals[tuple(product.key for product in products), temperature] = rows
        for product in products:
            self._made.setdefault(product.key, (product, 0))
        if columns is not None:
            other = products[0].transposed
            self._totals[(other.key,), temperature] = columns
            self._made.setdefault(other.key, (products[0], 1))

    def log_sum_exp_of_all(self, blocks: list[Block], temperature: float) -> Tensor:
        """Return the answer ``log Σ_ik exp(cos θ_ik / τ)``, a scalar computed with its gradient."""
        products = [_Product.of(block) for block in blocks]
        wanted = torch.is_grad_enabled() and any(
            one.rows.requires_grad or one.columns.requires_grad for one in products
        )
        if not wanted or not _fixed_reference(products[0].rows, temperature):
            each = self.log_sum_exp if wanted else self.known_log_sum_exp
            return torch.logsumexp(each(blocks, temperature), 0)
        pushes = Gradients()
        rows, _ = self._sum_exponentials(products, temperature, pushes)
        self._learn(products, temperature, rows, None)
        total = torch.logsumexp(rows, 0)

        def backward(gradients: Gradients, upstream: Tensor) -> None:
            factor = upstream * torch.exp(1 / temperature - total) / temperature
            for tensor, push in pushes.found():
                into = gradients.by(tensor)
                if into is not None:
                    into.addcmul_(push, factor)

        return self.answer(total, backward)

    def _sum_exponentials(
        self, products: list[_Product], temperature: float, pushes: Gradients | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return log-sum-exps of rows, (n,), and of the first product's columns, (k,), if free.

        All products have the same rows. ``pushes`` gains gradients of
        ``τ Σ_ik exp((cos θ_ik - 1)/τ)``.
        """
        rows = products[0].rows
        n, shift = len(rows), 1 / temperature
        if not _fixed_reference(rows, temperature):
            parts = [
                torch.logsumexp(
                    torch.cat([one.cosines(some) for one in products], -1) / temperature, -1
                )
                for some in self.row_slices(rows, sum(len(one.columns) for one in products))
            ]
            return self.gather(torch.cat(parts), n), None
        sums, others = torch.zeros_like(rows[:, 0], requires_grad=False), None
        if products[0].own and not products[0].within:
            others = torch.zeros_like(products[0].columns[:, 0], requires_grad=False)
        for product in products:
            half = self._half(product)
            again = pushes is None and torch.is_grad_enabled()
            for some, first, exponentials in self._exponentials(product, temperature, again):
                sums[some] += exponentials.sum(1)
                if half:
                    sums[some.stop :] += exponentials[:, some.stop - first :].sum(0)
                elif others is not None and product is products[0]:
                    others += exponentials.sum(0)
                if pushes is not None:
                    product.push(exponentials, some, first, half, pushes, 2.0 if half else 1.0)
        if self.processes.count > 1:
            sums = self.gather(sums[self._share(n)], n)
        if others is not None:
            others = self.processes.total(others).log_().add_(shift)
        return sums.log_().add_(shift), others

    def _add_softmax(self, softmax: _Softmax, gradients: Gradients) -> None:
        product, shift = softmax.product, 1 / softmax.temperature
        if gradients.by(product.rows) is None and gradients.by(product.columns) is None:
            return
        if not _fixed_reference(product.rows, softmax.temperature):
            for some, first, tile in self._tiles(product, False, shift):
                parts = [
                    torch.exp(tile - (total[some, None] if axis == 0 else total)).mul_(
                        (upstream[some, None] if axis == 0 else upstream) / softmax.temperature
                    )
                    for axis, total, upstream in softmax.terms
                ]
                product.push(functools.reduce(Tensor.add_, parts), some, first, False, gradients)
            return
        half = self._half(product)
        factors: list[Tensor | None] = [None, None]
        for axis, total, upstream in softmax.terms:
            new, before = upstream / softmax.temperature * torch.exp(shift - total), factors[axis]
            factors[axis] = new if before is None else before + new
        by_rows, by_columns = factors[0], factors[0] if half else factors[1]
        for some, first, exponentials in self._exponentials(product, softmax.temperature):
            factor = 0.0 if by_columns is None else by_columns[first:]
            # The factors of a whole block would be as large as the block.
            for few in few_rows(exponentials):
                exponentials[few] *= (
                    factor if by_rows is None else by_rows[some][few, None] + factor
                )
            product.push(exponentials, some, first, half, gradients)

    def _exponentials(
        self, product: _Product, temperature: float, again: bool = False
    ) -> Iterator[tuple[slice, int, Tensor]]:
        """Yield row slices, the first column, and ``exp((cos θ - 1)/τ)``, see `_tiles`.

        They are stored if they are needed ``again`` and, with those of other products, take no more
        than one block.
        """
        key, shift = (product.key, temperature), 1 / temperature
        if key in self._kept:
            yield from self._kept.pop(key)
            return
        n, k = len(product.rows), len(product.columns)
        stored = sum(tile.numel() for tiles in self._kept.values() for *_, tile in tiles)
        again = again and stored + n * k <= self._rows_in_block(product.rows, k) * k
        kept = []
        for some, first, tile in self._tiles(product, self._half(product), shift, again):
            exponentials = tile.sub_(shift).exp_()
            if again:
                kept.append((some, first, exponentials))
            yield some, first, exponentials
        if again:
            self._kept[key] = kept

    def _half(self, product: _Product) -> bool:
        """Whether each pair within a view is computed once for both of its sentences."""
        return product.within and self.processes.count == 1

    def _tiles(
        self, product: _Product, half: bool, scale: float, kept: bool = False
    ) -> Iterator[tuple[slice, int, Tensor]]:
        """Yield row slices, the first column, and scaled cosines.

        Unless they are ``kept``, the next block overwrites them.
        """
        memory = None
        for some in self.row_slices(product.rows, len(product.columns), HALVES if half else 1):
            first = some.start if half else 0
            if memory is None and not kept:
                memory = product.rows.new_empty((some.stop - some.start) * len(product.columns))
            yield some, first, product.cosines(some, first, scale, memory)


@dataclasses.dataclass(frozen=True)
class _Product:
    """All dot products of rows (n, D) with columns (k, D).

    Attributes:
        own: whether column i holds the sentence of row i, so that the pair is left out.
    """

    rows: Tensor
    columns: Tensor
    own: bool

    @classmethod
    def of(cls, block: Block) -> _Product:
        return cls(block.rows, block.vectors, block.own is not None)

    @property
    def key(self) -> tuple[int, int, bool]:
        return id(self.rows), id(self.columns), self.own

    @property
    def transposed(self) -> _Product:
        return _Product(self.columns, self.rows, self.own)

    @property
    def within(self) -> bool:
        """Whether all pairs are within one view."""
        return self.rows is self.columns

    def cosines(
        self, some: slice, first: int = 0, scale: float = 1.0, memory: Tensor | None = None
    ) -> Tensor:
        """Return cosines of some rows with the columns from ``first`` on, times a scale."""
        rows = self.rows.detach()[some]
        own = some.start - first if self.own else None
        return cosines(
            rows if scale == 1 else rows * scale, self.columns.detach()[first:], own, memory
        )

    def push(
        self,
        coefficients: Tensor,
        some: slice,
        first: int,
        half: bool,
        gradients: Gradients,
        factor: float = 1.0,
    ) -> None:
        """Add the gradients of rows and columns, given the derivatives with respect to cosines.

        With ``half``, pairs among these rows are already present in both orders.
        """
        rows, columns = self.rows.detach(), self.columns.detach()
        by_rows, by_columns = gradients.by(self.rows), gradients.by(self.columns)
        if by_rows is not None:
            by_rows[some].addmm_(coefficients, columns[first:], alpha=factor)
        start = some.stop if half else first
        if by_columns is not None:
            by_columns[start:].addmm_(coefficients[:, start - first :].T, rows[some], alpha=factor)


@dataclasses.dataclass
class _Softmax:
    """Log-sum-exps of a product's rows (0) or columns (1) at one temperature, with derivatives."""

    product: _Product
    temperature: float
    terms: list[tuple[int, Tensor, Tensor]] = dataclasses.field(default_factory=list)


def _fixed_reference(rows: Tensor, temperature: float) -> bool:
    """Whether ``exp((cos θ - 1)/τ)`` can be summed without underflow of any cosine's term."""
    return 2 / temperature < 80 * (1 if rows.dtype == torch.float32 else 8)


class Columns(Negatives):
    """Negatives of all rows of a batch, never stored; requests are computed block by block."""

    def __init__(
        self, laps: Laps, blocks: list[Block], own: tuple[Block, int] | None = None
    ) -> None:
        """Bypass the frozen dataclass without these fields; ``own`` serves only the log-sum-exp."""
        self.__dict__.update(_laps=laps, _blocks=blocks, _own=own, whole=None)

    def __repr__(self) -> str:
        return f"Columns({len(self._blocks[0].rows)} rows)"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise GradlabError(
            f"the loss needs all similarities of the batch at once ({name}), which blocks "
            "never hold; see gradlab.BatchLoss for what they answer"
        )

    def log_sum_exp(self, temperature: float) -> Tensor:
        """Return ``log Σ_k exp(cos θ_k / τ)``, (n,)."""
        if self._own is not None:
            shared = Columns(self._laps, self._blocks).log_sum_exp(temperature)
            return torch.logaddexp(
                shared, torch.logsumexp(self._laps.own_cosines(*self._own) / temperature, -1)
            )
        if isinstance(temperature, Tensor):
            rows = self.log_sum_exp(float(temperature.detach()))
            return rows + self._slope(temperature.detach()) * (temperature - temperature.detach())
        return self._laps.log_sum_exp(self._blocks, temperature)

    def log_sum_exp_of_all(self, temperature: float) -> Tensor:
        """Return ``log Σ_ik exp(cos θ_ik / τ)``."""
        if isinstance(temperature, Tensor):
            rows = self.log_sum_exp_of_all(float(temperature.detach()))
            slope = (
                self.shares_of_all(float(temperature.detach())) * self._slope(temperature.detach())
            ).sum()
            return rows + slope * (temperature - temperature.detach())
        return self._laps.log_sum_exp_of_all(self._blocks, temperature)

    def _slope(self, temperature: Tensor) -> Tensor:
        """Return the derivative of `log_sum_exp` with respect to a learned temperature, (n,)."""
        with torch.no_grad():
            mean = self.mean_of(
                lambda negatives: negatives.finite_cosine,
                lambda negatives: negatives.cosine / temperature,
            )
            return -mean / temperature**2

    def shares_of_all(self, temperature: float) -> Tensor:
        """Return each anchor's share of a softmax over all pairs, (n,), without gradient."""
        return torch.softmax(self._laps.known_log_sum_exp(self._blocks, temperature), 0)

    def log_sum_exp_of(self, logit: OfEach) -> Tensor:
        """Return ``log Σ_k exp(φ_k)``, (n,)."""
        return self._ask(lambda negatives: negatives.log_sum_exp_of(logit))

    def sum_of(self, quantity: OfEach, slope: OfEach | None = None) -> Tensor:
        """Return ``Σ_k f_k``, (n,)."""
        return self._ask(lambda negatives: negatives.sum_of(quantity))

    def mean_of(self, quantity: OfEach, logit: OfEach) -> Tensor:
        """Return ``Σ_k softmax_k(φ) f_k``, (n,)."""
        return self._ask(lambda negatives: negatives.mean_of(quantity, logit))

    @cached_property
    def count(self) -> Tensor:  # type: ignore[override]  # a property there
        """Number of negatives of each anchor, (n,)."""
        return self._ask(lambda negatives: negatives.count)

    @cached_property
    def hardest_index(self) -> Tensor:
        """Column of the largest cosine, (n,)."""
        with torch.no_grad():
            rows = self._blocks[0].rows
            parts = [self._some(some).hardest_index for some in self._slices()]
            return self._laps.gather(torch.cat(parts), len(rows))

    @cached_property
    def hardest(self) -> PairSimilarity:
        """Similarity to the hardest negative, measured by chords."""
        return self._laps.pair(*self._laps._pairs(self._blocks, self.hardest_index))

    def weighted_by(self, batch: Any, weight: Callable[[Any], Tensor]) -> tuple[Tensor, Tensor]:
        """Return ``Σ_k sg(W_k)`` and ``Σ_k sg(W_k) cos θ_k``, (n,) each."""
        laps, blocks = self._laps, self._blocks
        rows = blocks[0].rows
        totals, sums = [], []
        with torch.no_grad():
            for _, some in laps.blocks(batch):
                weights = weight(some)
                totals.append(weights.sum(-1))
                sums.append(sum(weights[:, block.columns] @ block.vectors for block in blocks))
            total, vectors = (laps.gather(torch.cat(parts), len(rows)) for parts in (totals, sums))
        found = torch.linalg.vecdot(rows, vectors)
        if any(block.vectors.requires_grad for block in blocks):

            def backward(gradients: Gradients, upstream: Tensor) -> None:
                for some, part in laps.blocks(batch):
                    weights = weight(part).mul(upstream[some, None])
                    for block in blocks:
                        into = gradients.by(block.vectors)
                        if into is not None:
                            into.addmm_(weights[:, block.columns].T, rows.detach()[some])

            found = found + laps.answer(torch.zeros_like(total), backward)
        return total, found

    def _slices(self) -> Iterator[slice]:
        return self._laps.row_slices(self._blocks[0].rows, self._blocks[-1].columns.stop)

    def _some(
        self,
        some: slice,
        comparison: Comparison = PLAIN,
        rows: Tensor | None = None,
        vectors: list[Tensor] | None = None,
    ) -> Negatives:
        """Return negatives of some rows, or of given rows and vectors, with all similarities."""
        assert self._own is None
        rows = self._blocks[0].rows[some] if rows is None else rows
        blocks = [
            dataclasses.replace(
                block, rows=rows, vectors=columns, own=None if block.own is None else some.start
            )
            for block, columns in zip(self._blocks, vectors or self._vectors, strict=True)
        ]
        return comparison.negatives(Batch(rows, rows), blocks)

    @property
    def _vectors(self) -> list[Tensor]:
        return [block.vectors for block in self._blocks]

    def _ask(self, question: Callable[[Negatives], Tensor]) -> Tensor:
        """Return any function of each row's negatives, (n,), as an answer."""
        laps, own = self._laps, self._blocks[0].rows
        with torch.no_grad():
            parts = [question(self._some(some)) for some in self._slices()]
            found = laps.gather(torch.cat(parts), len(own))

        def backward(gradients: Gradients, upstream: Tensor) -> None:
            into = gradients.by(own)
            vectors = [gradients.detached(columns) for columns in self._vectors]
            blocks = Blocks(gradients)
            for some in self._slices():
                rows = own.detach()[some].requires_grad_()
                blocks.begin([(rows, None if into is None else into[some])])
                with torch.enable_grad():
                    value = question(self._some(some, blocks, rows, vectors))
                if value.requires_grad:
                    ends = [rows, blocks.ticket]
                    by_rows, _ = torch.autograd.grad(value, ends, upstream[some], allow_unused=True)
                    if into is not None and by_rows is not None:
                        into[some] += by_rows

        return laps.answer(found, backward)
