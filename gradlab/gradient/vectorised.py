"""Gradients of one function at many points: vectorised where the function allows, else in a loop.

A loss given as code is called for one anchor, or one drawn batch, at a time. `torch.vmap` runs
those calls together if the loss is written with tensor operations; a loss that looks at its values
(``if``, ``item()``) or changes tensors in place is called in a loop, with a progress bar. So is one
whose arrays are so large that nothing is gained. Which way is taken depends on the loss alone,
never on a clock, and both give the same numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gradlab.arrays import Float, recording_gradients
from gradlab.gradient.pairs_as_products import AGREEMENT, pairs_as_products
from gradlab.progress_bars import progress_bar

CHUNK_ENTRIES = 1 << 19  # entries of a chunk's largest array (4 MiB, which fit in a cache)


class GradientsAt:
    """Gradients of ``value(leaf, *arguments)`` with respect to the leaf, at points of any number.

    The first call at more than two points decides whether the function is vectorised.
    """

    def __init__(
        self, value: Callable[..., Tensor], *, entries: int = 1, by_products: bool = True
    ) -> None:
        """Take the function.

        Args:
            value: returns a scalar tensor.
            entries: least entries of the largest array in one call, such as N x N. With the largest
                array of the first call, it sets how many calls run together.
            by_products: whether sums over all pairs are matrix products, if these agree. A loss of
                gradlab measures small angles by differences of coordinates.
        """
        self._value, self._value_of_many = value, value  # of one point; of points together
        self._entries, self._largest = entries, 0  # 0 until the first gradient
        self._tries_products = by_products
        self._chunk = 0  # points per call; 0 until more than two points come, 1 in a loop
        self._vectorised: Any = None

    def __call__(
        self,
        leaves: Float[Tensor, "points d"],
        arguments: tuple[Tensor, ...] = (),
        *,
        progress: bool | None = None,
        title: str = "",
    ) -> Float[Tensor, "points d"]:
        """Return the gradient at each point.

        Args:
            leaves: the points, one per row.
            arguments: further arguments, with one entry per point along the first axis.
            progress: show a bar if it takes over two seconds; None does so on a terminal.
            title: of the bar.
        """
        points, rows = len(leaves), (leaves, *arguments)
        gradients = [] if self._vectorised or not points else [self._first(rows)]
        with progress_bar(None, progress, total=points, unit="gradient", desc=title or None) as bar:
            bar.update(len(gradients))
            step = self._chunk if self._vectorised else 1
            for start in range(len(gradients), points, step):
                chunk = [array[start : start + step] for array in rows]
                gradients.append(
                    _quietly(self._vectorised, *chunk).detach()
                    if self._vectorised
                    else _gradient(self._value, *(array[0] for array in chunk))[None]
                )
                bar.update(len(gradients[-1]))
        return torch.cat(gradients)

    def _first(self, rows: tuple[Tensor, ...]) -> Float[Tensor, "1 d"]:
        """Return the gradient at the first point; decide how those at the others are computed."""
        point = [array[0] for array in rows]
        first = _gradient(self._value, *point) if self._largest else self._measured(point)
        if not self._chunk and len(rows[0]) > 2:
            self._chunk = max(1, CHUNK_ENTRIES // max(self._entries, self._largest))
            together = torch.func.vmap(
                torch.func.grad(lambda *row: self._value_of_many(*row).reshape(()))
            )
            two = [array[:2] for array in rows]
            if self._chunk > 1 and _agrees(together, two, first):
                self._vectorised = together
        return first[None]

    def _measured(self, point: Sequence[Tensor]) -> Float[Tensor, "d"]:
        """Return the gradient at a point; count the entries that the function makes there.

        From now on sums over all pairs are products, unless they give another gradient.
        """
        with _LargestArray() as largest:  # type: ignore[no-untyped-call]  # of torch
            first = _gradient(self._value, *point)
        self._largest = entries = max(1, largest.entries)
        if not self._tries_products:
            return first
        by_products = pairs_as_products(self._value)
        with _LargestArray() as largest:  # type: ignore[no-untyped-call]  # of torch
            if _agrees(lambda *row: _gradient(by_products, *row)[None], point, first):
                self._value_of_many = pairs_as_products(self._value, exact=False)
                self._value, entries = by_products, largest.entries
        self._largest = max(1, entries)
        return first


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


def _agrees(gradients: Any, rows: Sequence[Tensor], first: Tensor) -> bool:
    """Return whether a function of points works and gives the gradient of the first point."""
    try:
        gradient = _quietly(gradients, *rows)[0]
    except Exception:  # of any kind: the loss decides what vmap or a mode meets
        return False
    size = float(first.abs().max()) or 1.0
    return bool(
        gradient.shape == first.shape and (gradient - first).abs().max() <= AGREEMENT * size
    )


def _quietly(vectorised: Any, *arguments: Tensor) -> Tensor:
    with warnings.catch_warnings(), recording_gradients():
        warnings.simplefilter("ignore")  # operations that vmap runs in a loop of its own
        rows: Tensor = vectorised(*arguments)
    return rows
