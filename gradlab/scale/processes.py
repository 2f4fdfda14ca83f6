"""Processes that share a batch, and the communication between them."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch.distributed as dist
from torch import Tensor

from gradlab.errors import GradlabError, first_line

BACKENDS = ("gloo", "nccl")


def several_processes() -> bool:
    """Whether torch.distributed is initialised with more than one process."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


class Processes:
    """A single process, which communicates with no other.

    Attributes:
        rank: the rank of this process.
        count: the number of processes P.
    """

    rank: int = 0
    count: int = 1

    def collect(self, message: Any) -> list[Any]:
        """Return the messages of all processes, in the order of ranks."""
        return [message]

    def total(self, addend: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes, computed in place."""
        return addend

    def gather(self, share: Tensor, sizes: list[int]) -> Tensor:
        """Return all processes' rows, (Σ sizes, ...), by rank; ``share`` is (sizes[rank], ...)."""
        return share

    def to_owners(self, rows: Tensor, sizes: list[int]) -> Tensor:
        """Sum rows (Σ sizes, ...) over processes in place; only this process's share is valid."""
        return rows

    def agree(
        self, must_agree: Mapping[str, Any], local: Mapping[str, Any], error: str | None
    ) -> list[Mapping[str, Any]]:
        """Exchange settings and errors between processes; an error on one process is raised on all.

        Args:
            must_agree: settings that must be equal on all processes that know them: a name that is
                missing, or None, is not compared. A difference is the cause of errors beside it.
            local: settings that may differ.
            error: why this process cannot continue, or None.

        Returns:
            The local settings of all processes.

        Raises:
            GradlabError: settings differ, or a process cannot continue or has ended.
        """
        messages = self.collect((must_agree, local, error))
        for name in dict.fromkeys(name for shared, _, _ in messages for name in shared):
            settings = [
                (rank, shared[name])
                for rank, (shared, _, _) in enumerate(messages)
                if shared.get(name) is not None
            ]
            for rank, setting in settings[1:]:
                first_rank, first_setting = settings[0]
                if setting != first_setting:
                    raise GradlabError(
                        f"processes differ in {name}: {first_setting} on process {first_rank}, "
                        f"{setting} on process {rank}"
                    )
        for rank, (_, _, text) in enumerate(messages):
            if text is not None:
                raise GradlabError(text if rank == self.rank else f"process {rank}: {text}")
        return [settings for _, settings, _ in messages]

    def check(self, like: Tensor, error: str | None) -> None:
        """Raise any process's error on all processes; ``like`` is on the communication's device."""
        if self.count == 1:
            if error is not None:
                raise GradlabError(error)
        elif float(self.total(like.new_full((1,), 0.0 if error is None else 1.0))):
            self.agree({}, {}, error)


class ProcessGroup(Processes):
    """The processes of a torch.distributed group.

    The group is referenced weakly: a graph that outlives ``destroy_process_group()`` must not keep
    its threads, which abort the interpreter at exit.
    """

    def __init__(self, group: Any) -> None:
        """Join a process group, or ``"world"`` for all processes.

        Raises:
            GradlabError: there are no processes, or their backend is neither gloo nor NCCL.
        """
        if not (dist.is_available() and dist.is_initialized()):
            raise GradlabError(
                "group= needs processes that have met: start them with torchrun or accelerate "
                "launch, and call torch.distributed.init_process_group"
            )
        if group is None:
            raise GradlabError("the process group has been destroyed")
        members = dist.group.WORLD if group == "world" else group
        try:
            backend = str(dist.get_backend(members))
            self.rank, self.count = dist.get_rank(members), dist.get_world_size(members)
            self._reference = weakref.ref(members)
        except (TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise GradlabError(
                f"group must be 'world' or a process group that this process is in, not {group!r}"
            ) from error
        if not any(name in backend for name in BACKENDS):
            raise GradlabError(
                f"processes must talk over {' or '.join(BACKENDS)}, not over {backend!r}"
            )
        self.backend = "nccl" if "nccl" in backend else "gloo"

    @property
    def group(self) -> Any:
        """The process group of torch.distributed.

        Raises:
            GradlabError: the group has been destroyed.
        """
        group = self._reference()
        if group is None:
            raise GradlabError(
                "the process group has been destroyed; call backward before "
                "torch.distributed.destroy_process_group"
            )
        return group

    def check_device(self, rows: Tensor) -> None:
        """Raise `GradlabError` unless the backend transfers tensors on the device of ``rows``."""
        if rows.is_cuda != (self.backend == "nccl"):
            raise GradlabError(
                "CUDA tensors travel over NCCL, those of a CPU over gloo; this group has "
                f"{'NCCL' if self.backend == 'nccl' else 'gloo'} and the rows are on {rows.device}"
            )

    def collect(self, message: Any) -> list[Any]:
        """Return the messages of all processes, transferred by pickling."""
        messages: list[Any] = [None] * self.count
        with self._communicating() as group:
            dist.all_gather_object(messages, message, group=group)
        return messages

    def total(self, addend: Tensor) -> Tensor:
        """Return the sum over all processes, computed in place by an all-reduce."""
        with self._communicating() as group:
            dist.all_reduce(addend, group=group)
        return addend

    def gather(self, share: Tensor, sizes: list[int]) -> Tensor:
        """Return all rows, broadcast by their owners; an all-gather makes two more copies."""
        rows = share.new_empty(sum(sizes), *share.shape[1:])
        rows.split(sizes)[self.rank].copy_(share)
        self._with_each_owner(dist.broadcast, rows, sizes)
        return rows

    def to_owners(self, rows: Tensor, sizes: list[int]) -> Tensor:
        """Sum rows over processes in place; each process receives the sum of its own rows."""
        self._with_each_owner(dist.reduce, rows, sizes)
        return rows

    def _with_each_owner(self, send: Callable[..., Any], rows: Tensor, sizes: list[int]) -> None:
        """Run ``send`` on each process's rows, with that process as source or destination."""
        with self._communicating() as group:
            transfers = [
                send(share, dist.get_global_rank(group, rank), group=group, async_op=True)
                for rank, share in enumerate(rows.split(sizes))
                if len(share)
            ]
            for transfer in transfers:
                transfer.wait()

    @contextlib.contextmanager
    def _communicating(self) -> Iterator[Any]:
        try:
            yield self.group
        except RuntimeError as error:
            raise GradlabError(
                f"process {self.rank} of {self.count} lost touch with another, which has ended "
                f"or hangs: {first_line(error)}"
            ) from error
