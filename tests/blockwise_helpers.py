"""Rows, and what blockwise losses are compared by."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import gradlab
from gradlab.batch.batch import Batch
from gradlab.losses.base import Loss


def reductions(loss: Loss) -> tuple[str, ...]:
    """Those that a loss has: one with one value a batch has no others than its mean and its sum."""
    row = unit(torch.ones(2, 12, dtype=torch.float64))
    own = row[:, None] if "own_negatives" in loss.looks_at else None
    return ("mean", "sum", "none")[: 2 if loss.is_scalar(Batch(row, row, own_negatives=own)) else 3]


def unit(rows: torch.Tensor) -> torch.Tensor:
    return rows / rows.norm(dim=-1, keepdim=True)


def views(
    size: int,
    extra: int = 0,
    dimensions: int = 12,
    dtype: torch.dtype = torch.float64,
    spread: float = 0.15,
) -> list[torch.Tensor | None]:
    """Anchors, positives near them, extra negatives: leaves that want gradients."""
    generator = torch.Generator().manual_seed(size + 1000 * extra + dimensions)

    def draw(rows: int) -> torch.Tensor:
        return torch.randn(rows, dimensions, generator=generator, dtype=torch.float64)

    anchors = unit(draw(size))
    positives = unit(anchors + spread * draw(size))
    negatives = unit(draw(extra)) if extra else None
    return [
        None if rows is None else unit(rows.to(dtype)).requires_grad_()
        for rows in (anchors, positives, negatives)
    ]


def gradients(
    loss: Any,
    rows: list[torch.Tensor | None],
    reduction: str,
    upstream: torch.Tensor,
    **options: Any,
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Value, and its gradients by all rows, those among the options included."""
    value = loss(*rows, reduction, **options)
    leaves = [tensor for tensor in (*rows, *options.values()) if isinstance(tensor, torch.Tensor)]
    gradients_of_leaves = torch.autograd.grad(
        value, leaves, upstream, allow_unused=True, materialize_grads=True
    )
    return value.detach(), list(gradients_of_leaves)


def exact(
    loss: Loss,
    rows: list[torch.Tensor | None],
    reduction: str,
    upstream: torch.Tensor,
    **options: Any,
) -> tuple[torch.Tensor, ...]:
    """Value and gradients of the plain loss of the very same rows, in float64."""
    double = [
        None if tensor is None else tensor.detach().double().requires_grad_() for tensor in rows
    ]
    tensors = {name: tensor.detach().double().requires_grad_() for name, tensor in options.items()}
    values = loss.value_of(Batch(*double, **tensors))
    value = values if reduction == "none" else values.sum() if reduction == "sum" else values.mean()
    leaves = [tensor for tensor in (*double, *tensors.values()) if tensor is not None]
    return value.detach(), *torch.autograd.grad(
        value, leaves, upstream.double(), materialize_grads=True
    )


def assert_equal_to_autograd(
    loss: Loss,
    rows: list[torch.Tensor | None],
    block_size: int | None,
    tolerance: float,
    smallest_scale: float = 1e-2,
    **options: Any,
) -> None:
    """Values and whole gradients, each relative to its largest entry or ``smallest_scale``.

    Every reduction that the loss has is checked.

    Blocks of ``block_size`` are gone through one after another, and so is the batch as one where
    that is what small ones are.
    """
    anchors = rows[0]
    for reduction in reductions(loss):
        upstream = (
            torch.linspace(-1, 2, len(anchors)).to(anchors)
            if reduction == "none"
            else torch.tensor(1.7)
        )
        upstream = upstream.to(anchors.dtype)
        expected = gradients(loss, rows, reduction, upstream, **options)
        for size in {block_size, None}:
            computed = gradients(
                gradlab.blockwise(loss, size), rows, reduction, upstream, **options
            )
            for actual, reference in zip(
                (computed[0], *computed[1]), (expected[0], *expected[1]), strict=True
            ):
                assert actual.dtype == anchors.dtype
                scale = float(reference.abs().max())
                torch.testing.assert_close(
                    actual, reference, rtol=0, atol=tolerance * max(scale, smallest_scale)
                )


class LargestTensor(TorchDispatchMode):
    """Records the size of the largest tensor that any operation returns."""

    entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.entries = max(self.entries, tensor.numel())
        return result
