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
        hard: int = 0,
        **context: Tensor | tuple[Tensor, ...],
    ) -> Tensor:
        """The loss of rows that all processes have; gradient flows to this process's share of them.

        Args:
            anchors, positives: (N, D).
            extra: (hard N + M, D), columns of hard negatives before others, or None.
            reduction, normalize, in_batch_negatives: see `gradlab.Loss.__call__`.
            hard: columns of hard negatives among the extra ones.
            **context: tensors with an entry for each sentence, and for each extra negative after them, or tuples of embeddings
                by another model.
        """
        rank, count, share = self.processes.rank, self.processes.count, self.processes.share
        size = len(anchors)

        def beside(rows: Tensor) -> Tensor:
            """Hard negatives of the process that embedded them, and an equal part of the others."""
            columns = [share(column) for column in rows[: hard * size].split(size)]
            return torch.cat([*columns, rows[hard * size :][rank::count]])

        def mine(rows: Tensor) -> Tensor:
            return torch.cat([share(rows[:size]), beside(rows[size:])])

        def embedded(rows: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            of_extra = 2 if extra is not None else None
            return tuple(beside(one) if at == of_extra else share(one) for at, one in enumerate(rows))

        told = {
            name: embedded(value) if isinstance(value, tuple) else mine(value)
            for name, value in context.items()
        }
        others = None if extra is None else beside(extra)
        how: dict[str, bool] = {"normalize": normalize, "in_batch_negatives": in_batch_negatives}
        return self.loss(share(anchors), share(positives), others, reduction, **how, **told)
