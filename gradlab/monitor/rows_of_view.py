"""Which rows of a batch is a view cut from, where both views were embedded in one forward pass?"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

MOST_NODES = 40  # of a graph that are searched for a cut
# Node of a graph that cuts rows -> rows of its output, of the numbers of the batch's rows.
Cut = Callable[[Any, int, Tensor], Tensor]
CUTS: dict[str, Cut] = {
    "SplitBackward0": lambda node, number, rows: rows.split(
        node._saved_split_size, node._saved_dim
    )[number],
    "SplitWithSizesBackward0": lambda node, number, rows: rows.split(
        list(node._saved_split_sizes), node._saved_dim
    )[number],
    "SelectBackward0": lambda node, number, rows: rows.select(node._saved_dim, node._saved_index),
    "SliceBackward0": lambda node, number, rows: _sliced(node, rows),
    "IndexBackward0": lambda node, number, rows: rows[tuple(node._saved_indices)],
}
SIZES, UNBOUND = "_saved_self_sym_sizes", "UnbindBackward0"


def rows_of_view(view: Tensor, count: int) -> Tensor | None:
    """Return the numbers of the rows, of ``count``, that a view was cut from; None if unknown.

    The cut that is nearest to the view counts: steps of an encoder cut other shapes.
    """
    waiting, length = [(view.grad_fn, view.output_nr)], len(view)
    for _ in range(MOST_NODES):
        if not waiting:
            break
        node, number = waiting.pop(0)
        if node is None:
            continue
        rows = _of_cut(node, number, count, length)
        if rows is not None and rows.shape == (length,):
            return rows
        waiting += node.next_functions
    return None


def _of_cut(node: Any, number: int, count: int, length: int) -> Tensor | None:
    """Return the rows that a node cuts from all; None of other nodes and other shapes."""
    rows = torch.arange(count)
    if node.name() == UNBOUND:
        dimension = node._saved_dim
        if count % length or dimension > 1:
            return None
        shape = (length, count // length) if dimension else (count // length, length)
        return rows.view(shape).unbind(dimension)[number]
    sizes = getattr(node, SIZES, ())
    if node.name() not in CUTS or math.prod(sizes[:-1]) != count or len(sizes) < 2:
        return None
    if getattr(node, "_saved_dim", 0) >= len(sizes) - 1:  # a cut of dimensions
        return None
    return CUTS[node.name()](node, number, rows.view(sizes[:-1]))


def _sliced(node: Any, rows: Tensor) -> Tensor:
    dimension = node._saved_dim
    end = min(node._saved_end, rows.shape[dimension])
    places = torch.arange(rows.shape[dimension])[node._saved_start : end : node._saved_step]
    return rows.index_select(dimension, places)
