"""Replays a blockwise loss and its gradients as one CUDA graph, for batches of a repeated shape.

A call of blocks takes some ninety operations, which cost the host more than a GPU needs for a few
thousand sentences. The first call with rows of a shape runs as usual and checks everything. The
second records the whole evaluation; later ones copy the rows, replay the record, and wait once, for
one number that says whether rows, value and gradients were all in order. If they were not, the call
runs as usual, and raises the usual error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gradlab.batch.batch import KINDS, Batch
from gradlab.batch.check import NORM_LIMITS, NORM_TOLERANCE
from gradlab.scale.block_loop import Evaluation, refuse_second_derivatives
from gradlab.scale.matrix_products import tf32_allowed

Outputs = tuple[Tensor, ...]
# Rows of a batch by kind, see `KINDS`; None where there are none.
Rows = tuple[Tensor | None, ...]
# Shapes that are recorded, as each keeps the memory of its blocks; others run as usual.
MOST_RECORDS = 4
# Makes the evaluation of a batch, which checks nothing.
Evaluate = Callable[[Batch], Evaluation]


def record(compute: Callable[[], Outputs], device: torch.device) -> tuple[Any, Outputs]:
    """Record a computation as a CUDA graph; return what replays it, and its outputs."""
    stream, current = torch.cuda.Stream(device), torch.cuda.current_stream(device)
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        compute()  # libraries set themselves up in a first call
    current.wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = compute()
    return graph.replay, outputs


def is_recordable(rows: Tensor) -> bool:
    """Whether computations with these rows can be recorded."""
    return rows.is_cuda and not torch.cuda.is_current_stream_capturing()


class Graphs:
    """Recorded calls of one loss, by shape."""

    def __init__(self) -> None:
        """Start without any record."""
        #: None for calls that ran once, False for those that cannot be recorded
        self._records: dict[Any, Record | bool | None] = {}

    def value(
        self,
        evaluate: Evaluate,
        checked: Callable[[], Batch],
        rows: Rows,
        reduction: str,
        normalize: bool,
    ) -> Tensor | None:
        """Return the value of a recorded call; None if the call has to run as usual.

        Args:
            evaluate: makes the evaluation of a batch, which checks nothing.
            checked: checks these rows, and returns their batch; called once, to record.
            rows: the rows of this call.
            reduction: ``"mean"`` or ``"sum"``.
            normalize: whether rows are divided by their norms.
        """
        shapes = tuple(
            None
            if view is None
            else (tuple(view.shape), view.dtype, str(view.device), view.requires_grad)
            for view in rows
        )
        autocast = rows[0] is not None and torch.is_autocast_enabled(rows[0].device.type)
        key = shapes, reduction, normalize, tf32_allowed(), autocast
        if key not in self._records:
            if len(self._records) < MOST_RECORDS:
                self._records[key] = None
            return None
        recorded = self._records[key]
        if recorded is None:
            recorded = self._records[key] = self._recorded(
                evaluate, checked(), rows, reduction, normalize
            )
        if not isinstance(recorded, Record):
            return None
        recorded.run(rows)
        total: Tensor = _Replayed.apply(recorded, *rows)  # copies before the host waits
        return total if bool(recorded.in_order) else None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy, which has no records: they belong to this process's GPU."""
        return {"_records": {}}

    @staticmethod
    def _recorded(
        evaluate: Evaluate, batch: Batch, rows: Rows, reduction: str, normalize: bool
    ) -> Record | bool:
        """Return the record of a call; False if it draws random numbers or cannot be recorded."""
        before = _random_states(batch.anchors)
        try:
            call = Record(evaluate, batch, rows, reduction, normalize)
        except RuntimeError:  # an operation that a graph does not take
            return False
        unchanged = all(map(torch.equal, before, _random_states(batch.anchors)))
        return call if unchanged else False


class Record:
    """One recorded call: where its rows go, and where its results appear."""

    def __init__(
        self, evaluate: Evaluate, batch: Batch, rows: Rows, reduction: str, normalize: bool
    ) -> None:
        """Record the evaluation of ``batch`` with ``rows``; see `Graphs.value`."""
        self._evaluate, self._batch = evaluate, batch
        self._reduction, self._normalize = reduction, normalize
        self._rows = [None if view is None else view.detach().clone() for view in rows]
        self._needed = tuple(view is not None and view.requires_grad for view in rows)
        self._replay, (self.in_order, self.total, *self.gradients) = record(
            self._compute, batch.anchors.device
        )

    def run(self, rows: Rows) -> None:
        """Replay the call with these rows."""
        for memory, view in zip(self._rows, rows, strict=True):
            if memory is not None and view is not None:
                memory.copy_(view.detach())
        self._replay()

    def by_kind(self) -> list[Tensor | None]:
        """Return copies of the gradients of the rows by kind, None where none is needed."""
        copies = iter([gradient.clone() for gradient in self.gradients])
        return [next(copies) if need else None for need in self._needed]

    def _compute(self) -> Outputs:
        """Return whether everything is in order, the value and the gradients."""
        views = [
            None if view is None else view.to(torch.promote_types(view.dtype, torch.float32))
            for view in self._rows
        ]
        norms = [
            view if view is None else torch.linalg.vector_norm(view, dim=-1, keepdim=True)
            for view in views
        ]
        if self._normalize:
            views = [
                None if view is None or norm is None else view / norm
                for view, norm in zip(views, norms, strict=True)
            ]
        embeddings: dict[str, Any] = dict(zip(KINDS, views, strict=True))
        evaluation = self._evaluate(dataclasses.replace(self._batch, **embeddings))
        share = 1 / evaluation.batch.count if self._reduction == "mean" else 1.0
        anchors = evaluation.batch.anchors
        scale = anchors.new_full((len(anchors),), share)
        values, by_unit_rows = evaluation.differentiate(scale, self._needed)
        total = evaluation.reduced(values, self._reduction)
        gradients = []
        for raw, view, norm, gradient in zip(self._rows, views, norms, by_unit_rows, strict=True):
            if raw is None or view is None or norm is None or gradient is None:
                continue
            if self._normalize:  # the part along the row changes its norm only
                along = torch.linalg.vecdot(view, gradient)[..., None]
                gradient = gradient.addcmul(view, along, value=-1).div_(norm)
            gradients.append(gradient.to(raw.dtype))
        computed = [values, *(gradient for gradient in by_unit_rows if gradient is not None)]
        sums = torch.stack([tensor.sum() for tensor in computed]).sum()
        in_order = (sums - sums == 0) & self._norms_in_order(
            torch.cat([norm for norm in norms if norm is not None])
        )
        return in_order, total, *gradients

    def _norms_in_order(self, norms: Tensor) -> Tensor:
        least, most = torch.aminmax(norms)
        if self._normalize:
            smallest, largest = NORM_LIMITS[norms.dtype.itemsize]
        else:
            anchors = self._rows[0]
            assert anchors is not None
            tolerance = NORM_TOLERANCE[str(anchors.dtype)]
            smallest, largest = 1 - tolerance, 1 + tolerance
        return (least > smallest) & (most < largest)


class _Replayed(torch.autograd.Function):
    """The value of a call that has just been replayed; its gradients are copied at once."""

    @staticmethod
    def forward(ctx: Any, call: Record, *rows: Tensor | None) -> Tensor:
        ctx.gradients = call.by_kind()
        ctx.save_for_backward(*rows)
        return call.total.clone()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        _ = ctx.saved_tensors  # raises if a tensor has been changed in place
        return None, *(
            None if gradient is None else gradient * upstream for gradient in ctx.gradients
        )


def _random_states(rows: Tensor) -> list[Tensor]:
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(rows.device)] if rows.is_cuda else states
