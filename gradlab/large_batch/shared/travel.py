"""Tiles that travel around the ring: rows to be looked at by every process, and gradients on their way home."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from gradlab.large_batch.shared.communicator import GRADIENTS, ROWS, Communicator


@dataclasses.dataclass(frozen=True)
class Turn:
    """One tile of the share that a process deals with in one step of a lap.

    Attributes:
        number: of this tile among all of the lap, those that a smaller share lacks counted too.
        step: of the lap; in step s a process deals with the share of the s-th process behind it.
        start: its first row in that share.
        count: its rows; 0 where the share has no such tile.
    """

    number: int
    step: int
    start: int
    count: int

    @property
    def rows(self) -> slice:
        """Its rows in the share."""
        return slice(self.start, self.start + self.count)


class Timetable:
    """The tiles of a lap in their order.

    Attributes:
        tiles: of the largest share, T.
        end: how many tiles a lap has.
        home: the number of the tile with which this process's share is complete: of the step after the last.
    """

    def __init__(self, sizes: list[int], rank: int, tile: int) -> None:
        """``sizes`` are the rows of each process, ``tile`` those of a tile."""
        self.sizes, self.rank, self.tile = sizes, rank, tile
        self.tiles = -(-max(sizes) // tile)
        self.end = self.tiles * len(sizes)
        self.home = 0 if len(sizes) == 1 else self.end

    def turn(self, number: int) -> Turn:
        """A tile, also of the step after the last, in which the shares are home again."""
        step, place = divmod(number, self.tiles)
        size, start = self.sizes[(self.rank + step) % len(self.sizes)], place * self.tile
        return Turn(number, step, start, max(0, min(self.tile, size - start)))


class Slots:
    """Room for a share and one tile: tile k takes the memory of tile k - T - 1, which by then has been sent on.

    At the end of a lap the tiles that come home lie in their order.
    """

    def __init__(self, timetable: Timetable, width: int, like: Tensor) -> None:
        """Rows of ``width`` coordinates, of the dtype and device of ``like``."""
        self.timetable = timetable
        self._rows = min(timetable.tile, max(timetable.sizes))
        self._memory = like.new_empty(self._rows * (timetable.tiles + 1), width)

    def at(self, turn: Turn) -> Tensor:
        """The memory of a tile."""
        slot = (turn.number - self.timetable.home) % (self.timetable.tiles + 1)
        return self._memory[slot * self._rows :][: turn.count]

    @property
    def home(self) -> Tensor:
        """This process's own share at the end of a lap."""
        return self._memory[: self.timetable.sizes[self.timetable.rank]]


def lap(
    ring: Communicator, rows: list[Tensor], sizes: list[int], tile: int
) -> Iterator[tuple[int, slice, list[Tensor]]]:
    """Tiles of each process's rows in turn, with its rank and their place, beginning with the own.

    A tile is sent on while it is used. Its memory then takes a tile of the next share, so that a share and a tile are held.

    Args:
        ring: the processes.
        rows: of this process, one or more tensors (k, D).
        sizes: how many rows each process has.
        tile: rows of a tile.
    """
    plan = Timetable(sizes, ring.rank, tile)
    slots = [] if ring.count == 1 else [Slots(plan, part.shape[1], part) for part in rows]
    coming: dict[int, list[Any]] = {}

    def expect(number: int) -> None:
        if number < plan.end:
            turn = plan.turn(number)
            coming[number] = [work for one in slots for work in ring.pass_on(None, one.at(turn), ROWS)]

    for number in range(plan.tiles, 2 * plan.tiles + 1):
        expect(number)
    for number in range(plan.end):
        turn = plan.turn(number)
        ring.finish(coming.pop(number, []))
        parts = [one.at(turn) for one in slots] if turn.step else [part[turn.rows] for part in rows]
        going = parts if turn.step < ring.count - 1 else []
        works = [work for part in going for work in ring.pass_on(part, None, ROWS)]
        if turn.count:
            yield (ring.rank + turn.step) % ring.count, turn.rows, parts
        ring.finish(works)
        if turn.step:
            expect(number + plan.tiles + 1)


class Homecoming:
    """Gradients that travel with their rows, a tile at a time, and come home in the end.

    When a tile has its part of this process it is sent on. The next tile of the same place comes into the memory of the one
    that was sent before it.
    """

    def __init__(self, ring: Communicator, sizes: list[int], width: int, tile: int, like: Tensor) -> None:
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
