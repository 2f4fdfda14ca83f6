"""Gradients of one function at many points: vectorised where the function allows, else in a loop.

A loss given as code is called for one anchor, or one drawn batch, at a time. `torch.vmap` runs
those calls together if the loss is written with tensor operations; a loss that looks at its values
(``if``, ``item()``) or changes tensors in place is called in a loop, with a progress bar. Which way
is taken depends on the loss alone, never on a clock, and both give the same numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gradlab.arrays import Float, recording_gradients
from gradlab.waiting import progress_bar

CHUNK_ENTRIES = 1 << 22  # entries of a chunk's largest array (32 MiB)
AGREEMENT = 1e-9  # relative difference up to which both ways count as equal


def gradients_at(
    value: Callable[..., Tensor],
    leaves: Float[Tensor, "points d"],
    arguments: tuple[Tensor, ...] = (),
    *,
    entries: int = 1,
    progress: bool | None = None,
    title: str = "",
) -> Float[Tensor, "points d"]:
    """Return the gradient of ``value(leaf, *arguments)`` with respect to the leaf, at each point.

    Args:
        value: returns a scalar tensor.
        leaves: the points, one per row.
        arguments: further arguments, with one entry per point along the first axis.
        entries: least entries of the largest array in one call, such as N x N. With the largest
            array of the first call, it sets how many calls run together.
        progress: show a bar if it takes over two seconds; None does so on a terminal.
        title: of the bar.
    """
    points = len(leaves)
    with _LargestArray() as largest:  # type: ignore[no-untyped-call]  # of torch
        first = _gradient(value, leaves[0], *(argument[0] for argument in arguments))
    chunk = max(1, CHUNK_ENTRIES // max(1, entries, largest.entries))
    vectorised: Any = None
    if points > 2:
        vectorised = torch.func.vmap(
            torch.func.grad(lambda leaf, *row: value(leaf, *row).reshape(()))
        )
        vectorised = vectorised if _agrees(vectorised, leaves, arguments, first) else None
    gradients = [first[None]]
    with progress_bar(None, progress, total=points, unit="gradient", desc=title or None) as bar:
        bar.update()
        step = 1 if vectorised is None else chunk
        for start in range(1, points, step):
            chunk_rows = slice(start, start + step)
            if vectorised is None:
                rows = _gradient(
                    value, leaves[start], *(argument[start] for argument in arguments)
                )[None]
            else:
                rows = _quietly(
                    vectorised,
                    leaves[chunk_rows],
                    *(argument[chunk_rows] for argument in arguments),
                )
            gradients.append(rows.detach())
            bar.update(len(rows))
    return torch.cat(gradients)


def _gradient(value: Callable[..., Tensor], leaf: Float[Tensor, "d"], *arguments: Tensor) -> Tensor:
    with recording_gradients():
        leaf = leaf.detach().clone().requires_grad_()
        result = value(leaf, *arguments)
        if not result.requires_grad:
            return torch.zeros_like(leaf)
        (gradient,) = torch.autograd.grad(result.reshape(()), leaf, materialize_grads=True)
    return gradient


class _LargestArray(TorchDispatchMode):  # type: ignore[no-untyped-call]  # of torch
    """Counts the entries of the largest array that is made within the block.

    A loss written with broadcasting makes N x N x D entries where a product makes N x N.
    """

    entries = 0

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = operation(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor) and tensor.layout == torch.strided:
                # A view has the storage of the whole, or repeats what it holds.
                stored = tensor.untyped_storage().nbytes() // tensor.element_size()
                self.entries = max(self.entries, min(stored, tensor.numel()))
        return made


def _agrees(
    vectorised: Any, leaves: Float[Tensor, "points d"], arguments: tuple[Tensor, ...], first: Tensor
) -> bool:
    """Return whether the vectorised function works and gives the gradient of the first point."""
    try:
        rows = _quietly(vectorised, leaves[:2], *(argument[:2] for argument in arguments))
    except Exception:  # of any kind: the loss decides what vmap meets
        return False
    size = float(first.abs().max()) or 1.0
    return bool(rows[0].shape == first.shape and (rows[0] - first).abs().max() <= AGREEMENT * size)


def _quietly(vectorised: Any, *arguments: Tensor) -> Tensor:
    with warnings.catch_warnings(), recording_gradients():
        warnings.simplefilter("ignore")  # operations that vmap runs in a loop of its own
        rows: Tensor = vectorised(*arguments)
    return rows
