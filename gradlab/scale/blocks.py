"""Some rows at a time against all columns: what a block holds, and where its gradients are added up."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from gradlab.arrays import cached_property
from gradlab.batch.batch import Comparison, own_cosines
from gradlab.batch.similarity import Negatives, OfEach, PairSimilarity, log_sum_exp, sum_of_each

# Similarities of one block: 16 MiB in float32 stay in a processor's last cache, unless that makes fewer than 512 rows,
# below which matrix products slow down. A GPU wants fewer and larger blocks: one entry in a KiB of its memory, so that the
# arrays that a loss makes of a block, in float32, take a small part of it.
CPU_ENTRIES, GPU_BYTES, FEWEST_ROWS = 1 << 22, 1 << 10, 512
# Columns of one product on a CPU: narrow products pack them into the cache, 10 to 20 percent faster than one wide product.
CPU_TILE = 1024
# Pairs of rows that are measured at a time: on a processor as many as stay in its cache.
CPU_PAIRS, GPU_PAIRS = 128, 1 << 14
# Similarities whose contributions to a sum are made at a time.
SUM_ENTRIES = 1 << 17


def default_block_size(columns: int, device: torch.device) -> int:
    """Rows in a block that are compared with ``columns``."""
    entries = CPU_ENTRIES
    if device.type == "cuda":
        entries = torch.cuda.get_device_properties(device).total_memory // GPU_BYTES
    return max(FEWEST_ROWS, entries // columns)


def slices(start: int, stop: int, step: int) -> Iterator[slice]:
    """Consecutive slices of ``step`` from ``start`` to ``stop``; the last one may be smaller."""
    for first in range(start, stop, step):
        yield slice(first, min(first + step, stop))


def cosines(rows: Tensor, columns: Tensor, own: int | None = None, memory: Tensor | None = None) -> Tensor:
    """All dot products, (n, k), written to ``memory`` of at least as many entries; -inf in column ``own + r`` of row r."""
    n, k = len(rows), len(columns)
    found = rows.new_empty(n, k) if memory is None else memory
    if found.ndim == 1:
        found = found[: n * k].view(n, k)
    for some in slices(0, k, CPU_TILE if rows.device.type == "cpu" else max(k, 1)):
        torch.mm(rows, columns[some].T, out=found[:, some])
    if own is not None:
        found.diagonal(own).fill_(-torch.inf)
    return found


class Gradients:
    """Where the derivatives by whole rows are added up, for every tensor of rows that requires a gradient."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._found: dict[int, tuple[Tensor, Tensor]] = {}
        self._detached: dict[int, Tensor] = {}

    def by(self, rows: Tensor) -> Tensor | None:
        """Where the derivative by these rows, (n, D), is added up; None if they require none."""
        if id(rows) not in self._found:
            if not rows.requires_grad:
                return None
            self._found[id(rows)] = rows, torch.zeros_like(rows, requires_grad=False)
        return self._found[id(rows)][1]

    def detached(self, rows: Tensor) -> Tensor:
        """The same rows without their graph, whose derivatives count as those of the rows."""
        if id(rows) not in self._detached:
            self._detached[id(rows)] = rows.detach()
            total = self.by(rows)
            if total is not None:
                self._found[id(self._detached[id(rows)])] = rows, total
        return self._detached[id(rows)]

    def found(self) -> list[tuple[Tensor, Tensor]]:
        """The tensors of rows, and the derivatives by them."""
        return list({id(rows): (rows, total) for rows, total in self._found.values()}.values())


class Blocks(Comparison):
    """Compares the rows of a block with all columns; the derivatives by both are added up in place.

    Attributes:
        ticket: to be differentiated by as well, as autograd only goes back to where it is asked to.
    """

    def __init__(self, gradients: Gradients, learned: Sequence[Tensor] = ()) -> None:
        """Take the place where gradients are added up, and the settings that a loss learns, as leaves."""
        super().__init__()
        self._gradients, self._learned, self._memory = gradients, learned, _Memory()
        self._rows: list[tuple[Tensor, Tensor]] = []
        self.ticket = torch.zeros((), requires_grad=True)

    def begin(self, rows: Iterable[tuple[Tensor | None, Tensor | None]]) -> None:
        """Go on to the next block: its rows of each kind, and where the derivatives by them are added up."""
        self._memory.rewind()
        self._rows = [(one, total) for one, total in rows if one is not None and total is not None]

    @property
    def sums(self) -> dict[str, Any]:
        """Those that take less memory. (An attribute would hold this object, and with it the memory of a block.)"""
        return {"log_sum": self._log_sum, "add": self._sum}

    def _total(self, rows: Tensor) -> Tensor | None:
        return next((total for one, total in self._rows if one is rows), None)

    def sharing(self) -> Blocks:
        """Products of a block are made where they are needed."""
        return self

    def pair(self, first: Tensor, second: Tensor) -> PairSimilarity:
        """Rows to rows, measured by their chords."""
        if first.shape != second.shape:
            return super().pair(first, second)
        return RowPairs(first, second, (self._total(first), self._total(second)), self.ticket)

    def cosines(self, rows: Tensor, columns: Tensor, own: int | None = None) -> Tensor:
        """All dot products."""
        if columns.ndim == 3:
            products: Tensor = own_cosines(rows, columns)
            return products
        totals = self._total(rows), self._gradients.by(columns)
        found: Tensor = _Cosines.apply(rows, columns, own, totals, self.ticket, self._memory)
        return found

    def _log_sum(self, cosine: Tensor, temperature: Any) -> Tensor:
        if isinstance(temperature, Tensor) or not cosine.requires_grad:
            return log_sum_exp(cosine, temperature)
        found: Tensor = _LogSum.apply(cosine, temperature, self._memory)
        return found

    def _sum(self, negatives: Negatives, quantity: OfEach) -> Tensor:
        if not negatives.cosine.requires_grad:
            return sum_of_each(negatives, quantity)
        plain = dataclasses.replace(negatives, cosine=negatives.cosine.detach())
        found: Tensor = _Sum.apply(negatives.cosine, plain, quantity, self._memory, *self._learned)
        return found

    def taken(self, vectors: Tensor, index: Tensor) -> Tensor:
        """The vectors of these numbers."""
        total = self._gradients.by(vectors)
        if total is None:
            return vectors[index]
        found: Tensor = _Taken.apply(vectors, index, total, self.ticket)
        return found


class _Memory:
    """Arrays of a block's size, which every block uses again: new ones would cost as much as a sweep through them."""

    def __init__(self) -> None:
        self._arrays: list[Tensor] = []
        self._taken = 0

    def rewind(self) -> None:
        """A new block begins, and the one before is needed no more."""
        self._taken = 0

    def take(self, like: Tensor, rows: int, columns: int) -> Tensor:
        """The next array, (rows, columns), of any content."""
        if self._taken == len(self._arrays):
            self._arrays.append(like.new_empty(rows, columns))
        # Of another shape no view of it, which autograd would not let a loss change.
        if self._arrays[self._taken].shape != (rows, columns):
            self._arrays[self._taken] = like.new_empty(rows, columns)
        self._taken += 1
        return self._arrays[self._taken - 1]


def looking_is_free(rows: Tensor) -> bool:
    """Whether a number may be read without waiting: on a GPU the host would wait for all work that was queued."""
    return rows.device.type == "cpu"


class _Cosines(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        columns: Tensor,
        own: int | None,
        totals: tuple[Tensor | None, Tensor | None],
        ticket: Tensor,
        memory: _Memory,
    ) -> Tensor:
        ctx.own, ctx.totals = own, totals
        ctx.save_for_backward(rows, columns)
        return cosines(rows, columns, own, memory.take(rows, len(rows), len(columns)))

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Any, ...]:
        rows, columns = ctx.saved_tensors
        if ctx.own is not None and not (looking_is_free(upstream) and not upstream.diagonal(ctx.own).any()):
            upstream = upstream.clone()
            upstream.diagonal(ctx.own).zero_()
        by_rows, by_columns = ctx.totals
        if by_columns is not None:
            by_columns.addmm_(upstream.T, rows)
        if by_rows is not None:
            by_rows.addmm_(upstream, columns)
            return (None,) * 6
        return (upstream @ columns if ctx.needs_input_grad[0] else None), *[None] * 5


class RowPairs(PairSimilarity):
    """Rows to rows. A cosine is their dot product, in one pass; chords take six, and only losses that ask for them pay for them."""

    def __init__(self, *ends: Any) -> None:
        """Take both rows (n, D), where the derivatives by them are added up, and the ticket of their block."""
        self.__dict__["ends"] = ends

    @cached_property
    def lengths(self) -> Tensor:
        """`chords`."""
        found: Tensor = _Chords.apply(*self.__dict__["ends"])
        return found

    @cached_property
    def cosine(self) -> Tensor:  # type: ignore[override]  # computed once
        """``cos θ``."""
        found: Tensor = _Dots.apply(*self.__dict__["ends"])
        return found

    @property
    def chord(self) -> Tensor:  # type: ignore[override]  # a field of those that are measured already
        """``|h - h'|``."""
        return self.lengths[0]

    @property
    def antichord(self) -> Tensor:  # type: ignore[override]
        """``|h + h'|``."""
        return self.lengths[1]


class _Dots(torch.autograd.Function):
    """``h · h'`` of each row, (n,)."""

    @staticmethod
    def forward(
        ctx: Any, first: Tensor, second: Tensor, totals: tuple[Tensor | None, Tensor | None], ticket: Tensor
    ) -> Tensor:
        ctx.totals = totals
        ctx.save_for_backward(first, second)
        return torch.linalg.vecdot(first, second)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        first, second = ctx.saved_tensors
        found: list[Tensor | None] = [None, None]
        for end, (other, total) in enumerate(zip((second, first), ctx.totals, strict=True)):
            if total is not None:
                total.addcmul_(other, upstream[:, None])
            elif ctx.needs_input_grad[end]:
                found[end] = other * upstream[:, None]
        return *found, None, None


class _Chords(torch.autograd.Function):
    """``|h - h'|`` and ``|h + h'|``, (2, n), a few rows at a time."""

    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        second: Tensor,
        totals: tuple[Tensor | None, Tensor | None],
        ticket: Tensor,
    ) -> Tensor:
        found = chords(first, second)
        ctx.totals = totals
        ctx.save_for_backward(first, second, found)
        return found

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        first, second, lengths = ctx.saved_tensors
        new = [
            torch.zeros_like(one) if total is None and wanted else None
            for one, total, wanted in zip((first, second), ctx.totals, ctx.needs_input_grad, strict=False)
        ]
        into = [total if made is None else made for total, made in zip(ctx.totals, new, strict=True)]
        add_chord_gradients(first, second, lengths, upstream, slice(0, len(first)), into)
        return *new, None, None


def chords(first: Tensor, second: Tensor) -> Tensor:
    """``|h - h'|`` and ``|h + h'|`` of each row, (2, n)."""
    found = first.new_empty(2, len(first))
    for rows, *ends in _ends(first, second, slice(0, len(first))):
        for lengths, end in zip(found, ends, strict=True):
            torch.linalg.vector_norm(end, dim=-1, out=lengths[rows])
    return found


def _ends(first: Tensor, second: Tensor, some: slice) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Some rows at a time, and their differences and sums, which the next ones overwrite."""
    step = CPU_PAIRS if first.device.type == "cpu" else GPU_PAIRS
    apart, together = first.new_empty(2, min(step, some.stop - some.start), first.shape[1])
    for rows in slices(some.start, some.stop, step):
        pair, count = (first[rows], second[rows]), rows.stop - rows.start
        yield rows, torch.sub(*pair, out=apart[:count]), torch.add(*pair, out=together[:count])


def add_chord_gradients(
    first: Tensor,
    second: Tensor,
    lengths: Tensor,
    upstream: Tensor,
    some: slice,
    into: Sequence[Tensor | None],
) -> None:
    """Add the derivatives of ``Σ u c`` by both rows, for some rows and their `chords` c; 0 where one is 0, NaN if u is infinite there."""
    factor = torch.where(lengths > 0, upstream / lengths, 0 * upstream)[:, :, None]
    for rows, apart, together in _ends(first, second, some):
        for total, sign in zip(into, (1, -1), strict=True):
            if total is not None:
                total[rows].addcmul_(apart, factor[0, rows], value=sign).addcmul_(together, factor[1, rows])


class _Taken(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, columns: Tensor, index: Tensor, total: Tensor, ticket: Tensor) -> Tensor:
        ctx.index, ctx.total = index, total
        return columns[index]

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[None, ...]:
        ctx.total.index_add_(0, ctx.index, upstream)
        return None, None, None, None


class _LogSum(torch.autograd.Function):
    """``log Σ_k exp(cos θ_k / τ)``, (n,); the softmax that its derivative needs is made with it, in held memory."""

    @staticmethod
    def forward(ctx: Any, cosine: Tensor, temperature: float, memory: _Memory) -> Tensor:
        logits = torch.div(cosine, temperature, out=memory.take(cosine, *cosine.shape))
        largest = logits.amax(-1)
        # In place on a CPU, whose kernel has read a row before it writes it.
        softmax = torch.softmax(logits, -1, out=logits if logits.device.type == "cpu" else None)
        # A row without negatives has no softmax.
        if not looking_is_free(logits) or largest.isinf().any():
            softmax.masked_fill_(largest.isinf()[:, None], 0.0)
        ctx.temperature, ctx.softmax = temperature, softmax
        # The softmax of the largest logit is 1 over the sum of exponentials that it is the largest of.
        found = largest - softmax.amax(-1).log()
        return torch.where(largest.isinf(), largest, found)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        softmax, ctx.softmax = ctx.softmax, None
        return softmax.mul_((upstream / ctx.temperature)[:, None]), None, None


class _Sum(torch.autograd.Function):
    """``Σ_k f_k``, (n,), of a few rows at a time, whose terms stay in a processor's cache."""

    @staticmethod
    def forward(
        ctx: Any, cosine: Tensor, negatives: Negatives, quantity: OfEach, memory: _Memory, *learned: Tensor
    ) -> Tensor:
        ctx.negatives, ctx.quantity, ctx.learned = negatives, quantity, learned
        ctx.slopes, sums = memory.take(cosine, *cosine.shape), []
        for rows, few, found in _few_sums(negatives, quantity):
            sums.append(found.detach())
            if not learned:  # what comes from above is a factor of the row
                ctx.slopes[rows] = _gradients(found, [few], torch.ones_like(found))[0]
        return torch.cat(sums)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        slopes, ctx.slopes = ctx.slopes, None
        if not ctx.learned:
            return slopes.mul_(upstream[:, None]), None, None, None
        settings = [torch.zeros_like(one) for one in ctx.learned]
        for rows, few, found in _few_sums(ctx.negatives, ctx.quantity):
            slopes[rows], *parts = _gradients(found, [few, *ctx.learned], upstream[rows])
            for total, part in zip(settings, parts, strict=True):
                total += part
        return slopes, None, None, None, *settings


def _few_sums(negatives: Negatives, quantity: OfEach) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """A few rows at a time: which, their cosines, and the sums as differentiable functions of these."""
    for rows in few_rows(negatives.cosine):
        few = negatives.cosine[rows].detach().requires_grad_()
        with torch.enable_grad():  # a copy, as a quantity may write over it
            found = sum_of_each(negatives.some(rows, few.clone()), quantity)
        yield rows, few, found


def _gradients(found: Tensor, by: Sequence[Tensor], upstream: Tensor) -> tuple[Tensor, ...]:
    """Gradients, 0 by what was not used."""
    if not found.requires_grad:
        return tuple(map(torch.zeros_like, by))
    return torch.autograd.grad(found, by, upstream, allow_unused=True, materialize_grads=True)


def few_rows(block: Tensor) -> Iterator[slice]:
    """The rows of a block, as many at a time as stay in a processor's cache; all of them on a GPU."""
    count = max(1, SUM_ENTRIES // block.shape[1]) if block.device.type == "cpu" else max(1, len(block))
    return slices(0, len(block), count)
