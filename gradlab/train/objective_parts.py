"""Batches, outputs and components: what an objective takes, returns, and consists of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.losses.base import Loss
from gradlab.monitor.batch_measurement import Snapshot
from gradlab.train.batches import Packed


@dataclass(frozen=True)
class TokenBatch:
    """A batch in the layout of :meth:`Objective.prepare`."""

    # The trained branch's sequences by column; only anchors if the momentum branch makes positives.
    trained: Packed
    # Second views for the momentum branch, if there is one.
    momentum: Packed | None = None
    # Mask of the rows in the groups of `trained` whose embeddings the augmentation changes, if any.
    changed: Tensor | None = None
    # (N,) rows of the training file, of all processes, which identify the sentences for the loss.
    sentences: Tensor | None = None
    # Number of columns in `trained`, equally long: anchors, positives, hard negatives.
    columns: int = 2


@dataclass(frozen=True)
class Output:
    """Loss of one batch, and the embeddings that it was computed from, of all processes.

    Attributes:
        loss: a scalar with gradient.
        anchors, positives: (N, D), not normalised.
        extra_negatives: (M, D) or None.
        in_batch_negatives: whether the other sentences of the batch were negatives too.
        negative_ages: ages of queued negatives in steps (see `gradlab.train.queue.Queue`), or None.
        keys: (N, D), rows that the queue takes in after the step; None without a queue.
        encoded: anchors before any head, of this process only and detached; None without a head.
        context: further arguments of the loss; see `gradlab.batch.check.check_batch`.
        learned: the loss with the settings learned when it was computed; None if it learns none.
    """

    loss: Tensor
    anchors: Tensor
    positives: Tensor
    extra_negatives: Tensor | None = None
    in_batch_negatives: bool = True
    negative_ages: Tensor | None = None
    keys: Tensor | None = None
    encoded: Tensor | None = None
    context: Mapping[str, Any] = field(default_factory=dict)
    learned: Loss | None = None

    @property
    def has_negatives(self) -> bool:
        """False while all negatives come from a queue that is still empty."""
        return (
            self.in_batch_negatives
            or self.extra_negatives is not None
            or "own_negatives" in self.context
        )

    def snapshot(self) -> Snapshot:
        """Return the embeddings and the context for diagnostics."""
        views = (self.anchors, self.positives, self.extra_negatives, self.in_batch_negatives)
        return Snapshot(
            *views, context=self.context, encoded=self.encoded, learned_loss=self.learned
        )


class Component(nn.Module):
    """Base class of parts of an objective that act during a step; override the methods you need.

    An objective calls the components among its attributes. Their parameters, buffers and extra
    state are saved in checkpoints.
    """

    def after_batch(self, output: Output) -> None:
        """Called after the backward pass of each batch; a step may have several batches."""

    def before_step(self) -> None:
        """Called when the gradients of a step are complete."""

    def after_step(self) -> None:
        """Called after each optimiser step, without gradient."""

    def statistics(self, output: Output) -> dict[str, float]:
        """Return numbers to record about the last step, whose last batch has this output."""
        return {}


class CountingComponent(Component):
    """A component with a ``count``, such as of steps, in its state dictionary."""

    count: int = 0

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.count)

    def set_extra_state(self, state: Tensor) -> None:
        self.count = int(state)
