"""What does a loss of one's own compute? Its values on batches whose answer is known."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gradlab.losses.base import Loss

# Sentences of the batches on which a loss is tried.
TRIED = 8
Values = dict[str, float]


def values_on_known_batches(function: Callable[..., Any], width: int) -> Values:
    """Return the values of a loss of two views on batches of orthogonal sentences.

    Args:
        function: (anchors, positives) -> loss, called without gradient.
        width: dimensions of the embeddings.

    Returns:
        ``count``, the sentences; ``solved``, with positives like their anchors; ``alike``, with all
        embeddings the same; ``wrong``, with the next sentence as positive; ``halfway``, with
        positives at 60° of their anchors and at 90° of all others. Empty where the loss cannot be
        computed.
    """
    count = min(TRIED, width // 2)
    if count < 3:
        return {}
    rows = torch.eye(width, dtype=torch.float64)
    anchors, aside = rows[:count], rows[count : 2 * count]
    batches = {
        "solved": (anchors, anchors.clone()),
        "alike": (anchors[:1].repeat(count, 1), anchors[:1].repeat(count, 1)),
        "wrong": (anchors, anchors.roll(1, 0)),
        "halfway": (anchors, 0.5 * anchors + math.sqrt(0.75) * aside),
    }
    with contextlib.suppress(Exception), torch.no_grad():  # a loss for batches of one size
        values = {name: float(function(*views)) for name, views in batches.items()}
        if all(map(math.isfinite, values.values())):
            return {"count": float(count), **values}
    return {}


def departure(loss: Loss | None, anchors: Tensor, positives: Tensor, value: float) -> str:
    """Return by which mistake InfoNCE would have a value that it has not; empty if by none.

    Args:
        loss: the loss that was named.
        anchors: (N, D) unit rows.
        positives: (N, D) unit rows.
        value: the loss that was trained.
    """
    temperature = getattr(loss, "temperature", None)
    if loss is None or loss.name != "infonce" or not isinstance(temperature, float):
        return ""
    logits, own = anchors @ positives.T / temperature, torch.arange(len(anchors))
    own = own.to(logits.device)
    both = torch.cat([anchors, positives])
    mistakes = {
        "softmax twice": F.cross_entropy(logits.softmax(1), own),
        "first row as target": F.cross_entropy(logits, torch.zeros_like(own)),
        "next row as target": F.cross_entropy(logits, own.roll(-1)),
        "own similarity": F.cross_entropy(
            both @ both.T / temperature, torch.arange(len(both), device=own.device).roll(len(own))
        ),
        "sum": F.cross_entropy(logits, own, reduction="sum"),
        "no temperature": F.cross_entropy(logits * temperature, own),
    }
    close = [n for n, v in mistakes.items() if abs(float(v) - value) <= 1e-4 * abs(value)]
    return close[0] if len(close) == 1 else ""
