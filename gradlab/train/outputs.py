"""What an objective takes and returns for a batch, and what it is composed of beside encoder and loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gradlab.monitor.probe import Snapshot
from gradlab.train.batches import Packed


@dataclass(frozen=True)
class Batch:
    """What :meth:`Objective.prepare` laid out."""

    # Of the trained branch, column by column; the anchors alone where the momentum branch makes the positives.
    online: Packed
    # Second views for the momentum branch, if there is one.
    target: Packed | None = None
    # Of the rows of `online` as its groups hold them, those whose embeddings the augmentation changes, if it does.
    changed: Tensor | None = None
    # (N,) rows of the training file, of all processes, by which the loss may know its sentences.
    sentences: Tensor | None = None
    columns: int = 2  # of sentences in `online`, equally long: anchors, positives, and hard negatives


@dataclass(frozen=True)
class Output:
    """One batch's loss and the embeddings that it was computed from, of all processes.

    Attributes:
        loss: a scalar that gradient flows from.
        anchors, positives: (N, D), not normalised.
        extra_negatives: (M, D) or None.
        in_batch_negatives: whether the other sentences of the batch were negatives too.
        negative_ages: (M,) in steps, of negatives that came from the queue alone; see `gradlab.train.queue.Queue`.
        keys: (N, D), what the queue takes in after the step; None without a queue.
        encoded: anchors as the encoder gives them, before any head, of this process alone and without gradient;
            None where there is no head.
        context: what else the loss saw, see `gradlab.batch.check.check_batch`.
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

    @property
    def has_negatives(self) -> bool:
        """False while all negatives come from a queue that is still empty."""
        return self.in_batch_negatives or self.extra_negatives is not None or "own_negatives" in self.context

    def snapshot(self) -> Snapshot:
        """The embeddings and the context for diagnostics."""
        views = (self.anchors, self.positives, self.extra_negatives, self.in_batch_negatives)
        return Snapshot(*views, context=self.context, encoded=self.encoded)


class Component(nn.Module):
    """Base of the parts of an objective; override the moments that matter.

    An objective calls the components among its attributes; their parameters, buffers and extra state are in the
    checkpoints.
    """

    def after_batch(self, output: Output) -> None:
        """Called after the backward pass of each batch, of which a step may have several."""

    def before_step(self) -> None:
        """Called when the gradients of a step are complete."""

    def after_step(self) -> None:
        """Called after each optimiser step, without gradient."""

    def statistics(self, output: Output) -> dict[str, float]:
        """Numbers to record of the last step, from its last batch."""
        return {}


class CountingComponent(Component):
    """A component with a count in its state dictionary; ``counter`` is the attribute that has it."""

    counter: ClassVar[str]

    def get_extra_state(self) -> Tensor:
        return torch.tensor(getattr(self, self.counter))

    def set_extra_state(self, state: Tensor) -> None:
        setattr(self, self.counter, int(state))
