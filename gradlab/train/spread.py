"""A loss of rows that are spread over the processes of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.scale.blockwise import BlockwiseLoss
from gradlab.settings.learned import learned_settings
from gradlab.train.distributed import Processes


@dataclass(frozen=True)
class SpreadLoss:
    """Computes the loss of a whole batch that every process holds, each process its own rows of it.

    Called as the loss itself.
    """

    loss: BlockwiseLoss
    processes: Processes

    @classmethod
    def of(cls, loss: Loss, processes: Processes) -> Self | None:
        """The loss in this form; None where every process computes the whole of it."""
        if processes.count == 1 or learned_settings(loss):
            return None
        try:
            return cls(BlockwiseLoss(loss, group="world"), processes)
        except GradlabError:  # a loss that needs more of the batch than the processes tell each other
            return None

    def __call__(
        self,
        anchors: Tensor,
        positives: Tensor,
        extra: Tensor | None,
        reduction: str,
        *,
        normalize: bool,
        in_batch_negatives: bool,
        **context: Tensor,
    ) -> Tensor:
        """The loss of rows that all processes have; gradient flows to this process's share of them.

        ``context`` holds tensors with an entry for each sentence, and for each extra negative after
        them.
        """
        own = [self._own(rows) for rows in (anchors, positives)]
        others = None if extra is None else self._every(extra)
        told = {
            name: torch.cat([self._own(value[: len(anchors)]), self._every(value[len(anchors) :])])
            for name, value in context.items()
        }
        return self.loss(
            *own, others, reduction, normalize=normalize, in_batch_negatives=in_batch_negatives, **told
        )

    def _own(self, rows: Tensor) -> Tensor:
        """This process's part of what there is one of for each sentence."""
        size = len(rows) // self.processes.count
        return rows[self.processes.rank * size : (self.processes.rank + 1) * size]

    def _every(self, rows: Tensor) -> Tensor:
        """This process's part of the extra negatives."""
        return rows[self.processes.rank :: self.processes.count]
