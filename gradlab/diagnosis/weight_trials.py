"""A trial of a step of the weights, which are restored: what of the loss is not of embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


def penalty(trainer: Any, inputs: Mapping[str, Any], rate: float) -> dict[str, Any] | None:
    """Return the loss, and its changes by a step along the gradient's signs, without dropout.

    ``through`` is the change by way of the embeddings, and ``aside`` the one that remains where the
    embeddings are those of before. None where the loss cannot be computed without gradient, draws
    numbers of its own, or uses other outputs than embeddings.
    """
    model = trainer.model
    weights = [w for w in model.parameters() if w.requires_grad and isinstance(w.grad, Tensor)]
    weights = [weight for weight in weights if not weight.grad.is_sparse]
    if not weights or not rate > 0:
        return None
    outputs = list[Any]()
    begins = [weight.detach().clone() for weight in weights]
    model.eval()
    try:
        before, repeated = (_value(trainer, inputs, outputs, keep=keep) for keep in (True, False))
        with torch.no_grad():
            for weight in weights:
                weight.sub_(rate * weight.grad.sign())
        held = _value(trainer, inputs, outputs, keep=False)
        moved = _value(trainer, inputs, [], keep=True)
    except Exception:  # a loss that needs gradients or the state of a training step
        return None
    finally:
        with torch.no_grad():
            for weight, begin in zip(weights, begins, strict=True):
                weight.copy_(begin)
        model.train()
    if abs(repeated - before) > 1e-5 * max(1.0, abs(before)) or not outputs:
        return None
    return {"value": before, "through": moved - held, "aside": held - before}


def _value(trainer: Any, inputs: Mapping[str, Any], outputs: list[Any], *, keep: bool) -> float:
    """Return the trainer's loss; keep the outputs of the model, or let it give the kept ones."""
    stored = iter(list(outputs))

    def hook(module: nn.Module, args: Any, output: Any) -> Any:
        if not keep:
            return next(stored)
        outputs.append(dict(output) if isinstance(output, Mapping) else output)
        return None

    with (
        torch.no_grad(),
        trainer.compute_loss_context_manager(),
        trainer.model.register_forward_hook(hook),
    ):
        torch.manual_seed(0)
        return float(type(trainer).compute_loss(trainer, trainer.model, dict(inputs)))
