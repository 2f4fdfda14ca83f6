"""A training step without an update: the loss, its gradients, and the passes through the model."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.errors import GradlabError, first_line
from gradlab.monitor.captured_views import ROWS, batch_size, in_order


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """A forward pass through the model."""

    tokens: Any  # None unless the model was given input_ids
    with_gradient: bool
    output: Any

    @property
    def rows(self) -> Tensor | None:
        """Embeddings of a sentence-transformers model; None for another model."""
        return self.output.get("sentence_embedding") if isinstance(self.output, Mapping) else None


def trial_step(
    trainer: Any, inputs: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> tuple[Tensor, list[Call], list[Call]]:
    """Compute loss and gradients as in training; return loss, and calls before and in backward."""
    for tensor in tensors.values():
        tensor.grad = None
    with calls_of(trainer.model) as calls:
        try:
            # Call the method of the class, because `gradlab.watch` replaces that of the object.
            with trainer.compute_loss_context_manager():
                value = type(trainer).compute_loss(trainer, trainer.model, dict(inputs))
            before = len(calls)
            if value.requires_grad:
                value.backward()
        except Exception as error:
            why = f"{type(error).__name__}: {first_line(error)}{_reason(trainer.model)}"
            raise GradlabError(f"the trainer's loss cannot be computed: {why}") from error
    return value.detach(), calls[:before], calls[before:]


def by_column(forward: Sequence[Call], columns: Sequence[Mapping[str, Any]]) -> list[Tensor]:
    """Return the embeddings of each column; those of each pass if they do not add up."""
    passes = [call for call in forward if call.rows is not None]
    embedded = [call.rows for call in passes if call.rows is not None]
    if not passes or not columns:
        return embedded
    alike = [rows for rows in embedded if rows.shape[1:] == embedded[0].shape[1:]]
    rows, count = torch.cat(alike), batch_size(columns[0], len(torch.cat(alike)) // len(columns))
    if not count or len(rows) != count * len(columns):
        return embedded
    return list(in_order(rows, [call.output for call in passes], count).split(count))


def positions_of(model: Any) -> int:
    """Return the tokens of a text for which an encoder has learned positions; 0 if unlimited."""
    for module in getattr(model, "modules", list)():
        table = getattr(module, "position_embeddings", None)
        if isinstance(table, nn.Embedding):
            # RoBERTa and its kin begin to count behind the place of padding.
            return table.num_embeddings - (table.padding_idx + 1 if table.padding_idx else 0)
    return 0


def size_of(parameter: Tensor) -> float:
    """Return the largest absolute entry of a weight's gradient; 0 without one."""
    gradient = _gradient(parameter)
    return float(gradient.abs().max()) if gradient is not None else 0.0


def norm_of(parameter: Tensor) -> float:
    """Return the norm of a weight's gradient; 0 without one."""
    gradient = _gradient(parameter)
    return float(gradient.double().norm()) if gradient is not None else 0.0


@contextlib.contextmanager
def calls_of(model: nn.Module) -> Iterator[list[Call]]:
    """Collect the forward passes through a model within the block."""
    calls: list[Call] = []

    def keep(module: nn.Module, args: Any, keywords: Any, output: Any) -> None:
        features = args[0] if args and isinstance(args[0], Mapping) else keywords
        rows = output.get("sentence_embedding") if isinstance(output, Mapping) else None
        # Other outputs would keep the activations of a gradient cache alive.
        if isinstance(rows, Tensor):
            places = {ROWS: output[ROWS]} if ROWS in output else {}
            output = {"sentence_embedding": rows.detach()} | places
        calls.append(Call(features.get("input_ids"), torch.is_grad_enabled(), output))

    with model.register_forward_hook(keep, with_kwargs=True):
        yield calls


def _gradient(parameter: Tensor) -> Tensor | None:
    gradient = parameter.grad
    if gradient is None:
        return None
    gradient = gradient.coalesce().values() if gradient.is_sparse else gradient
    return gradient.detach() if gradient.numel() else None


def _reason(model: Any) -> str:
    """Return a known reason why a model cannot embed some texts, after the error; empty if none."""
    limit, positions = getattr(model, "max_seq_length", None), positions_of(model)
    if isinstance(limit, int) and 0 < positions < limit:
        return (
            f". max_seq_length is {limit}, and the encoder has {positions} positions: "
            f"set it to {positions}"
        )
    return ""
