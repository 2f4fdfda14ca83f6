"""Blocks of rows for losses that need only log-sum-exps of their cosines over a temperature.

The exponentials ``e^{c/τ}`` of a block are made once, and never divided by their sums: the sums are
known before the gradient, as is the derivative ``u`` of the loss with respect to each log-sum-exp.
``u_i/(τ Σ_k e^{c_ik/τ})`` then scales rows (n, D) instead of exponentials (n, K), which saves four
of ten passes over the latter.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gradlab.batch.batch import Batch
from gradlab.batch.candidates import Block, Rule
from gradlab.batch.comparison import own_cosines
from gradlab.batch.similarity import Negatives
from gradlab.scale.blocks import Blocks, Gradients, Memory
from gradlab.scale.matrix_products import cosines


class SoftmaxBlocks(Blocks):
    """Compares the rows of a block with all columns, for log-sum-exps only."""

    def negatives(self, batch: Batch, blocks: list[Block], rules: Sequence[Rule] = ()) -> Negatives:
        """Return negatives that are not compared yet."""
        by_rows = self._totals.get(id(blocks[0].rows))
        return SoftmaxNegatives(blocks, self.trigger, self._gradients, by_rows, self._memory)


class SoftmaxNegatives(Negatives):
    """Negatives of a block's rows that provide only log-sum-exps of cosines over a temperature.

    Other questions raise `NotImplementedError`, or `AttributeError` if only `AllCosines` has them.
    """

    def __init__(self, blocks: list[Block], trigger: Tensor, *accumulators: Any) -> None:
        """Store the blocks of columns, of which own negatives come last, and `Blocks`' fields."""
        self._rows, self._trigger, self._accumulators = blocks[0].rows, trigger, accumulators
        self._own = blocks[-1] if blocks[-1].name == "own" else None
        self._blocks = blocks if self._own is None else blocks[:-1]

    def log_sum_exp(self, temperature: float) -> Tensor:
        """Return ``log Σ_k exp(cos θ_k / τ)``, (n,)."""
        arguments = self._blocks, temperature, *self._accumulators
        shared: Tensor = _BlockLogSumExp.apply(self._rows, self._trigger, *arguments)
        if self._own is None:
            return shared
        of_own = own_cosines(self._own.rows, self._own.vectors) / temperature
        return torch.logaddexp(shared, torch.logsumexp(of_own, -1))


class _BlockLogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        trigger: Tensor,
        blocks: list[Block],
        temperature: float,
        gradients: Gradients,
        by_rows: Tensor | None,
        memory: Memory,
    ) -> Tensor:
        scaled = rows / temperature
        exponentials = [
            cosines(
                scaled,
                block.vectors,
                block.own,
                memory.take(rows, len(rows), len(block.vectors)),
            ).exp_()
            for block in blocks
        ]
        sums = functools.reduce(operator.add, [terms.sum(-1) for terms in exponentials])
        ctx.save_for_backward(rows)
        ctx.arguments = blocks, temperature, gradients, by_rows, sums
        ctx.exponentials = exponentials
        return sums.log()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[None, ...]:
        blocks, temperature, gradients, by_rows, sums = ctx.arguments
        (rows,) = ctx.saved_tensors
        factors = (upstream / (sums * temperature))[:, None]
        scaled = None
        for block, terms in zip(blocks, ctx.exponentials, strict=True):
            if by_rows is not None:
                by_rows.addcmul_(terms @ block.vectors, factors)
            by_columns = gradients.by(block.vectors)
            if by_columns is not None:
                scaled = rows * factors if scaled is None else scaled
                by_columns.addmm_(terms.T, scaled)
        return (None,) * 7
