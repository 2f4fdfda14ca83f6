"""Blocks of rows compared with all columns, and the arrays that accumulate their gradients."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from gradlab.arrays import cached_property
from gradlab.batch.batch import Comparison, own_cosines
from gradlab.batch.similarity import Negatives, OfEach, PairSimilarity, log_sum_exp, sum_of_each

# Similarities per block: on a CPU 16 MiB in float32, which fit into the last-level cache, but at
# least 512 rows, because smaller products are slow; on a GPU, one per KiB of its memory.
CPU_ENTRIES, GPU_BYTES, FEWEST_ROWS = 1 << 22, 1 << 10, 512
# Columns per product on a CPU: narrow products fit into the cache and are 10 to 20 percent faster.
CPU_TILE = 1024
# Pairs of rows measured at a time; on a CPU they have to fit into the cache.
CPU_PAIRS, GPU_PAIRS = 128, 1 << 14
# Similarities per step of a sum over columns.
SUM_ENTRIES = 1 << 16


def default_block_size(columns: int, device: torch.device) -> int:
    """Return the default number of rows in a block that is compared with ``columns`` columns."""
    entries = CPU_ENTRIES
    if device.type == "cuda":
        entries = torch.cuda.get_device_properties(device).total_memory // GPU_BYTES
    return max(FEWEST_ROWS, entries // columns)


def tf32_allowed() -> bool:
    """Whether torch multiplies float32 matrices in TF32 on a GPU."""
    matmul = torch.backends.cuda.matmul
    # The older name raises an error where the newer one, of torch 2.9, was used to allow it.
    found = getattr(matmul, "fp32_precision", None)
    return bool(matmul.allow_tf32) if found is None else found == "tf32"


@contextlib.contextmanager
def in_tf32(wanted: bool) -> Iterator[None]:
    """Allow TF32 within the block, if wanted; as torch's setting, for all threads."""
    if not wanted or tf32_allowed():
        yield
        return
    matmul = torch.backends.cuda.matmul
    before = getattr(matmul, "fp32_precision", None)
    matmul.allow_tf32 = True
    try:
        yield
    finally:
        matmul.allow_tf32 = False
        if before is not None:
            matmul.fp32_precision = before


def slices(start: int, stop: int, step: int) -> Iterator[slice]:
    """Split ``start`` to ``stop`` into slices of length ``step``; the last may be shorter."""
    for first in range(start, stop, step):
        yield slice(first, min(first + step, stop))


def cosines(
    rows: Tensor, columns: Tensor, own: int | None = None, memory: Tensor | None = None
) -> Tensor:
    """Return dot products, (n, k), in ``memory`` if given; -inf in column ``own + r`` of row r."""
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
    """Accumulates gradients with respect to whole tensors of rows that require a gradient."""

    def __init__(self) -> None:
        """Start without any gradient."""
        self._found: dict[int, tuple[Tensor, Tensor]] = {}
        self._detached: dict[int, Tensor] = {}

    def by(self, rows: Tensor) -> Tensor | None:
        """Return the accumulator of the gradient of ``rows``, (n, D); None if they require none."""
        if id(rows) not in self._found:
            if not rows.requires_grad:
                return None
            self._found[id(rows)] = rows, torch.zeros_like(rows, requires_grad=False)
        return self._found[id(rows)][1]

    def detached(self, rows: Tensor) -> Tensor:
        """Return ``rows`` without their graph; the result's gradients are added to theirs."""
        if id(rows) not in self._detached:
            self._detached[id(rows)] = rows.detach()
            total = self.by(rows)
            if total is not None:
                self._found[id(self._detached[id(rows)])] = rows, total
        return self._detached[id(rows)]

    def found(self) -> list[tuple[Tensor, Tensor]]:
        """Return pairs of a tensor of rows and its gradient."""
        return list({id(rows): (rows, total) for rows, total in self._found.values()}.values())


class Blocks(Comparison):
    """Compares the rows of a block with all columns and accumulates the gradients of both in place.

    Attributes:
        ticket: a leaf to differentiate with respect to, so that autograd runs through every block.
    """

    def __init__(self, gradients: Gradients, learned: Sequence[Tensor] = ()) -> None:
        """Store the accumulator of gradients and the loss's learned settings, which are leaves."""
        super().__init__()
        self._gradients, self._learned, self._memory = gradients, learned, _Memory()
        self._rows: list[tuple[Tensor, Tensor]] = []
        self.ticket = torch.zeros((), requires_grad=True)

    def begin(self, rows: Iterable[tuple[Tensor | None, Tensor | None]]) -> None:
        """Start the next block with its rows of each kind and accumulators of their gradients."""
        self._memory.rewind()
        self._rows = [(one, total) for one, total in rows if one is not None and total is not None]

    @property
    def sums(self) -> dict[str, Any]:
        """Sums that need less memory; stored, they would keep this object and its memory alive."""
        return {"log_sum": self._log_sum, "add": self._sum}

    def _total(self, rows: Tensor) -> Tensor | None:
        return next((total for one, total in self._rows if one is rows), None)

    def sharing(self) -> Blocks:
        """Return this object: products of a block are not shared."""
        return self

    def pair(self, first: Tensor, second: Tensor) -> PairSimilarity:
        """Return the similarities of matching rows of ``first`` and ``second``; rows broadcast."""
        if first.shape != second.shape:
            return super().pair(first, second)
        return RowPairs(first, second, (self._total(first), self._total(second)), self.ticket)

    def cosines(self, rows: Tensor, columns: Tensor, own: int | None = None) -> Tensor:
        """Return all dot products, see `Comparison.cosines`."""
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
        """Return the rows ``index`` of ``vectors``."""
        total = self._gradients.by(vectors)
        if total is None:
            return vectors[index]
        found: Tensor = _Taken.apply(vectors, index, total, self.ticket)
        return found


class _Memory:
    """Arrays of a block's size, reused by every block: allocation costs as much as a pass."""

    def __init__(self) -> None:
        self._arrays: list[Tensor] = []
        self._taken = 0

    def rewind(self) -> None:
        """Make all arrays available to a new block; the content of the previous one is lost."""
        self._taken = 0

    def take(self, like: Tensor, rows: int, columns: int) -> Tensor:
        """Return the next array, (rows, columns), with arbitrary content."""
        if self._taken == len(self._arrays):
            self._arrays.append(like.new_empty(rows, columns))
        # Not a view of another shape, because autograd would not let a loss change it in place.
        if self._arrays[self._taken].shape != (rows, columns):
            self._arrays[self._taken] = like.new_empty(rows, columns)
        self._taken += 1
        return self._arrays[self._taken - 1]


def looking_is_free(rows: Tensor) -> bool:
    """Whether a number can be read without waiting; on a GPU, reading waits for all queued work."""
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
        if ctx.own is not None and not (
            looking_is_free(upstream) and not upstream.diagonal(ctx.own).any()
        ):
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
    """Pairs of rows, measured on demand: cosines take one pass over the rows, chords take six."""

    def __init__(self, *ends: Any) -> None:
        """Store both rows (n, D), the accumulators of their gradients, and the block's ticket."""
        self.__dict__["ends"] = ends

    @cached_property
    def lengths(self) -> Tensor:
        """Chords of the pairs, (2, n), see `chords`."""
        found: Tensor = _Chords.apply(*self.__dict__["ends"])
        return found

    @cached_property
    def cosine(self) -> Tensor:  # type: ignore[override]  # computed once
        """Cosine ``cos θ``."""
        found: Tensor = _Dots.apply(*self.__dict__["ends"])
        return found

    @property
    def chord(self) -> Tensor:  # type: ignore[override]  # a field of the base class
        """Chord ``|h - h'|``."""
        return self.lengths[0]

    @property
    def antichord(self) -> Tensor:  # type: ignore[override]
        """Antichord ``|h + h'|``."""
        return self.lengths[1]


class _Dots(torch.autograd.Function):
    """Dot product ``h · h'`` of each pair of rows, (n,)."""

    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        second: Tensor,
        totals: tuple[Tensor | None, Tensor | None],
        ticket: Tensor,
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
    """Chords ``|h - h'|`` and ``|h + h'|``, (2, n), computed for a few rows at a time."""

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
            for one, total, wanted in zip(
                (first, second), ctx.totals, ctx.needs_input_grad, strict=False
            )
        ]
        into = [
            total if made is None else made for total, made in zip(ctx.totals, new, strict=True)
        ]
        add_chord_gradients(first, second, lengths, upstream, slice(0, len(first)), into)
        return *new, None, None


def chords(first: Tensor, second: Tensor) -> Tensor:
    """Return ``|h - h'|`` and ``|h + h'|`` of each pair of rows, (2, n)."""
    found = first.new_empty(2, len(first))
    for rows, *ends in _ends(first, second, slice(0, len(first))):
        for lengths, end in zip(found, ends, strict=True):
            torch.linalg.vector_norm(end, dim=-1, out=lengths[rows])
    return found


def _ends(first: Tensor, second: Tensor, some: slice) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Yield slices of rows with their differences and sums, which the next step overwrites."""
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
    """Add the gradients of ``Σ u c`` for rows with chords c: 0 if c = 0 (NaN if u is infinite)."""
    factor = torch.where(lengths > 0, upstream / lengths, 0 * upstream)[:, :, None]
    for rows, apart, together in _ends(first, second, some):
        for total, sign in zip(into, (1, -1), strict=True):
            if total is not None:
                total[rows].addcmul_(apart, factor[0, rows], value=sign).addcmul_(
                    together, factor[1, rows]
                )


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
    """``log Σ_k exp(cos θ_k / τ)``, (n,), and the softmax for its derivative, in reused memory."""

    @staticmethod
    def forward(ctx: Any, cosine: Tensor, temperature: float, memory: _Memory) -> Tensor:
        logits = torch.div(cosine, temperature, out=memory.take(cosine, *cosine.shape))
        largest = logits.amax(-1)
        # In place on a CPU, whose kernel reads a row before it writes it.
        softmax = torch.softmax(logits, -1, out=logits if logits.device.type == "cpu" else None)
        # A row without negatives has no softmax.
        if not looking_is_free(logits) or largest.isinf().any():
            softmax.masked_fill_(largest.isinf()[:, None], 0.0)
        ctx.temperature, ctx.softmax = temperature, softmax
        # The largest entry of the softmax is 1 divided by the sum of exp(logit - largest).
        found = largest - softmax.amax(-1).log()
        return torch.where(largest.isinf(), largest, found)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        softmax, ctx.softmax = ctx.softmax, None
        return softmax.mul_((upstream / ctx.temperature)[:, None]), None, None


class _Sum(torch.autograd.Function):
    """``Σ_k f_k``, (n,), for a few rows at a time, so that the terms stay in the CPU cache.

    Its derivatives are computed, too. Those by learned settings are sums over rows, which serve
    only if the upstream gradient is the same for all rows, as it is where a loss adds the sum up.
    Otherwise they are computed again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        cosine: Tensor,
        negatives: Negatives,
        quantity: OfEach,
        memory: _Memory,
        *learned: Tensor,
    ) -> Tensor:
        ctx.negatives, ctx.quantity, ctx.learned = negatives, quantity, learned
        ctx.slopes, sums = memory.take(cosine, *cosine.shape), []
        ctx.settings = [torch.zeros_like(one) for one in learned]
        for rows, few, found in _few_sums(negatives, quantity):
            sums.append(found.detach())
            ctx.slopes[rows], *parts = _gradients(found, [few, *learned], torch.ones_like(found))
            _add(ctx.settings, parts)
        return torch.cat(sums)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        slopes, ctx.slopes = ctx.slopes, None
        settings = ctx.settings
        if settings and looking_is_free(upstream) and (upstream == upstream[0]).all():
            settings = [total * upstream[0] for total in settings]
        elif settings:
            settings = [torch.zeros_like(one) for one in ctx.learned]
            for rows, _, found in _few_sums(ctx.negatives, ctx.quantity):
                _add(settings, _gradients(found, ctx.learned, upstream[rows]))
        return slopes.mul_(upstream[:, None]), None, None, None, *settings


def _add(totals: Sequence[Tensor], parts: Sequence[Tensor]) -> None:
    for total, part in zip(totals, parts, strict=True):
        total += part


def _few_sums(negatives: Negatives, quantity: OfEach) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Yield slices of a few rows, their cosines, and the sums as functions of these cosines."""
    for rows in few_rows(negatives.cosine):
        few = negatives.cosine[rows].detach().requires_grad_()
        with torch.enable_grad():  # of a copy, because a quantity may overwrite it
            found = sum_of_each(negatives.some(rows, few.clone()), quantity)
        yield rows, few, found


def _gradients(found: Tensor, by: Sequence[Tensor], upstream: Tensor) -> tuple[Tensor, ...]:
    """Return gradients, with zeros for inputs that were not used."""
    if not found.requires_grad:
        return tuple(map(torch.zeros_like, by))
    return torch.autograd.grad(found, by, upstream, allow_unused=True, materialize_grads=True)


def few_rows(block: Tensor) -> Iterator[slice]:
    """Yield slices of a block's rows that fit into the CPU cache; on a GPU, a slice of all rows."""
    count = (
        max(1, SUM_ENTRIES // block.shape[1]) if block.device.type == "cpu" else max(1, len(block))
    )
    return slices(0, len(block), count)
