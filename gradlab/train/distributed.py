"""One batch on several processes: shares of rows, gathered embeddings, averaged gradients, loss."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.encoder.model import find_device
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.scale.blockwise import BlockwiseLoss
from gradlab.settings.module import learned_settings

# Anchors (N, D), positives (N, D) and extra negatives (M, D) or None.
Views = tuple[Tensor, Tensor, Tensor | None]


@dataclass(frozen=True)
class Processes:
    """The processes of a run, started by ``accelerate launch`` or ``torchrun``; usually one."""

    rank: int  # number of this process
    count: int  # number of processes
    device: torch.device  # where this process computes

    @classmethod
    def start(cls, device: str) -> Processes:
        """Join the processes that a launcher started, if any; for ``device`` see `find_device`."""
        chosen = find_device(device)
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            if chosen.type == "cuda" and chosen.index is not None:
                # Its random generator is saved and restored from here on.
                torch.cuda.set_device(chosen)
            return cls(0, 1, chosen)
        from accelerate import PartialState

        state = PartialState(cpu=chosen.type == "cpu")
        atexit.register(_leave)
        if chosen.type == "cuda":
            chosen = torch.device("cuda", state.local_process_index)
        return cls(state.process_index, state.num_processes, chosen)

    @property
    def is_main(self) -> bool:
        """True in the process that writes files and prints messages."""
        return self.rank == 0

    def share(self, rows: Any) -> Any:
        """Return this process's part of a batch's rows: equal parts, in the order of the ranks."""
        size = len(rows) // self.count
        return rows[self.rank * size : (self.rank + 1) * size]

    def gather(self, rows: Tensor) -> Tensor:
        """Return the rows of all processes, by rank; gradient flows only into this process's rows.

        The sum of the processes' gradients is that of the whole batch. Multiply the loss by
        :attr:`count` if gradients are averaged, as by DistributedDataParallel.
        """
        if self.count == 1:
            return rows
        parts = [torch.empty_like(rows) for _ in range(self.count)]
        torch.distributed.all_gather(parts, rows.detach().contiguous())
        parts[self.rank] = rows
        return torch.cat(parts)

    def parallel(self, module: nn.Module) -> nn.Module:
        """Return ``module`` with gradients that are averaged over the processes."""
        if self.count == 1:
            return module
        devices = [self.device.index] if self.device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(module, device_ids=devices)

    def average(self, parameters: Iterable[nn.Parameter]) -> None:
        """Average the gradients of ``parameters`` over the processes, in one all-reduce."""
        if self.count == 1:
            return
        trained = [one for one in parameters if one.requires_grad]
        parts = [torch.zeros_like(one) if one.grad is None else one.grad for one in trained]
        flat = nn.utils.parameters_to_vector(parts)
        torch.distributed.all_reduce(flat)
        nn.utils.vector_to_parameters(flat / self.count, parts)
        for one, part in zip(trained, parts, strict=True):
            one.grad = part

    def collect(self, value: Any) -> list[Any]:
        """Return ``value`` of every process, at every process."""
        values: list[Any] = [value] * self.count
        if self.count > 1:
            torch.distributed.all_gather_object(values, value)
        return values

    def wait(self) -> None:
        """Wait until all processes have reached this point."""
        if self.count > 1:
            torch.distributed.barrier()


def shared_loss(loss: Loss, processes: Processes) -> BlockwiseLoss | None:
    """Return the loss of a batch of which every process has its rows; see :func:`share_batch`.

    The result is None if every process has to compute the whole loss.
    """
    if processes.count == 1 or learned_settings(loss):
        return None
    try:
        return BlockwiseLoss(loss, group="world")
    except GradlabError:  # a loss that needs more of the batch than processes exchange
        return None


def share_batch(
    processes: Processes, views: Views, context: Mapping[str, Any], hard: int = 0
) -> tuple[Views, dict[str, Any]]:
    """Return this process's part of a batch that all processes have.

    Args:
        processes: the processes.
        views: anchors, positives and extra negatives, which begin with ``hard`` columns (N, D).
        context: tensors with entries per sentence, then per extra negative, or tuples of another
            model's embeddings of the views.
        hard: number of columns of hard negatives.
    """
    (anchors, positives, extra), share = views, processes.share
    size = len(anchors)

    def beside(rows: Tensor) -> Tensor:
        """Return hard negatives that this process embedded, and an equal part of the others."""
        columns = [share(column) for column in rows[: hard * size].split(size)]
        return torch.cat([*columns, rows[hard * size :][processes.rank :: processes.count]])

    def mine(rows: Any) -> Any:
        if not isinstance(rows, tuple):
            return torch.cat([share(rows[:size]), beside(rows[size:])])
        of_extra = None if extra is None else 2
        return tuple(beside(one) if at == of_extra else share(one) for at, one in enumerate(rows))

    part = share(anchors), share(positives), None if extra is None else beside(extra)
    return part, {name: mine(value) for name, value in context.items()}


def _leave() -> None:
    """Close connections in order: a process that still listens while another ends may abort."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
