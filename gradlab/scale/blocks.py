"""Blocks of rows compared with all columns, and the arrays that accumulate their gradients."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from gradlab.batch.comparison import Comparison, own_cosines
from gradlab.batch.similarity import AllCosines, OfEach, PairSimilarity, log_sum_exp, sum_of_each
from gradlab.scale.matrix_products import (
    add_chord_gradients,
    chords,
    cosines,
    few_rows,
    fixed_reference,
    reading_is_free,
)


class Gradients:
    """Accumulates gradients with respect to whole tensors of rows that require a gradient."""

    def __init__(self) -> None:
        """Start without any gradient."""
        self._totals: dict[int, tuple[Tensor, Tensor]] = {}
        self._detached: dict[int, Tensor] = {}

    def by(self, rows: Tensor) -> Tensor | None:
        """Return the accumulator of the gradient of ``rows``, (n, D); None if they require none."""
        if id(rows) not in self._totals:
            if not rows.requires_grad:
                return None
            self._totals[id(rows)] = rows, torch.zeros_like(rows, requires_grad=False)
        return self._totals[id(rows)][1]

    def detached(self, rows: Tensor) -> Tensor:
        """Return ``rows`` without their graph; the result's gradients are added to theirs."""
        if id(rows) not in self._detached:
            self._detached[id(rows)] = rows.detach()
            total = self.by(rows)
            if total is not None:
                self._totals[id(self._detached[id(rows)])] = rows, total
        return self._detached[id(rows)]

    def accumulated(self) -> list[tuple[Tensor, Tensor]]:
        """Return pairs of a tensor of rows and its gradient."""
        return list({id(rows): (rows, total) for rows, total in self._totals.values()}.values())


class Blocks(Comparison):
    """Compares the rows of a block with all columns and accumulates the gradients of both in place.

    Attributes:
        trigger: an input of every function of a block. As the gradients of rows and columns are
            added in place, autograd needs another input that wants a gradient to visit every block.
    """

    def __init__(self, gradients: Gradients, learned: Sequence[Tensor] = ()) -> None:
        """Store the accumulator of gradients and the loss's learned settings, which are leaves."""
        self._gradients, self._learned, self._memory = gradients, learned, Memory()
        self._leaves: list[Tensor] = []  # their numbers (`id`) stay theirs while they are held
        self._totals: dict[int, Tensor] = {}
        self.trigger = torch.zeros((), requires_grad=True)

    def begin(self, rows: Iterable[tuple[Tensor | None, Tensor | None]]) -> None:
        """Start the next block with its rows of each kind and accumulators of their gradients."""
        self._memory.rewind()
        accumulators = [(leaf, total) for leaf, total in rows if leaf is not None]
        self._leaves = [leaf for leaf, _ in accumulators]
        self._totals = {id(leaf): total for leaf, total in accumulators if total is not None}

    def sharing(self) -> Blocks:
        """Return this object: products of a block are not shared."""
        return self

    def pair(self, first: Tensor, second: Tensor) -> PairSimilarity:
        """Return the similarities of matching rows of ``first`` and ``second``; rows broadcast."""
        if first.shape != second.shape:
            return super().pair(first, second)
        totals = self._totals.get(id(first)), self._totals.get(id(second))
        arguments = first, second, totals, self.trigger
        return RowPairs(
            functools.partial(_Dots.apply, *arguments), functools.partial(_Chords.apply, *arguments)
        )

    def cosines(self, rows: Tensor, columns: Tensor, own: int | None = None) -> Tensor:
        """Return all dot products, see `Comparison.cosines`."""
        if columns.ndim == 3:
            products: Tensor = own_cosines(rows, columns)
            return products
        totals = self._totals.get(id(rows)), self._gradients.by(columns)
        products = _Cosines.apply(rows, columns, own, totals, self.trigger, self._memory)
        return products

    def similarities(self, *arguments: Any, **options: Any) -> BlockCosines:
        """Build the negatives, which share the memory of this block."""
        return BlockCosines(*arguments, **options, memory=self._memory, learned=self._learned)

    def rows_at(self, vectors: Tensor, index: Tensor) -> Tensor:
        """Return the rows ``index`` of ``vectors``."""
        total = self._gradients.by(vectors)
        if total is None:
            return vectors[index]
        rows: Tensor = _IndexedRows.apply(vectors, index, total, self.trigger)
        return rows


@dataclasses.dataclass(frozen=True)
class BlockCosines(AllCosines):
    """Negatives of a block's rows, whose sums reuse memory.

    Attributes:
        memory: arrays of a block's size.
        learned: the loss's learned settings, which are leaves.
    """

    memory: Memory = dataclasses.field(kw_only=True, repr=False)
    learned: Sequence[Tensor] = dataclasses.field(kw_only=True, repr=False)

    def log_sum_exp(self, temperature: Any) -> Tensor:
        if isinstance(temperature, Tensor) or not self.cosine.requires_grad:
            return log_sum_exp(self.cosine, temperature)
        sum_up = _LogOfSum if fixed_reference(self.cosine, temperature) else _LogSum
        sums: Tensor = sum_up.apply(self.cosine, temperature, self.memory)
        return sums

    def sum_of(self, quantity: OfEach) -> Tensor:
        if not self.cosine.requires_grad:
            return sum_of_each(self, quantity)
        detached = dataclasses.replace(self, cosine=self.cosine.detach())
        sums: Tensor = _Sum.apply(self.cosine, detached, quantity, self.memory, *self.learned)
        return sums


class Memory:
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

    def holds(self, tensor: Tensor) -> bool:
        """Whether a tensor is one of these arrays, in which a gradient may change in place."""
        return any(tensor.data_ptr() == array.data_ptr() for array in self._arrays)


class _Cosines(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        columns: Tensor,
        own: int | None,
        totals: tuple[Tensor | None, Tensor | None],
        trigger: Tensor,
        memory: Memory,
    ) -> Tensor:
        ctx.own, ctx.totals, ctx.memory = own, totals, memory
        ctx.save_for_backward(rows, columns)
        return cosines(rows, columns, own, memory.take(rows, len(rows), len(columns)))

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Any, ...]:
        rows, columns = ctx.saved_tensors
        if ctx.own is not None and not (
            reading_is_free(upstream) and not upstream.diagonal(ctx.own).any()
        ):
            if not ctx.memory.holds(upstream):
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

    def __init__(self, dots: Callable[[], Any], chords: Callable[[], Any]) -> None:
        """Store what returns the dot products (n,), and the chords (2, n), of the pairs."""
        self.__dict__.update(dots=dots, chords=chords)

    @functools.cached_property
    def lengths(self) -> Tensor:
        """Chords of the pairs, (2, n), see `chords`."""
        lengths: Tensor = self.__dict__["chords"]()
        return lengths

    @functools.cached_property
    def cosine(self) -> Tensor:  # type: ignore[override]  # computed once
        """Cosine ``cos θ``."""
        dots: Tensor = self.__dict__["dots"]()
        return dots

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
        trigger: Tensor,
    ) -> Tensor:
        ctx.totals = totals
        ctx.save_for_backward(first, second)
        return torch.linalg.vecdot(first, second)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        first, second = ctx.saved_tensors
        gradients: list[Tensor | None] = [None, None]
        for end, (opposite, total) in enumerate(zip((second, first), ctx.totals, strict=True)):
            if total is not None:
                total.addcmul_(opposite, upstream[:, None])
            elif ctx.needs_input_grad[end]:
                gradients[end] = opposite * upstream[:, None]
        return *gradients, None, None


class _Chords(torch.autograd.Function):
    """Chords ``|h - h'|`` and ``|h + h'|``, (2, n), computed for a few rows at a time."""

    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        second: Tensor,
        totals: tuple[Tensor | None, Tensor | None],
        trigger: Tensor,
    ) -> Tensor:
        lengths = chords(first, second)
        ctx.totals = totals
        ctx.save_for_backward(first, second, lengths)
        return lengths

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        first, second, lengths = ctx.saved_tensors
        returned = [
            torch.zeros_like(rows) if total is None and needed else None
            for rows, total, needed in zip(
                (first, second), ctx.totals, ctx.needs_input_grad, strict=False
            )
        ]
        totals = [
            total if gradient is None else gradient
            for total, gradient in zip(ctx.totals, returned, strict=True)
        ]
        add_chord_gradients(first, second, lengths, upstream, slice(0, len(first)), totals)
        return *returned, None, None


class _IndexedRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, columns: Tensor, index: Tensor, total: Tensor, trigger: Tensor) -> Tensor:
        ctx.index, ctx.total = index, total
        return columns[index]

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[None, ...]:
        ctx.total.index_add_(0, ctx.index, upstream)
        return None, None, None, None


class _LogOfSum(torch.autograd.Function):
    """``log Σ_k exp(cos θ_k / τ)``, (n,), if no exponential overflows or underflows.

    Two passes fewer than `_LogSum`. The exponentials, in reused memory, make the derivative.
    """

    @staticmethod
    def forward(ctx: Any, cosine: Tensor, temperature: float, memory: Memory) -> Tensor:
        logits = torch.div(cosine, temperature, out=memory.take(cosine, *cosine.shape))
        ctx.exponentials, ctx.temperature = logits.exp_(), temperature
        ctx.sums = ctx.exponentials.sum(-1)
        return ctx.sums.log()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        exponentials, ctx.exponentials = ctx.exponentials, None
        # A row without negatives has no softmax.
        factors = torch.where(ctx.sums > 0, upstream / (ctx.sums * ctx.temperature), 0.0)
        return exponentials.mul_(factors[:, None]), None, None


class _LogSum(torch.autograd.Function):
    """``log Σ_k exp(cos θ_k / τ)``, (n,), and the softmax for its derivative, in reused memory."""

    @staticmethod
    def forward(ctx: Any, cosine: Tensor, temperature: float, memory: Memory) -> Tensor:
        logits = torch.div(cosine, temperature, out=memory.take(cosine, *cosine.shape))
        largest = logits.amax(-1)
        # In place on a CPU, whose kernel reads a row before it writes it.
        softmax = torch.softmax(logits, -1, out=logits if logits.device.type == "cpu" else None)
        # A row without negatives has no softmax.
        if not reading_is_free(logits) or largest.isinf().any():
            softmax.masked_fill_(largest.isinf()[:, None], 0.0)
        ctx.temperature, ctx.softmax = temperature, softmax
        # The largest entry of the softmax is 1 divided by the sum of exp(logit - largest).
        return torch.where(largest.isinf(), largest, largest - softmax.amax(-1).log())

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
        negatives: AllCosines,
        quantity: OfEach,
        memory: Memory,
        *learned: Tensor,
    ) -> Tensor:
        ctx.negatives, ctx.quantity, ctx.learned = negatives, quantity, learned
        ctx.slopes, sums = memory.take(cosine, *cosine.shape), []
        ctx.setting_gradients = [torch.zeros_like(setting) for setting in learned]
        for rows, few, of_few in _few_sums(negatives, quantity):
            sums.append(of_few.detach())
            ctx.slopes[rows], *setting_gradients = _gradients(
                of_few, [few, *learned], torch.ones_like(of_few)
            )
            _add(ctx.setting_gradients, setting_gradients)
        return torch.cat(sums)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        slopes, ctx.slopes = ctx.slopes, None
        setting_gradients = ctx.setting_gradients
        if setting_gradients and reading_is_free(upstream) and (upstream == upstream[0]).all():
            setting_gradients = [total * upstream[0] for total in setting_gradients]
        elif setting_gradients:
            setting_gradients = [torch.zeros_like(setting) for setting in ctx.learned]
            for rows, _, of_few in _few_sums(ctx.negatives, ctx.quantity):
                _add(setting_gradients, _gradients(of_few, ctx.learned, upstream[rows]))
        return slopes.mul_(upstream[:, None]), None, None, None, *setting_gradients


def _add(totals: Sequence[Tensor], addends: Sequence[Tensor]) -> None:
    for total, addend in zip(totals, addends, strict=True):
        total += addend


def _few_sums(negatives: AllCosines, quantity: OfEach) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Yield slices of a few rows, their cosines, and the sums as functions of these cosines."""
    for rows in few_rows(negatives.cosine):
        few = negatives.cosine[rows].detach().requires_grad_()
        with torch.enable_grad():  # of a copy, because a quantity may overwrite it
            sums = sum_of_each(negatives.of_rows(rows, few.clone()), quantity)
        yield rows, few, sums


def _gradients(sums: Tensor, inputs: Sequence[Tensor], upstream: Tensor) -> tuple[Tensor, ...]:
    """Return gradients, with zeros for inputs that were not used."""
    if not sums.requires_grad:
        return tuple(map(torch.zeros_like, inputs))
    return torch.autograd.grad(sums, inputs, upstream, allow_unused=True, materialize_grads=True)
