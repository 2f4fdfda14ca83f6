"""Processes in a ring: rows travel from each to the next, sent while products are made, and gradients come home."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch.distributed as dist
from torch import Tensor

from gradlab.errors import GradlabError

BACKENDS = ("gloo", "nccl")
# Tags tell what travels apart.
ROWS, GRADIENTS = 1, 2


class Ring:
    """This process's place among the processes of a group.

    Attributes:
        rank: of this process in the group.
        count: P.
    """

    def __init__(self, group: Any) -> None:
        """``group`` is a process group, or ``"world"`` for all processes.

        Raises:
            GradlabError: there are no processes, or they talk over a backend that this does not know.
        """
        if not (dist.is_available() and dist.is_initialized()):
            raise GradlabError(
                "group= needs processes that have met: start them with torchrun or accelerate launch, and call "
                "torch.distributed.init_process_group"
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
            raise GradlabError(f"the ring runs over {' or '.join(BACKENDS)}, not over {backend!r}")
        self.carries_cuda = "nccl" in backend

    def agree(self, mine: dict[str, Any], error: str | None) -> list[dict[str, Any]]:
        """What every process has to say; raises the same error everywhere if one has one or they differ.

        Args:
            mine: settings, which must be the same everywhere but for those whose name begins with ``own``.
            error: why this process cannot go on.

        Raises:
            GradlabError: see there; also if a process is gone.
        """
        everyone: list[Any] = [None] * self.count
        with self.lost():
            dist.all_gather_object(everyone, (mine, error), group=self.group)
        for rank, (_, text) in enumerate(everyone):
            if text is not None:
                raise GradlabError(text if rank == self.rank else f"process {rank}: {text}")
        said = [settings for settings, _ in everyone]
        for name, value in said[0].items():
            for rank, other in enumerate(said):
                if not name.startswith("own") and other[name] != value:
                    raise GradlabError(
                        f"processes differ in {name}: {value} on process 0, {other[name]} on process {rank}"
                    )
        return said

    def total(self, value: Tensor) -> Tensor:
        """The sum of a tensor over the processes, in place."""
        with self.lost():
            dist.all_reduce(value, group=self.group)
        return value

    def lap(self, rows: Tensor, sizes: list[int]) -> Iterator[tuple[int, Tensor]]:
        """Each process's rows in turn, (k, D), with its rank, beginning with the own; the next are on their way meanwhile.

        Args:
            rows: of this process.
            sizes: how many rows each process has.
        """
        current = rows
        for step in range(self.count):
            owner = (self.rank + step) % self.count
            coming, works = current, []
            if step < self.count - 1:
                coming = rows.new_empty(sizes[(owner + 1) % self.count], rows.shape[1])
                works = self.pass_on(current, coming, ROWS)
            yield owner, current
            self.finish(works)
            current = coming

    def pass_on(self, going: Tensor | None, coming: Tensor | None, tag: int) -> list[Any]:
        """Start sending to the process before, and receiving from the one behind; nothing of size 0 is sent."""
        before, behind = (self._address(self.rank + step) for step in (-1, 1))
        works = []
        with self.lost():
            if coming is not None and coming.numel():
                works.append(dist.irecv(coming, behind, group=self.group, tag=tag))
            if going is not None and going.numel():
                works.append(dist.isend(going, before, group=self.group, tag=tag))
        return works

    def finish(self, works: list[Any]) -> None:
        """Wait for what was started."""
        with self.lost():
            for work in works:
                work.wait()

    def _address(self, rank: int) -> int:
        return dist.get_global_rank(self.group, rank % self.count)

    @contextlib.contextmanager
    def lost(self) -> Iterator[None]:
        """Says in one line that another process is gone.

        Raises:
            GradlabError: that.
        """
        try:
            yield
        except RuntimeError as error:
            first = str(error).strip().splitlines()[0]
            raise GradlabError(
                f"process {self.rank} of {self.count} lost touch with another, which has ended or hangs: {first}"
            ) from error
