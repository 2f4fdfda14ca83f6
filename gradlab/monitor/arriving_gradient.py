"""Does the gradient of the watched loss reach its embeddings, and is it the one that arrives?"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from gradlab.monitor.row_gradients import RowGradients

# Numbers of the records: norm of the gradient of the loss at its embeddings, and of its part at the
# second view; whether it does not depend on the embeddings; the share of their first dimensions
# that have none, where all others have one; the gradient that the backward pass brings relative to
# it, and the cosine of both.
OWN_GRADIENT, SECOND_GRADIENT = "embedding_gradient", "second_view_gradient"
UNUSED, IDLE_DIMENSIONS = "embeddings_unused", "idle_dimensions"
ARRIVING, ARRIVING_COSINE = "arriving_gradient", "arriving_cosine"
GRADIENT_NUMBERS = (OWN_GRADIENT, SECOND_GRADIENT, UNUSED, IDLE_DIMENSIONS, ARRIVING,
                    ARRIVING_COSINE)  # fmt: skip


class ArrivingGradient:
    """The gradient of a loss at the rows that it was computed from, beside what arrives there."""

    def __init__(
        self, value: Tensor, views: Sequence[Tensor], by_row: RowGradients | None = None
    ) -> None:
        """Compute the gradient, which walks back to the rows only, and adds nothing to any .grad.

        Args:
            value: the loss, a scalar.
            views: embeddings of each view, those without gradient as well.
            by_row: takes note of the rows that have a gradient.
        """
        self._rows: list[int] = []
        self._views = [view.detach() for view in views]
        self._by_row = by_row or RowGradients()
        self._own: dict[int, Tensor] = {}
        self._arrived: dict[int, Tensor] = {}
        rows = {at: view for at, view in enumerate(views) if view.requires_grad}
        if not rows or not value.requires_grad or value.ndim:
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                slopes = torch.autograd.grad(
                    value, [*rows.values()], retain_graph=True, allow_unused=True
                )
        except RuntimeError:  # a compiled loss, whose graph can be walked once
            return
        self._own = {at: slope.detach() for at, slope in zip(rows, slopes, strict=True)
                     if slope is not None}  # fmt: skip
        self._rows = [*rows]
        for at in self._own:
            rows[at].register_hook(functools.partial(self._arrived.__setitem__, at))

    @functools.cached_property
    def numbers(self) -> dict[str, float]:
        """Numbers of the gradient and of its rows; empty where they cannot be computed."""
        if not self._rows:
            return {}
        norms = {at: float(slope.double().norm()) for at, slope in self._own.items()}
        numbers = {OWN_GRADIENT: math.hypot(*norms.values())}
        if not self._own:
            numbers[UNUSED] = 1.0
        if {0, 1} <= set(self._rows):
            numbers[SECOND_GRADIENT] = norms.get(1, 0.0)
        idle = self._idle_dimensions()
        numbers |= {IDLE_DIMENSIONS: idle} if idle else {}
        return numbers | self._by_row.of(self._own, self._views)

    def _idle_dimensions(self) -> float:
        """Return the share of the first dimensions without gradient; 0 if others have none too."""
        slopes = [slope for slope in self._own.values() if slope.ndim == 2]
        if len({slope.shape[1] for slope in slopes}) != 1:
            return 0.0
        is_busy = torch.stack([slope.ne(0).any(0) for slope in slopes]).any(0).cpu()
        views = [self._views[at].cpu() for at, slope in self._own.items() if slope.ndim == 2]
        varies = torch.stack([(view != view[:1]).any(0) for view in views]).any(0)
        first = int(is_busy.long().argmax())
        return first / len(is_busy) if bool(is_busy[first:].all() and varies.all()) else 0.0

    @property
    def has_arrived(self) -> bool:
        """Whether a backward pass has reached the rows."""
        return bool(self._arrived)

    def arrived(self) -> dict[str, float]:
        """Return what the backward pass has brought since, relative to the gradient of the loss."""
        own = [self._own[at].double().flatten() for at in self._own]
        if not own or not self.numbers.get(OWN_GRADIENT):
            return {}
        zeros = {at: torch.zeros_like(slope) for at, slope in self._own.items()}
        brought = [(self._arrived.get(at, zeros[at])).double().flatten() for at in self._own]
        first, second = torch.cat(own), torch.cat(brought)
        size, cosine = float(second.norm() / first.norm()), 0.0
        if size and math.isfinite(size):
            cosine = float(torch.dot(first, second) / (first.norm() * second.norm()))
        return {ARRIVING: size, ARRIVING_COSINE: cosine}
