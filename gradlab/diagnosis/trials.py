"""Trials beside a trainer's first batches, without an update of weights.

They answer what a batch cannot say: whether the loss depends on its labels, whether the trainer
changes the loss, whether a text embeds alike beside a longer one, and which rows meet in a batch.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

# Batches of which the rows are compared; rows of a data set whose epoch is drawn as a whole;
# texts among which a short one and long ones are looked for; steps at which a rate is computed.
DRAWN_BATCHES, ROWS_OF_EPOCH, TEXTS_TRIED, RATES = 32, 20_000, 256, 200
SAME_LOSS = 1e-6  # relative difference of two values of one loss


def dependence(
    trainer: Any, inputs: Mapping[str, Any], loss: Any, columns: Sequence[Any], labels: Any
) -> dict[str, Any]:
    """Return how a loss depends on its labels and on the trainer, without dropout.

    Returns:
        ``ignores``, whether the loss stays the same when rows exchange their labels, and
        ``factor``, the trainer's loss over the loss of the loss function; None if unknown.
    """
    if loss is None or not columns:
        return {"ignores": None, "factor": None}
    model = trainer.model
    model.eval()
    try:
        with torch.no_grad(), trainer.compute_loss_context_manager():
            value = _value(loss, columns, labels)
            whole = float(type(trainer).compute_loss(trainer, model, dict(inputs)))
            ignores = _ignores(loss, columns, labels, value)
    except Exception:  # a loss that needs gradients or the state of a training step
        return {"ignores": None, "factor": None}
    finally:
        model.train()
    return {"ignores": ignores, "factor": whole / value if value and math.isfinite(value) else None}


def _ignores(loss: Any, columns: Sequence[Any], labels: Any, value: float) -> bool | None:
    """Return whether a loss stays the same when rows exchange labels; None if that says nothing."""
    if not isinstance(labels, Tensor) or not value or len(labels) < 4:
        return None
    if bool((labels == labels[:1]).all()):
        return None
    generator = torch.Generator().manual_seed(0)
    for _ in range(2):
        order = torch.randperm(len(labels), generator=generator).to(labels.device)
        if abs(_value(loss, columns, labels[order]) - value) > SAME_LOSS * abs(value):
            return False
    return True


def _value(loss: Any, columns: Sequence[Any], labels: Any) -> float:
    torch.manual_seed(0)
    value = loss([dict(column) for column in columns], labels)
    return float(sum(value.values()) if isinstance(value, Mapping) else value)


def accumulation(trainer: Any, inputs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return whether the trainer, and else the loss, divides by the accumulation; None if unknown.

    A Hugging Face ``Trainer`` leaves the division to a model whose forward pass takes any keyword.
    """
    steps = int(trainer.args.gradient_accumulation_steps)
    count = getattr(trainer, "_get_num_items_in_batch", None)
    if steps < 2 or count is None:
        return None
    is_left = getattr(trainer, "loss_is_scaled_for_ga", None)
    if is_left is None:
        takes_count = bool(getattr(trainer, "model_accepts_loss_kwargs", False))
        is_left = (takes_count and "labels" in inputs) or trainer.compute_loss_func is not None
    numbers = {"steps": steps, "left_to_loss": bool(is_left), "divides": True}
    if not is_left:
        return numbers
    values = []
    trainer.model.eval()
    with contextlib.suppress(Exception), torch.no_grad(), trainer.compute_loss_context_manager():
        for batches in (1, steps):
            torch.manual_seed(0)
            rows = count([dict(inputs)] * batches, trainer.args.device)
            values.append(float(type(trainer).compute_loss(
                trainer, trainer.model, dict(inputs), num_items_in_batch=rows
            )))  # fmt: skip
    trainer.model.train()
    if len(values) < 2 or not values[0]:
        return None
    return numbers | {"divides": abs(values[1] / values[0] * steps - 1) < 0.5}


def beside(model: Any, texts: Sequence[str]) -> dict[str, Any] | None:
    """Return the cosine of a text's embeddings, alone and beside a longer text, in eval mode.

    None without texts, or for a model that is not of sentence-transformers.
    """
    candidates = sorted({text for text in texts[:TEXTS_TRIED] if text.strip()}, key=len)
    if not hasattr(model, "encode") or len(candidates) < 2:
        return None
    text, longer = candidates[len(candidates) // 4], " ".join(candidates[-3:])
    try:
        encode = {"convert_to_tensor": True, "show_progress_bar": False, "device": model.device}
        with torch.no_grad():
            single = model.encode([text], **encode)[0].double()
            padded = model.encode([text, longer], **encode)[0].double()
    except Exception:  # a model whose inputs are no texts
        return None
    finally:
        model.train()
    cosine = float(nn.functional.cosine_similarity(single, padded, dim=0))
    half = any(weight.dtype in (torch.float16, torch.bfloat16) for weight in model.parameters())
    return {"cosine": cosine, "half": half} if math.isfinite(cosine) else None


def schedule(trainer: Any, batches: int | None) -> dict[str, Any] | None:
    """Return the planned steps, the warm-up, and the largest factor of the learning rate.

    ``batches`` is the number of batches of an epoch. None if the schedule is no function of the
    step.
    """
    from transformers import get_scheduler

    args = trainer.args
    steps = int(args.max_steps)
    if steps <= 0 and batches is not None:
        updates = max(1, batches // int(args.gradient_accumulation_steps))
        steps = math.ceil(updates * float(args.num_train_epochs))
    if steps <= 0:
        return None
    scheduler, warmup = getattr(trainer, "lr_scheduler", None), 0
    if scheduler is None:
        warmup = int(args.get_warmup_steps(steps))
        weight = nn.Parameter(torch.zeros(1))
        with contextlib.suppress(Exception):
            scheduler = get_scheduler(
                args.lr_scheduler_type, torch.optim.SGD([weight], lr=1.0), warmup, steps,
                scheduler_specific_kwargs=dict(args.lr_scheduler_kwargs or {}),
            )  # fmt: skip
    factors = getattr(scheduler, "lr_lambdas", None)
    if not factors:
        return None
    stride = max(1, steps // RATES)
    peak = max(float(factor(step)) for factor in factors for step in range(0, steps, stride))
    return {"steps": steps, "warmup": warmup, "peak": peak}


def draws(loader: Any, sizes: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """Return the rows of each data set that the batches of a loader hold, without loading them.

    Args:
        loader: loader of the trainer.
        sizes: rows of each data set, in the order of the loader's data.

    Returns:
        For each data set ``batches``, the rows of its first batches, and ``epoch``, the number of
        rows of a whole epoch, or None where it is too long to be drawn.
    """
    sampler = getattr(loader, "batch_sampler", None)
    if sampler is None or not sizes:
        return {}
    whole = sum(sizes.values()) <= ROWS_OF_EPOCH
    ends = dict(zip(sizes, itertools.accumulate(sizes.values()), strict=True))
    rows: dict[str, list[list[int]]] = {name: [] for name in sizes}
    drawn: dict[str, set[int]] = {name: set() for name in sizes}
    most = None if whole else 4 * DRAWN_BATCHES * len(sizes)
    try:
        for batch in itertools.islice(sampler, most):
            name = next(name for name, end in ends.items() if max(batch) < end)
            begin = ends[name] - sizes[name]
            drawn[name].update(row - begin for row in batch)
            if len(rows[name]) < DRAWN_BATCHES:
                rows[name].append([row - begin for row in batch])
    except (TypeError, ValueError, StopIteration):  # a sampler of something else than rows
        return {}
    return {
        name: {"batches": rows[name], "epoch": len(drawn[name]) if whole else None}
        for name in sizes
    }
