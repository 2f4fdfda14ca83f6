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
        rank, count, share = self.processes.rank, self.processes.count, self.processes.share
        others = None if extra is None else extra[rank::count]
        told = {
            name: torch.cat([share(value[: len(anchors)]), value[len(anchors) :][rank::count]])
            for name, value in context.items()
        }
        how: dict[str, bool] = {"normalize": normalize, "in_batch_negatives": in_batch_negatives}
        return self.loss(share(anchors), share(positives), others, reduction, **how, **told)
