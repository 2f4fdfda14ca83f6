"""A trial of the columns that reach a loss: those of the batch, or one of them twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradlab.diagnosis.trial_step import calls_of


def replaced(
    trainer: Any, inputs: Mapping[str, Any], loss: Any, columns: Sequence[Any], labels: Any
) -> tuple[tuple[int, int], ...]:
    """Return pairs of a column that the trainer leaves out, and of the one embedded in its place.

    The tokens that reach the encoder in ``compute_loss`` are compared with those that reach it
    where the loss is given all columns of the batch. Empty where the trainer embeds further texts,
    or fewer, where nothing can be compared, and for the trainer of the library.
    """
    if type(trainer).compute_loss.__module__.startswith("sentence_transformers."):
        return ()
    if loss is None or len(columns) < 2 or len(set(map(_key, columns))) < len(columns):
        return ()
    model = trainer.model
    model.eval()
    try:
        with torch.no_grad(), trainer.compute_loss_context_manager():
            with calls_of(model) as meant:
                loss([dict(column) for column in columns], labels)
            with calls_of(model) as taken:
                type(trainer).compute_loss(trainer, model, dict(inputs))
    except Exception:  # a loss that needs gradients or the state of a training step
        return ()
    finally:
        model.train()
    of_loss, of_trainer = (
        Counter(_key({"input_ids": call.tokens}) for call in calls) for calls in (meant, taken)
    )
    places = {_key(column): place for place, column in enumerate(columns)}
    missed, further = of_loss - of_trainer, of_trainer - of_loss
    if missed.total() != further.total() or not set(missed) | set(further) <= set(places):
        return ()
    if set(missed) & set(of_trainer):
        return ()
    return tuple(
        (places[left], places[put])
        for left, put in zip(missed.elements(), further.elements(), strict=True)
    )


def _key(column: Mapping[str, Any]) -> bytes:
    """Return the tokens of a column with their shape; empty without tokens."""
    tokens = column.get("input_ids")
    if not isinstance(tokens, Tensor):
        return b""
    return str(tuple(tokens.shape)).encode() + tokens.detach().cpu().contiguous().numpy().tobytes()
