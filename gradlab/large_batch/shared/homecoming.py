"""Gradients of travelling rows."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gradlab.large_batch.shared.processes import GRADIENTS, Processes
from gradlab.large_batch.shared.slots import Slots, Timetable


class Homecoming:
    """Gradients that travel with their rows, a tile at a time, and come home in the end.

    When a tile has its part of this process it is sent on. The next tile of the same place comes into the memory of the one
    that was sent before it.
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
        self.ring = ring
        self._plan = Timetable(sizes, ring.rank, tile)
        self._slots = Slots(self._plan, width, like)
        self._next = 0  # the first tile whose successor has not been asked for
        self._coming: dict[int, list[Any]] = {}
        self._leaving: dict[int, list[Any]] = {}

    def at(self, owner: int, start: int) -> Tensor:
        """Where derivatives by the tile of a process's rows that begins at ``start`` add up."""
        number = self._number(owner, start)
        turn = self._plan.turn(number)
        if turn.step:
            self._ask(number)
            self.ring.finish(self._coming.pop(number))
            return self._slots.at(turn)
        return self._slots.at(turn).zero_()

    def done(self, owner: int, start: int) -> None:
        """Send a tile, and make ready for the one of the next process."""
        number = self._number(owner, start)
        if self.ring.count > 1:
            going = self._slots.at(self._plan.turn(number))
            self._leaving[number] = self.ring.pass_on(going, None, GRADIENTS)
        self._ask(number + 1)

    def arrived(self) -> Tensor:
        """The gradient of this process's own rows, to which all have added."""
        self._ask(self._plan.end)
        for works in (*self._coming.values(), *self._leaving.values()):
            self.ring.finish(works)
        return self._slots.home

    def _number(self, owner: int, start: int) -> int:
        step = (owner - self.ring.rank) % self.ring.count
        return step * self._plan.tiles + start // self._plan.tile

    def _ask(self, end: int) -> None:
        """Receive the successors of all tiles before ``end``, each into memory that has been sent."""
        if self.ring.count == 1:
            return
        for number in range(self._next, end):
            self.ring.finish(self._leaving.pop(number - 1, []))
            coming = self._slots.at(self._plan.turn(number + self._plan.tiles))
            self._coming[number + self._plan.tiles] = self.ring.pass_on(None, coming, GRADIENTS)
        self._next = max(self._next, end)
