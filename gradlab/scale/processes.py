"""Processes that share a batch, and the communication between them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
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

    def collect(self, value: Any) -> list[Any]:
        """Return the values of all processes, in the order of ranks."""
        return [value]

    def total(self, value: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes, computed in place."""
        return value

    def gather(self, own: Tensor, sizes: list[int]) -> Tensor:
        """Return all processes' rows, (Σ sizes, ...), by rank; ``own`` is (sizes[rank], ...)."""
        return own

    def to_owners(self, value: Tensor, sizes: list[int]) -> Tensor:
        """Sum rows (Σ sizes, ...) over processes in place; only this process's part is valid."""
        return value

    def agree(self, mine: dict[str, Any], error: str | None) -> list[dict[str, Any]]:
        """Exchange settings and errors between processes; an error on one process is raised on all.

        Args:
            mine: settings, which must agree unless they are None or their name begins with ``own``.
            error: why this process cannot continue, or None.

        Raises:
            GradlabError: a process cannot continue or has ended, or settings differ.
        """
        everyone = self.collect((mine, error))
        for rank, (_, text) in enumerate(everyone):
            if text is not None:
                raise GradlabError(text if rank == self.rank else f"process {rank}: {text}")
        said = [settings for settings, _ in everyone]
        for name in said[0]:
            given = [(one[name], rank) for rank, one in enumerate(said) if one[name] is not None]
            for value, rank in given if not name.startswith("own ") else ():
                first, where = given[0]
                if value != first:
                    raise GradlabError(
                        f"processes differ in {name}: {first} on process {where}, {value} on "
                        f"process {rank}"
                    )
        return said

    def check(self, like: Tensor, error: str | None) -> None:
        """Raise any process's error on all processes; ``like`` is on the communication's device."""
        if self.count == 1:
            if error is not None:
                raise GradlabError(error)
        elif float(self.total(like.new_full((1,), 0.0 if error is None else 1.0))):
            self.agree({}, error)


class Group(Processes):
    """The processes of a torch.distributed group."""

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
        self.group: Any = dist.group.WORLD if group == "world" else group
        try:
            backend = str(dist.get_backend(self.group))
            self.rank, self.count = dist.get_rank(self.group), dist.get_world_size(self.group)
        except (TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise GradlabError(
                f"group must be 'world' or a process group that this process is in, not {group!r}"
            ) from error
        if not any(name in backend for name in BACKENDS):
            raise GradlabError(
                f"processes must talk over {' or '.join(BACKENDS)}, not over {backend!r}"
            )
        self.backend = "nccl" if "nccl" in backend else "gloo"

    def check_device(self, rows: Tensor) -> None:
        """Raise `GradlabError` unless the backend transfers tensors on the device of ``rows``."""
        if rows.is_cuda != (self.backend == "nccl"):
            raise GradlabError(
                "CUDA tensors travel over NCCL, those of a CPU over gloo; this group has "
                f"{'NCCL' if self.backend == 'nccl' else 'gloo'} and the rows are on {rows.device}"
            )

    def collect(self, value: Any) -> list[Any]:
        """Return the values of all processes, transferred by pickling."""
        everyone: list[Any] = [None] * self.count
        with self._others():
            dist.all_gather_object(everyone, value, group=self.group)
        return everyone

    def total(self, value: Tensor) -> Tensor:
        """Return the sum over all processes, computed in place by an all-reduce."""
        with self._others():
            dist.all_reduce(value, group=self.group)
        return value

    def gather(self, own: Tensor, sizes: list[int]) -> Tensor:
        """Return all rows, broadcast by their owners; an all-gather makes two more copies."""
        found = own.new_empty(sum(sizes), *own.shape[1:])
        found.split(sizes)[self.rank].copy_(own)
        self._with_each(dist.broadcast, found, sizes)
        return found

    def to_owners(self, value: Tensor, sizes: list[int]) -> Tensor:
        """Sum rows over processes in place; each process receives the sum of its own rows."""
        self._with_each(dist.reduce, value, sizes)
        return value

    def _with_each(self, send: Callable[..., Any], value: Tensor, sizes: list[int]) -> None:
        """Run ``send`` on each process's rows, with that process as source or destination."""
        every = enumerate(value.split(sizes))
        with self._others():
            under_way = [
                send(part, dist.get_global_rank(self.group, rank), group=self.group, async_op=True)
                for rank, part in every
                if len(part)
            ]
            for work in under_way:
                work.wait()

    @contextlib.contextmanager
    def _others(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise GradlabError(
                f"process {self.rank} of {self.count} lost touch with another, which has ended "
                f"or hangs: {first_line(error)}"
            ) from error
