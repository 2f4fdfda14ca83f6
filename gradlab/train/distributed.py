"""How do several processes train as one?

They share the rows of a batch, gather embeddings and average gradients. They agree on errors and on
when to stop, and only the main process reads and writes the run folder, which the others may not
have.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from gradlab.encoder.model import find_device
from gradlab.errors import GradlabError, first_line
from gradlab.losses.base import Loss
from gradlab.scale.blockwise import BlockwiseLoss
from gradlab.settings.module import learned_settings

# Anchors (N, D), positives (N, D) and extra negatives (M, D) or None.
Views = tuple[Tensor, Tensor, Tensor | None]
T = TypeVar("T")


@dataclass(frozen=True)
class RunProcesses:
    """The processes of a run, started by ``accelerate launch`` or ``torchrun``; usually one."""

    rank: int  # number of this process
    count: int  # number of processes
    device: torch.device  # where this process computes

    @classmethod
    def start(cls, device: str) -> RunProcesses:
        """Join the processes that a launcher started, if any; for ``device`` see `find_device`."""
        torch_device = find_device(device)
        if launched() == 1:
            if torch_device.type == "cuda" and torch_device.index is not None:
                # Its random generator is saved and restored from here on.
                torch.cuda.set_device(torch_device)
            return cls(0, 1, torch_device)
        from accelerate import PartialState

        state = PartialState(cpu=torch_device.type == "cpu")
        atexit.register(_leave)
        if torch_device.type == "cuda":
            torch_device = torch.device("cuda", state.local_process_index)
        return cls(state.process_index, state.num_processes, torch_device)

    @property
    def is_main(self) -> bool:
        """True in the process that writes files and prints messages."""
        return self.rank == 0

    def share(self, rows: Any) -> Any:
        """Return this process's part of a batch's rows."""
        return rows[self.part(len(rows))]

    def part(self, size: int) -> slice:
        """Return where this process's rows of a batch are: equal parts, in the order of ranks."""
        own = size // self.count
        return slice(self.rank * own, (self.rank + 1) * own)

    def gather(self, rows: Tensor) -> Tensor:
        """Return the rows of all processes, by rank; gradient flows only into this process's rows.

        The sum of the processes' gradients is that of the whole batch. Multiply the loss by
        :attr:`count` if gradients are averaged, as by DistributedDataParallel.
        """
        if self.count == 1:
            return rows
        shares = [torch.empty_like(rows) for _ in range(self.count)]
        torch.distributed.all_gather(shares, rows.detach().contiguous())
        shares[self.rank] = rows
        return torch.cat(shares)

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
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
        flat = nn.utils.parameters_to_vector(gradients)
        torch.distributed.all_reduce(flat)
        nn.utils.vector_to_parameters(flat / self.count, gradients)
        for parameter, gradient in zip(trained, gradients, strict=True):
            parameter.grad = gradient

    def any(self, flag: bool) -> bool:
        """Return whether ``flag`` is true in any process; all call this at the same step."""
        if self.count == 1:
            return flag
        flags = torch.tensor(int(flag), device=self.device)
        torch.distributed.all_reduce(flags, torch.distributed.ReduceOp.MAX)
        return bool(flags)

    def collect(self, content: T) -> list[T]:
        """Return ``content`` of every process, at every process."""
        contents = [content] * self.count
        if self.count > 1:
            torch.distributed.all_gather_object(contents, content)
        return contents

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Raise an error of the block in all processes if it is raised in any.

        Otherwise one process would end, and the others wait for it for ever. The block itself must
        not wait for other processes.
        """
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            failure = error
        messages = self.collect(None if failure is None else first_line(failure))
        if failure is not None:
            raise failure
        for rank, message in enumerate(messages):
            if message is not None:
                raise GradlabError(f"process {rank} of {self.count}: {message}")

    def from_main(self, action: Callable[[], T]) -> T:
        """Return at every process what ``action`` returns in the main one; so with its error."""
        contents: list[Any] = [None]
        with self.together():
            if self.is_main:
                contents = [action()]
        if self.count > 1:
            torch.distributed.broadcast_object_list(contents)
        content: T = contents[0]
        return content

    def tensors_from_main(self, loader: Callable[[], Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Return the tensors that ``loader`` returns in the main process, at every process."""
        if self.count == 1:
            return dict(loader())
        tensors: Mapping[str, Tensor] = {}

        def layout() -> list[tuple[str, torch.Size, torch.dtype]]:
            nonlocal tensors
            tensors = loader()
            return [(name, tensor.shape, tensor.dtype) for name, tensor in tensors.items()]

        received = {}
        for name, shape, dtype in self.from_main(layout):
            tensor = tensors[name] if self.is_main else torch.empty(shape, dtype=dtype)
            # As bytes, which every backend sends.
            content = tensor.contiguous().reshape(-1).view(torch.uint8).to(self.device)
            torch.distributed.broadcast(content, src=0)
            received[name] = content.cpu().view(dtype).reshape(shape)
        return received

    def wait(self) -> None:
        """Wait until all processes have reached this point."""
        if self.count > 1:
            torch.distributed.barrier()


def launched() -> int:
    """Return the number of processes that a launcher started, from its environment; usually 1."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def prints() -> bool:
    """Return whether this process prints messages: the main one of those that were launched."""
    return int(os.environ.get("RANK", "0")) == 0


def shared_loss(loss: Loss, processes: RunProcesses) -> BlockwiseLoss | None:
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
    processes: RunProcesses, views: Views, context: Mapping[str, Any], hard: int = 0
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

    def of_extra(rows: Tensor) -> Tensor:
        """Return hard negatives that this process embedded, and an equal part of the others."""
        columns = [share(column) for column in rows[: hard * size].split(size)]
        return torch.cat([*columns, rows[hard * size :][processes.rank :: processes.count]])

    def own(rows: Any) -> Any:
        if not isinstance(rows, tuple):
            return torch.cat([share(rows[:size]), of_extra(rows[size:])])
        extra_index = None if extra is None else 2
        return tuple(
            of_extra(view) if index == extra_index else share(view)
            for index, view in enumerate(rows)
        )

    own_views = (
        share(anchors),
        share(positives),
        None if extra is None else of_extra(extra),
    )
    return own_views, {name: own(rows) for name, rows in context.items()}


def _leave() -> None:
    """Close connections in order: a process that still listens while another ends may abort."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
