"""Sums over all pairs in two laps: a loss runs once on all rows, and blocks compute its log-sums.

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

from gradlab.batch.batch import Batch
from gradlab.batch.candidates import Block, Rule
from gradlab.batch.comparison import PLAIN, Comparison, own_cosines
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.scale.block_size import FEWEST_ROWS, default_block_size
from gradlab.scale.blocks import Gradients, RowPairs
from gradlab.scale.matrix_products import (
    add_chord_gradients,
    chords,
    few_rows,
    fixed_reference,
    slices,
)
from gradlab.scale.processes import Processes
from gradlab.scale.softmax_gradients import Product, Softmax
from gradlab.scale.streamed_negatives import StreamedNegatives

# Blocks in which the pairs within a view are computed once; b blocks leave (b - 1)/2b of them out.
HALVES = 4
# Propagates the derivative with respect to an answer to the gradients of the rows.
Backward = Callable[[Gradients, Tensor], None]


class StreamedComparison(Comparison):
    """Compares all rows with all columns, for losses that need only a few numbers per row.

    Attributes:
        answers: the numbers that were computed for the loss, as leaves of its graph.
    """

    def __init__(self, processes: Processes, block_size: int | None = None) -> None:
        """Start without answers; all processes hold all rows and share the work."""
        self.processes, self._block_size = processes, block_size
        self.answers: list[Tensor] = []
        self._backwards: list[Backward] = []
        self._totals: dict[Any, Tensor] = {}
        #: for the key of a product, the product that was computed, and the axis of its rows there
        self._computed: dict[Any, tuple[Product, int]] = {}
        self._softmaxes: dict[Any, Softmax] = {}
        self._stored: dict[Any, list[tuple[slice, int, Tensor]]] = {}  # see `_exponentials`
        self._referenced: list[Any] = []  # tensors whose ids are keys, so that they stay alive

    def negatives(self, batch: Batch, blocks: list[Block], rules: Sequence[Rule] = ()) -> Negatives:
        """Return the negatives of all rows, not yet computed."""
        assert not rules
        if blocks[-1].name == "own":
            return StreamedNegatives(self, blocks[:-1], (blocks[-1], batch.own_start))
        return StreamedNegatives(self, blocks)

    def sharing(self) -> StreamedComparison:
        """Return this object, which already shares products."""
        return self

    def pair(self, first: Tensor, second: Tensor) -> PairSimilarity:
        """Return the similarities of matching rows, measured when they are read; rows broadcast."""
        if first.shape != second.shape:
            first, second = torch.broadcast_tensors(first, second)
        return RowPairs(
            functools.partial(self._dots, first, second),
            functools.partial(self._chords, first, second),
        )

    def _dots(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the dot products of matching rows, (n,), as an answer."""
        left, right = first.detach(), second.detach()

        def backward(gradients: Gradients, upstream: Tensor) -> None:
            share = self._share(len(left))
            for rows, opposite in ((first, right), (second, left)):
                total = gradients.by(rows)
                if total is not None:
                    total[share].addcmul_(opposite[share], upstream[share, None])

        return self.answer(torch.linalg.vecdot(left, right), backward)

    def _chords(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the chords of matching rows, (2, n), some rows at a time, as an answer."""
        left, right = first.detach(), second.detach()
        lengths = chords(left, right)

        def backward(gradients: Gradients, upstream: Tensor) -> None:
            totals = gradients.by(first), gradients.by(second)
            add_chord_gradients(left, right, lengths, upstream, self._share(len(left)), totals)

        return self.answer(lengths, backward)

    def by_rows(self, batch: Batch, function: Callable[[Batch], Tensor]) -> Tensor:
        """Return ``function`` of the rows, evaluated block by block, without gradient."""
        with torch.no_grad():
            shares = [function(rows) for _, rows in self.blocks(batch)]
            return self.gather(torch.cat(shares), len(batch.anchors))

    def blocks(self, batch: Batch) -> Iterator[tuple[slice, Batch]]:
        """Yield this process's rows of a batch in blocks, each with all of its similarities."""
        for share in self.row_slices(batch.anchors, batch.count):
            yield share, dataclasses.replace(batch.rows(share.start, share.stop), comparison=PLAIN)

    def row_slices(self, rows: Tensor, columns: int, least: int = 1) -> list[slice]:
        """Return slices of this process's share of rows, or an empty one, as others wait for it.

        Without a set block size, there are at least ``least`` of them if there are enough rows.
        """
        share, size = self._share(len(rows)), self._rows_in_block(rows, columns)
        if self._block_size is None:
            size = max(FEWEST_ROWS, min(size, -(-len(rows) // least)))
        return slices(share.start, share.stop, size) if share.start < share.stop else [share]

    def _rows_in_block(self, rows: Tensor, columns: int) -> int:
        return self._block_size or default_block_size(columns, rows.device)

    def _share(self, count: int) -> slice:
        rank, processes = self.processes.rank, self.processes.count
        return slice(count * rank // processes, count * (rank + 1) // processes)

    def gather(self, share: Tensor, count: int) -> Tensor:
        """Gather the shares of ``count`` rows from all processes; ``share`` is of this process."""
        processes = self.processes.count
        if processes == 1:
            return share
        sizes = [
            count * (rank + 1) // processes - count * rank // processes for rank in range(processes)
        ]
        return self.processes.gather(share, sizes)

    def answer(self, value: Tensor, backward: Backward) -> Tensor:
        """Return a value as a leaf of the loss's graph, or unchanged if no gradient is wanted."""
        if not torch.is_grad_enabled():
            return value
        self.answers.append(value.detach().requires_grad_())
        self._backwards.append(backward)
        return self.answers[-1]

    def backward(self, derivatives: Sequence[Tensor | None], gradients: Gradients) -> None:
        """Run the second lap: propagate the derivatives with respect to `answers` to the rows.

        This process adds only its share; the gradient is the sum over processes.
        """
        for backward, derivative in zip(self._backwards, derivatives, strict=True):
            if derivative is not None:
                backward(gradients, derivative)
        for softmax in self._softmaxes.values():
            self._add_softmax(softmax, gradients)

    def close(self) -> None:
        """Release the batches, which hold a reference to this object."""
        self._backwards.clear()
        self._referenced.clear()
        self._computed.clear()
        self._softmaxes.clear()
        self._stored.clear()

    # Log-sum-exps.

    def log_sum_exp(self, blocks: list[Block], temperature: float) -> Tensor:
        """Return ``log Σ_k exp(cos θ_ik / τ)`` of each row, (n,), as an answer."""
        products = [Product.of(block) for block in blocks]
        sums = self.fixed_log_sum_exp(blocks, temperature)

        def backward(_: Gradients, upstream: Tensor) -> None:
            for product in products:
                computed, axis = self._computed[product.key]
                softmax = self._softmaxes.setdefault(
                    (computed.key, temperature), Softmax(computed, temperature)
                )
                softmax.terms.append((axis, sums, upstream))

        return self.answer(sums, backward)

    def own_cosines(self, block: Block, first: int) -> Tensor:
        """Return the cosines of all rows with their own negatives, (n, h), as an answer.

        Each process holds own negatives of rows from ``first`` on; columns that it lacks are -inf.
        """
        rows, own = block.rows, block.vectors
        count = own.shape[1]
        cosines = rows.new_zeros(len(rows), max(self.processes.collect(count)))
        cosines[first : first + len(own), count:] = -torch.inf
        # Positions of a few rows in the batch, and among those that have own negatives.
        pairs = [
            (slice(first + few.start, first + few.stop), few)
            for few in slices(0, len(own), FEWEST_ROWS)
        ]
        for at, few in pairs:
            cosines[at, :count] = own_cosines(rows.detach()[at], own.detach()[few])

        def backward(gradients: Gradients, upstream: Tensor) -> None:
            by_rows, by_own = gradients.by(rows), gradients.by(own)
            upstream = upstream[:, :count]
            for at, few in pairs:
                if by_rows is not None:
                    by_rows[at] += (upstream[at, None] @ own.detach()[few])[:, 0]
                if by_own is not None:
                    by_own[few] += upstream[at, :, None] * rows.detach()[at, None]

        return self.answer(self.processes.total(cosines), backward)

    def fixed_log_sum_exp(self, blocks: list[Block], temperature: Any) -> Tensor:
        """Return `log_sum_exp` without gradient."""
        products = [Product.of(block) for block in blocks]
        key = tuple(product.key for product in products), temperature
        if key not in self._totals:
            self._store(products, temperature, *self._log_sums(products, temperature))
        return self._totals[key]

    def _store(
        self, products: list[Product], temperature: float, rows: Tensor, columns: Tensor | None
    ) -> None:
        """Store log-sum-exps, and the product from which the second lap computes each softmax."""
        self._referenced.append(products)
        self._totals[tuple(product.key for product in products), temperature] = rows
        for product in products:
            self._computed.setdefault(product.key, (product, 0))
        if columns is not None:
            transposed = products[0].transposed
            self._totals[(transposed.key,), temperature] = columns
            self._computed.setdefault(transposed.key, (products[0], 1))

    def log_sum_exp_of_all(self, blocks: list[Block], temperature: float) -> Tensor:
        """Return the answer ``log Σ_ik exp(cos θ_ik / τ)``, a scalar computed with its gradient."""
        products = [Product.of(block) for block in blocks]
        differentiated = torch.is_grad_enabled() and any(
            product.rows.requires_grad or product.columns.requires_grad for product in products
        )
        if not differentiated or not fixed_reference(products[0].rows, temperature):
            log_sum_exp = self.log_sum_exp if differentiated else self.fixed_log_sum_exp
            return torch.logsumexp(log_sum_exp(blocks, temperature), 0)
        pushes = Gradients()
        rows, _ = self._log_sums(products, temperature, pushes)
        self._store(products, temperature, rows, None)
        total = torch.logsumexp(rows, 0)

        def backward(gradients: Gradients, upstream: Tensor) -> None:
            factor = upstream * torch.exp(1 / temperature - total) / temperature
            for tensor, push in pushes.accumulated():
                accumulator = gradients.by(tensor)
                if accumulator is not None:
                    accumulator.addcmul_(push, factor)

        return self.answer(total, backward)

    def _log_sums(
        self, products: list[Product], temperature: float, pushes: Gradients | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return log-sum-exps of rows, (n,), and of the first product's columns, (k,), if free.

        All products have the same rows. ``pushes`` gains gradients of
        ``τ Σ_ik exp((cos θ_ik - 1)/τ)``.
        """
        rows = products[0].rows
        n, shift = len(rows), 1 / temperature
        if not fixed_reference(rows, temperature):
            columns = sum(len(product.columns) for product in products)
            log_sums = [
                torch.logsumexp(
                    torch.cat([product.cosines(share) for product in products], -1) / temperature,
                    -1,
                )
                for share in self.row_slices(rows, columns)
            ]
            return self.gather(torch.cat(log_sums), n), None
        sums, column_sums = torch.zeros_like(rows[:, 0], requires_grad=False), None
        if products[0].own and not products[0].within:
            column_sums = torch.zeros_like(products[0].columns[:, 0], requires_grad=False)
        for product in products:
            half = self._half(product)
            reused = pushes is None and torch.is_grad_enabled()
            for share, first, exponentials in self._exponentials(product, temperature, reused):
                sums[share] += exponentials.sum(1)
                if half:
                    sums[share.stop :] += exponentials[:, share.stop - first :].sum(0)
                elif column_sums is not None and product is products[0]:
                    column_sums += exponentials.sum(0)
                if pushes is not None:
                    product.push(exponentials, share, first, half, pushes, 2.0 if half else 1.0)
        if self.processes.count > 1:
            sums = self.gather(sums[self._share(n)], n)
        if column_sums is not None:
            column_sums = self.processes.total(column_sums).log_().add_(shift)
        return sums.log_().add_(shift), column_sums

    def _add_softmax(self, softmax: Softmax, gradients: Gradients) -> None:
        product, shift = softmax.product, 1 / softmax.temperature
        if gradients.by(product.rows) is None and gradients.by(product.columns) is None:
            return
        if not fixed_reference(product.rows, softmax.temperature):
            for share, first, tile in self._tiles(product, False, shift):
                coefficients = [
                    torch.exp(tile - (total[share, None] if axis == 0 else total)).mul_(
                        (upstream[share, None] if axis == 0 else upstream) / softmax.temperature
                    )
                    for axis, total, upstream in softmax.terms
                ]
                added = functools.reduce(Tensor.add_, coefficients)
                product.push(added, share, first, False, gradients)
            return
        half = self._half(product)
        factors: list[Tensor | None] = [None, None]
        for axis, total, upstream in softmax.terms:
            factor = upstream / softmax.temperature * torch.exp(shift - total)
            total_factor = factors[axis]
            factors[axis] = factor if total_factor is None else total_factor + factor
        by_rows, by_columns = factors[0], factors[0] if half else factors[1]
        for share, first, exponentials in self._exponentials(product, softmax.temperature):
            of_columns = 0.0 if by_columns is None else by_columns[first:]
            # The factors of a whole block would be as large as the block.
            for few in few_rows(exponentials):
                exponentials[few] *= (
                    of_columns if by_rows is None else by_rows[share][few, None] + of_columns
                )
            product.push(exponentials, share, first, half, gradients)

    def _exponentials(
        self, product: Product, temperature: float, reused: bool = False
    ) -> Iterator[tuple[slice, int, Tensor]]:
        """Yield row slices, the first column, and ``exp((cos θ - 1)/τ)``, see `_tiles`.

        They are stored if they are ``reused`` and, with those of other products, take no more than
        one block.
        """
        key, shift = (product.key, temperature), 1 / temperature
        if key in self._stored:
            yield from self._stored.pop(key)
            return
        n, k = len(product.rows), len(product.columns)
        entries = sum(tile.numel() for tiles in self._stored.values() for *_, tile in tiles)
        reused = reused and entries + n * k <= self._rows_in_block(product.rows, k) * k
        stored = []
        for share, first, tile in self._tiles(product, self._half(product), shift, reused):
            exponentials = tile.sub_(shift).exp_()
            if reused:
                stored.append((share, first, exponentials))
            yield share, first, exponentials
        if reused:
            self._stored[key] = stored

    def _half(self, product: Product) -> bool:
        """Whether each pair within a view is computed once for both of its sentences."""
        return product.within and self.processes.count == 1

    def _tiles(
        self, product: Product, half: bool, scale: float, reused: bool = False
    ) -> Iterator[tuple[slice, int, Tensor]]:
        """Yield row slices, the first column, and scaled cosines.

        Unless they are ``reused``, the next block overwrites them.
        """
        memory = None
        for share in self.row_slices(product.rows, len(product.columns), HALVES if half else 1):
            first = share.start if half else 0
            if memory is None and not reused:
                memory = product.rows.new_empty((share.stop - share.start) * len(product.columns))
            yield share, first, product.cosines(share, first, scale, memory)
