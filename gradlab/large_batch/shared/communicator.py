"""Processes that share a batch: what they tell each other, and what they send to the next in a ring."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gradlab.errors import GradlabError

BACKENDS = ("gloo", "nccl")
# Tags tell what travels apart.
ROWS, MAIL, GRADIENTS = 1, 2, 3


def several_processes() -> bool:
    """Whether torch.distributed has met, and there are other processes."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


class Told(GradlabError):
    """An error that all processes raise together."""


def words_of(problem: Exception) -> str:
    """What is to be told of an error, in one line."""
    text = " ".join(str(problem).split())
    return text if isinstance(problem, GradlabError) else f"{type(problem).__name__}: {text}"


class Communicator(abc.ABC):
    """This process's place among those that share a batch, and what they tell each other.

    Attributes:
        rank: of this process.
        count: P.
        carries_cuda: whether CUDA tensors can be sent, and only they.
    """

    rank: int = 0
    count: int = 1
    carries_cuda: bool = False

    @abc.abstractmethod
    def collect(self, value: Any) -> list[Any]:
        """What every process has to say, in the order of the ranks."""

    @abc.abstractmethod
    def total(self, value: Tensor) -> Tensor:
        """The sum of a tensor over the processes, in place."""

    @abc.abstractmethod
    def largest(self, value: Tensor) -> Tensor:
        """The largest of each entry over the processes, in place."""

    @abc.abstractmethod
    def send(self, rows: Tensor, to: int, tag: int) -> Any:
        """Start sending; the work has a ``wait``."""

    @abc.abstractmethod
    def receive(self, rows: Tensor, source: int, tag: int) -> Any:
        """Start receiving; the work has a ``wait``."""

    def agree(self, mine: dict[str, Any], error: str | None) -> list[dict[str, Any]]:
        """What every process has to say; raises the same error everywhere if one has one or they differ.

        Args:
            mine: settings, which must be the same everywhere but for those whose name begins with ``own``; None where one
                is no matter.
            error: why this process cannot go on.

        Raises:
            GradlabError: see there; also if a process is gone.
        """
        everyone = self.collect((mine, error))
        self._raise_first([text for _, text in everyone])
        said = [settings for settings, _ in everyone]
        for name in said[0]:
            given = [(one[name], rank) for rank, one in enumerate(said) if one[name] is not None]
            for value, rank in given if not name.startswith("own ") else ():
                first, where = given[0]
                if value != first:
                    raise Told(
                        f"processes differ in {name}: {first} on process {where}, {value} on process {rank}"
                    )
        return said

    def step(self, like: Tensor, error: str | None = None) -> None:
        """To be called before whatever all processes do together, and once by a process that cannot go on.

        Args:
            like: says on which device.
            error: why it cannot.

        Raises:
            GradlabError: on all processes, that of the first that cannot go on.
        """
        if self.count == 1:
            if error is not None:
                raise GradlabError(error)
            return
        if float(self.total(like.new_tensor([0.0 if error is None else 1.0], dtype=torch.float32))):
            self._raise_first(self.collect(error))

    def _raise_first(self, texts: list[str | None]) -> None:
        for rank, text in enumerate(texts):
            if text is not None:
                raise Told(text if rank == self.rank else f"process {rank}: {text}")

    def gather(self, own: Tensor, sizes: list[int]) -> Tensor:
        """The entries of all processes, (Σ sizes, ...), in the order of the ranks; of which this one has (sizes[rank], ...)."""
        if self.count == 1:
            return own
        every = own.new_zeros(sum(sizes), *own.shape[1:])
        start = sum(sizes[: self.rank])
        every[start : start + sizes[self.rank]] = own
        return self.total(every)

    def pass_on(self, going: Tensor | None, coming: Tensor | None, tag: int) -> list[Any]:
        """Start sending to the process before, and receiving from the one behind; nothing of size 0 is sent."""
        before, behind = ((self.rank + step) % self.count for step in (-1, 1))
        works = []
        if coming is not None and coming.numel():
            works.append(self.receive(coming, behind, tag))
        if going is not None and going.numel():
            works.append(self.send(going, before, tag))
        return works

    def swap(self, going: Tensor, to: int, coming: Tensor, source: int) -> Tensor:
        """Send rows to one process and get rows from another into ``coming``, which it returns; nothing of size 0 is sent."""
        if to == self.rank:
            return going
        works = [self.send(going, to, MAIL)] if going.numel() else []
        if coming.numel():
            works.append(self.receive(coming, source, MAIL))
        self.finish(works)
        return coming

    def finish(self, works: list[Any]) -> None:
        """Wait for what was started."""
        with self.lost():
            for work in works:
                work.wait()

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


class Alone(Communicator):
    """One process, which shares with nobody."""

    def collect(self, value: Any) -> list[Any]:
        """Its own."""
        return [value]

    def total(self, value: Tensor) -> Tensor:
        """As it is."""
        return value

    def largest(self, value: Tensor) -> Tensor:
        """As it is."""
        return value

    def send(self, rows: Tensor, to: int, tag: int) -> Any:
        """There is nobody."""
        raise AssertionError

    def receive(self, rows: Tensor, source: int, tag: int) -> Any:
        """There is nobody."""
        raise AssertionError


class Ring(Communicator):
    """The processes of a group of torch.distributed."""

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

    def collect(self, value: Any) -> list[Any]:
        """By pickling."""
        everyone: list[Any] = [None] * self.count
        with self.lost():
            dist.all_gather_object(everyone, value, group=self.group)
        return everyone

    def total(self, value: Tensor) -> Tensor:
        """By an all-reduce."""
        with self.lost():
            dist.all_reduce(value, group=self.group)
        return value

    def largest(self, value: Tensor) -> Tensor:
        """By an all-reduce."""
        with self.lost():
            dist.all_reduce(value, dist.ReduceOp.MAX, group=self.group)
        return value

    def send(self, rows: Tensor, to: int, tag: int) -> Any:
        """To a rank of the group."""
        with self.lost():
            return dist.isend(rows, dist.get_global_rank(self.group, to), group=self.group, tag=tag)

    def receive(self, rows: Tensor, source: int, tag: int) -> Any:
        """From a rank of the group."""
        with self.lost():
            return dist.irecv(rows, dist.get_global_rank(self.group, source), group=self.group, tag=tag)


def _over(ring: Communicator, function: type[torch.autograd.Function], values: Tensor) -> Tensor:
    """What a function makes of the values of all processes; of one process's these values."""
    found: Tensor = values if ring.count == 1 else function.apply(values, ring)
    return found


def gathered(ring: Communicator, values: Tensor) -> Tensor:
    """What each process has, (Σ n, ...), in their order, with gradient."""
    return _over(ring, _Gathered, values)


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, ring: Communicator) -> Tensor:
        sizes = ring.collect(len(own))
        start = sum(sizes[: ring.rank])
        ctx.ring, ctx.rows = ring, slice(start, start + len(own))
        return ring.gather(own.contiguous(), sizes)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        return ctx.ring.total(upstream.clone())[ctx.rows], None


def summed(ring: Communicator, values: Tensor) -> Tensor:
    """The sum over the processes, with gradient."""
    return _over(ring, _Total, values)


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, ring: Communicator) -> Tensor:
        ctx.ring = ring
        return ring.total(own.clone())

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        return ctx.ring.total(upstream.clone()), None
