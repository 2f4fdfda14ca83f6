"""Memory in which the tiles of one process's share after another's lie for a while."""

from __future__ import annotations

import dataclasses

from torch import Tensor


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
