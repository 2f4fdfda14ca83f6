"""Processes that are threads of one: to try a loss on a shared batch where no processes are."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gradlab.large_batch.shared.communicator import Communicator

# Seconds that one waits for another, and after which it looks whether that has failed.
PATIENCE, LOOK = 60.0, 0.1


class _OtherFailedError(Exception):
    """Another thread has failed, so that nothing comes from it; no RuntimeError, which would count as a lost process."""


class _Post:
    """What threads leave for each other."""

    def __init__(self, count: int) -> None:
        self.count, self.barrier = count, threading.Barrier(count)
        self.said: list[Any] = [None] * count
        self._boxes: dict[Any, queue.SimpleQueue[Tensor]] = {}
        self._opening = threading.Lock()

    def box(self, source: int, to: int, tag: int) -> queue.SimpleQueue[Tensor]:
        """Where one leaves what the other takes; who comes first makes it, and both have the same."""
        with self._opening:
            if (source, to, tag) not in self._boxes:
                self._boxes[source, to, tag] = queue.SimpleQueue()
            return self._boxes[source, to, tag]

    def take(self, box: queue.SimpleQueue[Tensor]) -> Tensor:
        """What has been left there.

        Raises:
            _OtherFailedError: another thread has failed.
            TimeoutError: nothing came.
        """
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                return box.get(timeout=LOOK)
            except queue.Empty:
                if self.barrier.broken:
                    raise _OtherFailedError from None
        raise TimeoutError(f"nothing came from another thread for {PATIENCE:g} s")


class Threads(Communicator):
    """One of the threads."""

    def __init__(self, rank: int, post: _Post) -> None:
        """``post`` is shared by all."""
        self.rank, self.count, self._post = rank, post.count, post

    def collect(self, value: Any) -> list[Any]:
        """When all have come."""
        self._post.said[self.rank] = value
        self._post.barrier.wait(PATIENCE)
        found = list(self._post.said)
        self._post.barrier.wait(PATIENCE)
        return found

    def total(self, value: Tensor) -> Tensor:
        """The sum, in place."""
        return value.copy_(torch.stack(self.collect(value.clone())).sum(0))

    def largest(self, value: Tensor) -> Tensor:
        """The largest, in place."""
        return value.copy_(torch.stack(self.collect(value.clone())).amax(0))

    def send(self, rows: Tensor, to: int, tag: int) -> Any:
        """Into the other's mail."""
        self._post.box(self.rank, to, tag).put(rows.clone())
        return _Done()

    def receive(self, rows: Tensor, source: int, tag: int) -> Any:
        """From one's own."""
        return _Coming(rows, self._post, self._post.box(source, self.rank, tag))


class _Done:
    def wait(self) -> None:
        pass


class _Coming:
    def __init__(self, rows: Tensor, post: _Post, box: queue.SimpleQueue[Tensor]) -> None:
        self.rows, self._post, self._box = rows, post, box

    def wait(self) -> None:
        self.rows.copy_(self._post.take(self._box))


def in_threads(count: int, work: Callable[[Communicator], Any]) -> list[Any]:
    """What ``work`` returns on each of ``count`` threads.

    Raises:
        Exception: that of the first thread that has one.
    """
    post = _Post(count)
    found: list[Any] = [None] * count
    errors: list[Exception | None] = [None] * count

    def run(rank: int) -> None:
        try:
            found[rank] = work(Threads(rank, post))
        except Exception as error:  # raised below
            errors[rank] = error
            post.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    causes = [error for error in errors if error is not None]
    if causes:
        follows = threading.BrokenBarrierError, _OtherFailedError
        raise next((one for one in causes if not isinstance(one, follows)), causes[0])
    return found
