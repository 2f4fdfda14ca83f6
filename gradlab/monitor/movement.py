"""How far have trained weights moved since recording began, and was a gradient cleared before?"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

# Numbers of the records: movement of the weights relative to their size, and the gradient that was
# there before a batch's own relative to that of the batch.
WEIGHTS_MOVED, STALE_GRADIENT = "weights_moved", "stale_gradient"
# Movement that is left when all callbacks have ended, and the share of the last one below which it
# is recorded.
WEIGHTS_LEFT, CHANGED = "weights_left", 0.9
SAMPLED = 1024  # weights of each tensor that are compared


class Movement:
    """Movement of trained weights since they were first seen, by a sample of each tensor."""

    def __init__(self, weights: Iterable[Tensor]) -> None:
        """Keep samples of the weights, on their device; sharded and empty tensors are left out."""
        plain = {id(w): w for w in weights if type(w) in (Tensor, nn.Parameter) and w.requires_grad}
        self._begins = [(weakref.ref(w), _sample(w)) for w in plain.values() if w.numel()]

    def relative(self) -> float:
        """Return the norm of the change over the norm of the weights; NaN if they are gone."""
        moved = size = torch.zeros((), dtype=torch.float64)
        for reference, begin in self._begins:
            weight = reference()
            present = None if weight is None else _sample(weight)
            if present is None or present.shape != begin.shape:
                return math.nan
            moved = moved.to(begin.device) + (present - begin).square().sum()
            size = size.to(begin.device) + begin.square().sum()
        return float((moved / size).sqrt()) if self._begins and float(size) else math.nan


def trained_weights(value: Tensor) -> list[Tensor]:
    """Return the parameters that a loss was computed from, by its graph."""
    waiting, seen, weights = [value.grad_fn], set(), list[Tensor]()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        weight = getattr(node, "variable", None)
        weights += [weight] if isinstance(weight, nn.Parameter) else []
        waiting += [following for following, _ in node.next_functions]
    return weights


def look_at_next_gradient(weights: Sequence[Tensor], tell: Callable[[float], None]) -> None:
    """Tell the `STALE_GRADIENT` of the smallest weight in its next backward pass, once."""
    weight = min(weights, key=Tensor.numel, default=None)
    if weight is None:
        return
    own: list[Tensor] = []

    def before(gradient: Tensor) -> None:
        own.append(gradient.detach())

    def after(weight: Tensor) -> None:
        for handle in handles:
            handle.remove()
        size = float(own[-1].norm()) if own else 0.0
        if weight.grad is not None and size:
            tell(float((weight.grad - own[-1]).norm()) / size)

    handles = [weight.register_hook(before), weight.register_post_accumulate_grad_hook(after)]


def _sample(weight: Tensor) -> Tensor:
    numbers = weight.detach().reshape(-1)
    return numbers[:: max(1, len(numbers) // SAMPLED)][:SAMPLED].double().clone()
