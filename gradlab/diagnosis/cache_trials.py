"""Does a gradient cache repeat its embeddings, and has it the gradients of plain training?"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from gradlab.diagnosis.trial_step import Call, trial_step
from gradlab.monitor.captured_views import columns_of

PLAIN_ROWS = 64  # rows of a batch for which a gradient cache is compared with plain training


def replay(cached: list[Call], repeated: list[Call]) -> float | None:
    """Return the largest relative difference of embeddings between passes; None if none match."""
    left, errors = list(cached), []
    for call in repeated:
        first = next((before for before in left if _same_input(before, call)), None)
        if first is None or first.rows is None or call.rows is None:
            continue
        left.remove(first)
        errors.append((call.rows - first.rows).norm(dim=1) / first.rows.norm(dim=1))
    return float(torch.cat(errors).max()) if errors else None


def beside_plain(
    trainer: Any,
    batch: Any,  # an `ObservedBatch`; its module imports this one
    inputs: Mapping[str, Any],
    trained: dict[str, Tensor],
) -> float | None:
    """Return the relative difference of a gradient cache's gradients from plain training, or None.

    Both are without dropout, on the first rows, which fit without a cache. The loss of plain
    training is computed from the embeddings; None if that is impossible.
    """
    loss, model = batch.loss, trainer.model
    count = len(batch.snapshot.anchors) if batch.snapshot else 0
    rows = {
        n: tensor
        for n, tensor in inputs.items()
        if isinstance(tensor, Tensor) and len(tensor) == count
    }
    few = {**inputs, **{name: tensor[:PLAIN_ROWS] for name, tensor in rows.items()}}
    columns, labels = columns_of(trainer, few)
    if hasattr(loss, "guide") or not columns:
        return None
    criterion: Callable[[list[Tensor]], Any]
    if hasattr(loss, "compute_loss_from_embeddings"):
        criterion = functools.partial(loss.compute_loss_from_embeddings, labels=labels)
    elif hasattr(loss, "calculate_loss"):
        criterion = lambda columns: loss.calculate_loss([[tensor] for tensor in columns])  # noqa: E731
    else:
        return None
    names = [name for name in ("mini_batch_size", "chunk_size") if getattr(loss, name, None)]
    sizes = {name: getattr(loss, name) for name in names}
    for name, size in sizes.items():  # several pieces, of different sizes
        setattr(loss, name, min(size, 2 * PLAIN_ROWS // 5))
    model.eval()
    trial_step(trainer, few, trained)
    for name, size in sizes.items():
        setattr(loss, name, size)
    with trainer.compute_loss_context_manager(), torch.enable_grad():
        embedded = [model(dict(column))["sentence_embedding"] for column in columns]
        value = criterion(embedded * 2 if len(embedded) == 1 else embedded)
    model.train()
    tensors = list(trained.values())
    expected = torch.autograd.grad(value, tensors, allow_unused=True, materialize_grads=True)
    difference = size = 0.0
    for tensor, plain in zip(tensors, expected, strict=True):
        cached = torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
        difference += float((cached - plain).double().square().sum())
        size += float(plain.double().square().sum())
    return math.sqrt(difference / size) if size else (math.inf if difference else 0.0)


def _same_input(call: Call, repeated: Call) -> bool:
    tensors = isinstance(call.tokens, Tensor) and isinstance(repeated.tokens, Tensor)
    return tensors and torch.equal(call.tokens, repeated.tokens)
