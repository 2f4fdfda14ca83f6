"""How far have trained weights moved since recording began, and was a gradient cleared before?"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

# Numbers of the records: movement of the weights relative to their size, and the gradient that was
# there before a batch's own relative to that of the batch.
WEIGHTS_MOVED, STALE_GRADIENT = "weights_moved", "stale_gradient"
# Share of the tensors of weights that did not exist at the record before.
NEW_WEIGHTS = "new_weights"
# Share of the weights that were trained at first and require no gradient any more.
FROZEN = "frozen_since"
# The gradient that is there before the next batch's own, relative to it.
FOLLOWING_STALE = "following_stale"
# Norm of a matrix of weights over its first one: the median of all, if it is below `SMALLER`.
WEIGHTS_NORM, SMALLER = "weights_norm", 0.8
WEIGHT_NUMBERS = (WEIGHTS_NORM, WEIGHTS_MOVED, STALE_GRADIENT, NEW_WEIGHTS, FROZEN, FOLLOWING_STALE)
# Movement that is left when all callbacks have ended, and the share of the last one below which it
# is recorded.
WEIGHTS_LEFT, CHANGED = "weights_left", 0.9
SAMPLED = 1024  # weights of each tensor that are compared


class Movement:
    """Movement of trained weights since they were first seen, by a sample of each tensor.

    Attributes:
        still: weights that were the same at the last two calls of `relative`.
        new: share of the weights of the last call of `follow` that were not there before.
        norm: norm of a matrix at the last call of `relative`, relative to its first one; the
            median of all of them.
    """

    def __init__(self, weights: Iterable[Tensor]) -> None:
        """Keep samples of the weights, on their device; sharded and empty tensors are left out."""
        self._begins: list[tuple[weakref.ref[Tensor], Tensor]] = []
        self._before: dict[int, Tensor] = {}
        self.still, self.new = list[Tensor](), 0.0
        self.norm = 1.0
        self.follow(weights)

    def follow(self, weights: Iterable[Tensor]) -> None:
        """Take in weights that are trained from now on."""
        plain = {id(w): w for w in weights if type(w) in (Tensor, nn.Parameter) and w.requires_grad}
        present = {id(reference()) for reference, _ in self._begins}
        new = [w for at, w in plain.items() if at not in present and w.numel()]
        self._begins += [(weakref.ref(w), sample_of(w)) for w in new]
        self.new = len(new) / max(1, len(plain))

    @property
    def weights(self) -> list[Tensor]:
        """Weights that are still there."""
        return [w for reference, _ in self._begins if (w := reference()) is not None]

    @property
    def frozen(self) -> float:
        """Share of the weights that require no gradient any more, by their numbers."""
        sizes = [(w.numel(), w.requires_grad) for w in self.weights]
        return sum(size for size, trained in sizes if not trained) / max(
            1, sum(size for size, _ in sizes)
        )

    def relative(self) -> float:
        """Return the norm of the change over the norm of the weights; NaN if most are gone."""
        alive = [(reference(), begin) for reference, begin in self._begins]
        present = [(w, sample_of(w), begin) for w, begin in alive if w is not None]
        changed = any(sample.shape != begin.shape for _, sample, begin in present)
        if changed or 2 * len(present) < len(alive):
            return math.nan
        self._begins = [entry for entry in self._begins if entry[0]() is not None]
        moved = size = torch.zeros((), dtype=torch.float64)
        for _, sample, begin in present:
            moved = moved.to(begin.device) + (sample - begin).square().sum()
            size = size.to(begin.device) + begin.square().sum()
        matrices = [(sample, begin) for w, sample, begin in present if w.ndim > 1]
        norms = [sample.norm() / begin.norm() for sample, begin in matrices]
        shares = [norm.to(norms[0].device) for norm in norms]
        self.norm = float(torch.nanmedian(torch.stack(shares))) if norms else 1.0
        before = self._before
        self.still = [w for w, sample, _ in present
                      if id(w) in before and bool(torch.equal(before[id(w)], sample))]  # fmt: skip
        self._before = {id(w): sample for w, sample, _ in present}
        return float((moved / size).sqrt()) if present and float(size) else math.nan


def trained_weights(value: Tensor) -> list[Tensor]:
    """Return the parameters that a loss was computed from, by its graph."""
    variables = (getattr(node, "variable", None) for node in nodes_of(value))
    return [weight for weight in variables if isinstance(weight, nn.Parameter)]


def nodes_of(value: Tensor) -> Iterator[Any]:
    """Yield the nodes of the graph of a value, once each."""
    waiting, visited = [value.grad_fn], set[Any]()
    while waiting:
        node = waiting.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        yield node
        waiting += [following for following, _ in node.next_functions]


def look_at_next_gradients(
    weights: Sequence[Tensor], tell: Callable[[dict[str, float]], None]
) -> None:
    """Tell the `STALE_GRADIENT` of the smallest weight in its next backward pass, once.

    In the pass after that one, tell the same as `FOLLOWING_STALE`.
    """
    weight = min(weights, key=Tensor.numel, default=None)
    if weight is None:
        return
    own: list[Tensor] = []
    due = [STALE_GRADIENT, FOLLOWING_STALE]

    def before(gradient: Tensor) -> None:
        own.append(gradient.detach())

    def after(weight: Tensor) -> None:
        name = due.pop(0)
        if not due:
            for handle in handles:
                handle.remove()
        size = float(own[-1].norm()) if own else 0.0
        if weight.grad is not None and size:
            tell({name: float((weight.grad - own[-1]).norm()) / size})

    handles = [weight.register_hook(before), weight.register_post_accumulate_grad_hook(after)]


def sample_of(weight: Tensor) -> Tensor:
    """Return up to `SAMPLED` numbers of a tensor, in double precision."""
    numbers = weight.detach().reshape(-1)
    return numbers[:: max(1, len(numbers) // SAMPLED)][:SAMPLED].double().clone()
