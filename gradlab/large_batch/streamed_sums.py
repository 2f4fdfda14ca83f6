"""Sums over the negatives of all anchors as nodes of torch's graph, which go over the similarities block by block."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from gradlab.large_batch.derivatives import refuse_second_derivatives
from gradlab.large_batch.products import slices, write_cosines

# From rows to their weights, (B, K).
Weights = Callable[[slice], torch.Tensor]


class WeightedCosines(torch.autograd.Function):
    """``Σ_j W_ij`` and ``Σ_j W_ij cos θ_ij``, (N,) each, with fixed weights; only the second has a derivative."""

    @staticmethod
    def forward(
        ctx: Any, first: torch.Tensor, second: torch.Tensor, weight: Weights, blocks: list[slice]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows (N, D) and (K, D), their weights and the rows of each block."""
        total, mean = first.new_empty(first.shape[0]), torch.empty_like(first)
        for rows in blocks:
            weights = weight(rows)
            total[rows] = weights.sum(-1)
            torch.mm(weights, second, out=mean[rows])
        ctx.weight, ctx.blocks = weight, blocks
        ctx.save_for_backward(mean, *((first, second) if ctx.needs_input_grad[1] else ()))
        ctx.mark_non_differentiable(total)
        return total, torch.linalg.vecdot(first, mean)

    @staticmethod
    def backward(ctx: Any, _: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Along the weighted mean of the others; for these, the weights are made again."""
        refuse_second_derivatives()
        mean, *both = ctx.saved_tensors
        by_first = mean * upstream[:, None] if ctx.needs_input_grad[0] else None
        by_second = None
        if both:
            first, second = both
            by_second = torch.zeros_like(second)
            for rows in ctx.blocks:
                by_second.addmm_(ctx.weight(rows).T, first[rows] * upstream[rows, None])
        return by_first, by_second, None, None


def total_weight(weight: Weights, blocks: list[slice]) -> torch.Tensor:
    """``Σ_j W_ij``, (N,), without gradient."""
    with torch.no_grad():
        return torch.cat([weight(rows).sum(-1) for rows in blocks])


class SoftmaxOfAll(torch.autograd.Function):
    """``log Σ_ik exp(cos θ_ik / τ)``, a scalar, and the row sums of the softmax that it normalises, (N,).

    The derivative is made with the value and scaled afterwards. The row sums have none.
    """

    @staticmethod
    def forward(
        ctx: Any,
        first: torch.Tensor,
        second: torch.Tensor | None,
        temperature: float,
        masked: bool,
        block_size: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Go over the pairs of ``first`` (N, D) with ``second`` (K, D), or None for ``first`` itself.

        Args:
            ctx: torch's.
            first, second: rows.
            temperature: τ.
            masked: whether row i is not compared with column i.
            block_size: rows of a block.
        """
        found = _Sums(first, second, temperature, masked, ctx.needs_input_grad[:2])
        memory = first.new_empty(min(block_size, first.shape[0]), found.second.shape[0])
        for rows in slices(first.shape[0], block_size):
            found.add(rows, memory)
        total = found.by_row.sum()
        for part in (found.by_first, found.by_second):
            if part is not None:
                part.div_(total * temperature)
        ctx.save_for_backward(found.by_first, found.by_second)
        shares = found.by_row / total
        ctx.mark_non_differentiable(shares)
        return total.log() + found.largest / temperature, shares

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor, _: Any) -> tuple[torch.Tensor | None, ...]:
        """The derivative by the rows."""
        refuse_second_derivatives()
        return *(None if part is None else part * upstream for part in ctx.saved_tensors), None, None, None


class _Sums:
    """Sums of ``e_ik = exp((cos θ_ik - c)/τ)``, c being the largest cosine so far, so that none overflows.

    Where both sides are the same rows, a pair is taken once for both its orders: half of the cosines.

    Attributes:
        second: (K, D).
        largest: c.
        by_row: ``Σ_k e_ik``, (N,).
        by_first, by_second: ``Σ_k e_ik h_k``, (N, D), and ``Σ_i e_ik h_i``, (K, D), or None where not wanted;
            with one side only both their parts are in the first.
    """

    def __init__(
        self,
        first: torch.Tensor,
        second: torch.Tensor | None,
        temperature: float,
        masked: bool,
        wanted: tuple[bool, ...],
    ) -> None:
        """The arguments are those of `SoftmaxOfAll`; ``wanted`` says which derivatives are."""
        self.first, self.second = first, first if second is None else second
        self.temperature, self.masked = temperature, masked
        self.orders = 2 if second is None else 1
        self.symmetric = masked and self.second.is_set_to(first) and not wanted[1]
        self.largest = -math.inf
        self.by_row = first.new_zeros(first.shape[0])
        self.by_first = torch.zeros_like(first) if wanted[0] else None
        self.by_second = torch.zeros_like(self.second) if wanted[1] else None

    def add(self, rows: slice, memory: torch.Tensor) -> None:
        """Add what these rows of ``first`` have not been compared with, in memory (block size, K)."""
        first = self.first[rows]
        columns = slice(rows.start if self.symmetric else 0, None)
        second = self.second[columns]
        energy = self._energy(rows, columns, memory[: first.shape[0], columns])
        self.by_row[rows] += energy.sum(1)
        if self.by_first is not None:
            self.by_first[rows].addmm_(energy, second, alpha=self.orders)
        if self.by_second is not None:
            self.by_second.addmm_(energy.T, first)
        if self.symmetric:
            later = energy[:, first.shape[0] :]
            self.by_row[rows.stop :] += later.sum(0)
            if self.by_first is not None:
                self.by_first[rows.stop :].addmm_(later.T, first, alpha=self.orders)

    def _energy(self, rows: slice, columns: slice, memory: torch.Tensor) -> torch.Tensor:
        """``e_ik``, written to memory (B, K); what was summed before is put on its scale."""
        write_cosines(self.first[rows], self.second[columns], memory)
        if self.masked:
            memory[:, rows.start - columns.start :].diagonal().fill_(-math.inf)
        largest = max(self.largest, float(memory.amax()))
        if largest > self.largest:
            for part in (self.by_row, self.by_first, self.by_second):
                if part is not None:
                    part *= math.exp((self.largest - largest) / self.temperature)
            self.largest = largest
        shift = memory.new_tensor(-self.largest / self.temperature)
        return torch.add(shift, memory, alpha=1 / self.temperature, out=memory).exp_()
