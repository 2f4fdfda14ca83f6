"""Gradients of travelling rows."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gradlab.large_batch.shared.processes import GRADIENTS, Processes


class Homecoming:
    """Gradients that travel with their rows, a tile at a time, and come home in the end.

    There are two buffers. To one of them a lap's step adds; from the other leaves what the step before has added to, and its
    memory then takes what comes for the next step.
    """

    def __init__(self, ring: Processes, sizes: list[int], width: int, tile: int, like: Tensor) -> None:
        """Room for gradients.

        Args:
            ring: the processes.
            sizes: rows of each.
            width: coordinates of a row.
            tile: rows of a tile.
            like: a tensor of the dtype and device.
        """
        self.ring, self.sizes, self.tile = ring, sizes, tile
        count = 1 if ring.count == 1 else 2
        self._buffers = [like.new_empty(max(sizes), width) for _ in range(count)]
        self._buffers[0].zero_()
        self._expected: set[tuple[int, int]] = set()
        self._coming: dict[tuple[int, int], list[Any]] = {}
        self._leaving: dict[tuple[int, int], list[Any]] = {}

    def at(self, owner: int, start: int) -> Tensor:
        """Where derivatives by the tile of a process's rows that begins at ``start`` add up."""
        step = (owner - self.ring.rank) % self.ring.count
        if step:
            self._expect_all(step)
            self.ring.finish(self._coming.pop((step, start), []))
        return self._rows(step, start)

    def done(self, owner: int, start: int) -> None:
        """Send a tile, and make ready for the next process's."""
        if self.ring.count == 1:
            return
        step = (owner - self.ring.rank) % self.ring.count
        self._leaving[step % 2, start] = self.ring.pass_on(self._rows(step, start), None, self._tag(start))
        self._expect(step + 1, start)

    def arrived(self) -> Tensor:
        """The gradient of this process's own rows, to which all have added."""
        last = self.ring.count % 2 if self.ring.count > 1 else 0
        if self.ring.count > 1:
            self._expect_all(self.ring.count)
            for works in (*self._coming.values(), *self._leaving.values()):
                self.ring.finish(works)
        return self._buffers[last][: self.sizes[self.ring.rank]]

    def _expect_all(self, step: int) -> None:
        for start in range(0, self._size(step), self.tile):
            self._expect(step, start)

    def _expect(self, step: int, start: int) -> None:
        """Receive a tile into memory that has been sent."""
        if start >= self._size(step) or (step, start) in self._expected:
            return
        self._expected.add((step, start))
        self.ring.finish(self._leaving.pop((step % 2, start), []))
        self._coming[step, start] = self.ring.pass_on(None, self._rows(step, start), self._tag(start))

    def _rows(self, step: int, start: int) -> Tensor:
        buffer = self._buffers[step % 2 if self.ring.count > 1 else 0]
        return buffer[start : min(start + self.tile, self._size(step))]

    def _size(self, step: int) -> int:
        return self.sizes[(self.ring.rank + step) % self.ring.count]

    def _tag(self, start: int) -> int:
        return GRADIENTS + start // self.tile
