"""Weights made one block of anchors at a time, and sums over the negatives of each anchor with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gradlab.geometry.similarity import Negatives
from gradlab.large_batch.derivatives import refuse_second_derivatives
from gradlab.losses.base import PairLoss
from gradlab.losses.softmax_family import SoftmaxLoss

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


def scaled_weight(loss: PairLoss, negatives: Negatives) -> tuple[torch.Tensor, float]:
    """A block's weight, (B, K), as an array and a number to multiply it by: a softmax is not copied to be scaled."""
    if isinstance(loss, SoftmaxLoss) and type(loss).weight is SoftmaxLoss.weight:
        return negatives.softmax(loss.temperature), 1 / loss.temperature
    return loss.weight(negatives), 1.0
