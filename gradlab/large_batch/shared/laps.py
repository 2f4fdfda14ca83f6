"""Laps of columns around the ring: one for summaries of rows, one for the gradients that they carry; see `one_lap` for those of one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from gradlab.large_batch.products import FEWEST_ROWS, default_block_size, slices
from gradlab.large_batch.shared.keys import Side
from gradlab.large_batch.shared.one_lap import Means, OfAll
from gradlab.large_batch.shared.session import Session, Use
from gradlab.large_batch.shared.stats import Each, LogSumExp, Stat, Sum, Sums
from gradlab.large_batch.shared.tile import Tile, TileNegatives
from gradlab.large_batch.shared.travel import Homecoming, lap

# Columns of one tile: with the rows of a block they bound the memory of the products, whatever a share is.
TILE = 2048


def fit_one_tile(rows: int) -> bool:
    """Whether a product of all these rows is small enough to be one tile, and to be held."""
    return rows <= min(FEWEST_ROWS, TILE)


def first_laps(session: Session, asked: dict[Stat, list[Side]], block_size: int | None) -> None:
    """Make summaries; those of one product in one lap.

    Args:
        session: the batch.
        asked: the summaries, and the sides whose rows have to travel for each.
        block_size: rows of a block, or None.
    """
    sums = {stat: stat.start(session) for stat in asked}
    products: dict[Any, list[tuple[Stat, int]]] = {}
    for stat, sides in asked.items():
        for place, part in enumerate(stat.family.parts):
            first, second = part.product
            others = tuple(side for side in sides if side != second) if _travels_more(stat) else ()
            key = (first, (second, *others), part.own)
            products.setdefault(key, []).append((stat, place))
    for (first, travelling, _), jobs in products.items():
        stats = [stat for stat, _ in jobs]
        _first_lap(_tiles(session, first, list(travelling), block_size, stats), jobs, sums)
    session.memory.clear()  # of the tiles
    for stat, found in sums.items():
        session.learn(stat, found.finish())


def _first_lap(tiles: Iterable[Tile], jobs: list[tuple[Stat, int]], sums: dict[Stat, Sum]) -> None:
    """Add tiles to summaries; nothing here holds the last of them afterwards."""
    for tile in tiles:
        for at, (stat, place) in enumerate(jobs):
            sums[stat].add(TileNegatives(tile, stat.family, place, spare=at == len(jobs) - 1))


def _travels_more(stat: Stat) -> bool:
    """Whether tiles need other rows than those of their product: weights of views, and the rules of a guide."""
    return isinstance(stat, Sums | Means) or bool(stat.family.rules)


def _mirrors(session: Session, stat: Stat) -> bool:
    """Whether it takes a tile within a view for both orders of its pairs, of which half the products are left out."""
    return isinstance(stat, OfAll) and (stat.moving or not session.one_tile)


def _width(session: Session, second: Side, stats: Iterable[Stat]) -> int:
    """Columns of a tile; weights of views see whole rows where one process has them."""
    whole = session.ring.count == 1 and any(isinstance(stat, Means) for stat in stats)
    return session.sizes(second)[0] if whole else TILE


def _few(session: Session, first: Side) -> int | None:
    """Rows of a block of which several arrays are made: on a CPU to stay in a core's own cache, and to be no more than a small share."""
    if session.device.type != "cpu":
        return None
    return max(FEWEST_ROWS // 2, min(FEWEST_ROWS, session.rows[first].numel() // TILE))


def _tiles(
    session: Session, first: Side, travelling: list[Side], block_size: int | None, stats: list[Stat]
) -> Iterator[Tile]:
    tile = _width(session, travelling[0], stats)
    mirrored = first == travelling[0] and all(_mirrors(session, stat) for stat in stats)
    if session.one_tile and not mirrored:
        block_size = len(session.rows[first])
    block_size = block_size or _few(session, first)
    for owner, columns, moved in _lap(session, travelling, tile):
        for rows, memory in _blocks(session, first, travelling[0], block_size, tile):
            if not (mirrored and owner == session.ring.rank):
                yield Tile(session, rows, owner, columns, moved, memory)
            elif (left := max(0, rows.start - columns.start)) < columns.stop - columns.start:
                later = {side: part[left:] for side, part in moved.items()}
                kept = slice(columns.start + left, columns.stop)
                yield Tile(session, rows, owner, kept, later, memory, mirrored=True)


def _lap(
    session: Session, travelling: list[Side], tile: int
) -> Iterator[tuple[int, slice, dict[Side, Tensor]]]:
    sizes = session.sizes(travelling[0])
    if session.one_tile:
        yield 0, slice(0, sizes[0]), session.rows
        return
    beside = [
        side for side in travelling if session.sizes(side) == sizes
    ]  # others are of other parts' columns
    for owner, columns, moved in lap(session.ring, [session.rows[side] for side in beside], sizes, tile):
        yield owner, columns, dict(zip(beside, moved, strict=True))


def _blocks(
    session: Session, first: Side, second: Side, block_size: int | None, tile: int
) -> Iterable[tuple[slice, Tensor | None]]:
    """Rows of each block, and memory for its cosines, which the next one overwrites; None where there is one block only that is a tile."""
    local = session.rows[first]
    widest = max(1, min(tile, max(session.sizes(second))))
    step = max(1, min(len(local), block_size or default_block_size(widest, local.device)))
    if session.one_tile and step == len(local):  # a tile that is held, or that no other one follows
        yield slice(0, step), None
        return
    key = (step, widest, local.dtype)
    if key not in session.memory:
        session.memory[key] = local.new_empty(step, widest)
    memory = session.memory[key]
    for rows in slices(len(local), step):
        yield rows, memory


@dataclasses.dataclass
class Job:
    """A summary's part in the gradient of one product.

    Attributes:
        stat: the summary.
        place: of the part.
        upstream: derivative of the loss by the summary, (n, ...), or of those of the rows of all processes where turned.
        turned: whether the rows of the part are those that travel.
    """

    stat: Stat
    place: int
    upstream: Tensor
    turned: bool

    def of(self, tile: Tile, spare: bool) -> Tensor | None:
        """Derivatives by the cosines of a tile, (B, k)."""
        negatives = TileNegatives(tile, self.stat.family, self.place, turned=self.turned, spare=spare)
        part = negatives.part
        at = tile.numbers(part.rows, False) if self.turned else tile.rows
        found = self.stat.coefficients(negatives, self.upstream[at])
        return found.T if found is not None and self.turned else found


class Gradients:
    """Derivatives of a loss by some tensors, added up in place.

    Attributes:
        found: the tensors, and their derivatives so far.
    """

    def __init__(self) -> None:
        self.found: dict[int, tuple[Tensor, Tensor]] = {}

    def at(self, tensor: Tensor) -> Tensor | None:
        """Where derivatives by a tensor add up; None where they are not wanted."""
        found, new = self.whole(tensor)
        return found.zero_() if new and found is not None else found

    def whole(self, tensor: Tensor) -> tuple[Tensor | None, bool]:
        """The same, and whether it holds nothing so far, so that all of it has to be written."""
        if not tensor.requires_grad:
            return None, False
        new = id(tensor) not in self.found
        if new:
            self.found[id(tensor)] = tensor, torch.empty_like(tensor)
        return self.found[id(tensor)][1], new

    def add(self, tensor: Tensor, gradient: Tensor) -> None:
        """Add what is nobody else's."""
        if not tensor.requires_grad:
            return
        if id(tensor) in self.found:
            self.found[id(tensor)][1].add_(gradient)
        else:
            self.found[id(tensor)] = tensor, gradient


def second_laps(
    session: Session, uses: list[tuple[Use, Tensor]], block_size: int | None, gradients: Gradients
) -> None:
    """What summaries' derivatives mean for the rows.

    Args:
        session: the batch.
        uses: the summaries, and the derivatives of the loss by them, (n, ...).
        block_size: rows of a block, or None.
        gradients: where it is added, by tensors of the loss's graph.
    """
    groups: dict[Any, _Group] = {}
    for use, upstream in uses:
        for place, part in enumerate(use.stat.family.parts):
            rows, columns = use.rows[place]
            first, second = (columns, rows) if part.turned else (rows, columns)
            key = (part.product, part.own, id(first), id(second) if second.requires_grad else None)
            group = groups.setdefault(key, _Group(*part.product, first, second))
            group.add(session, use.stat, place, upstream)
    for group in groups.values():
        group.run(session, block_size, gradients)
    session.memory.clear()
    session.products.clear()  # which the gradients still to come do without


class _Group:
    """The jobs of one product whose gradients go to the same tensors."""

    def __init__(self, first: Side, second: Side, rows: Tensor, columns: Tensor) -> None:
        self.first, self.second, self.rows, self.columns = first, second, rows, columns
        self.jobs: list[Job] = []
        self.sides: dict[Side, None] = {second: None}
        self.moving = columns.requires_grad

    def add(self, session: Session, stat: Stat, place: int, upstream: Tensor) -> None:
        """Take a summary's part."""
        part = stat.family.parts[place]
        if _travels_more(stat) and not session.one_tile:
            tile = Tile(session, slice(0, 1), session.ring.rank, slice(0, 1), None)
            stat.trial(tile)
            self.sides |= dict.fromkeys(tile.asked)
        if part.turned:
            upstream = session.ring.gather(upstream.contiguous(), session.sizes(part.rows))
            session.gather(stat)
        self.jobs.append(Job(stat, place, upstream, part.turned))

    def close(self, session: Session) -> None:
        """Within a view whose rows move, let rows take their part in the terms of the columns instead of sending it home."""
        plain = (LogSumExp, Each)
        able = all(
            job.stat.family.parts[job.place].is_square
            and not job.stat.family.rules
            and isinstance(job.stat.summand if isinstance(job.stat, Sums) else job.stat, plain)
            for job in self.jobs
        )
        if not (self.moving and able and self.rows is self.columns):
            return
        self.moving = False
        for job in list(self.jobs):
            side = job.stat.family.rows
            session.gather(job.stat)
            everyone = session.ring.gather(job.upstream.contiguous(), session.sizes(side))
            self.jobs.append(Job(job.stat, job.place, everyone, True))

    def run(self, session: Session, block_size: int | None, gradients: Gradients) -> None:
        """Add the gradients of both tensors."""
        self.close(session)
        local = session.rows[self.first]
        gradient = torch.zeros_like(local) if self.rows.requires_grad else None
        tile = _width(session, self.second, [job.stat for job in self.jobs])
        home = (
            Homecoming(session.ring, session.sizes(self.second), local.shape[1], tile, local)
            if self.moving
            else None
        )
        single = self._single(session)
        if session.one_tile:
            block_size = len(local)
        block_size = block_size or (_few(session, self.first) if single is None else None)
        scaled, held = local[:0], None  # memory for the rows of a block, and which they are
        for owner, columns, moved in _lap(session, list(self.sides), tile):
            found = None if home is None else home.at(owner, columns.start)
            for rows, memory in _blocks(session, self.first, self.second, block_size, tile):
                one = Tile(session, rows, owner, columns, moved, memory)
                derivative = self._share(one) if single is not None else self._derivative(one)
                if derivative is None:
                    continue
                if gradient is not None:
                    gradient[rows].addmm_(derivative, moved[self.second])
                if found is not None:
                    own = local[rows]
                    if single is not None:
                        if rows != held:
                            scaled = scaled if len(scaled) >= len(own) else torch.empty_like(own)
                            torch.mul(own, single[rows, None], out=scaled[: len(own)])
                            held = rows
                        own = scaled[: len(own)]
                    found.addmm_(derivative.T, own)
            if home is not None:
                home.done(owner, columns.start)
        if gradient is not None:
            gradients.add(self.rows, gradient if single is None else gradient.mul_(single[:, None]))
        if home is not None:
            gradients.add(self.columns, home.arrived())

    def _single(self, session: Session) -> Tensor | None:
        """The factor of each row where the derivative is a factor times a softmax, which the products then need not have."""
        (job, *others) = self.jobs
        if (
            others
            or job.turned
            or not isinstance(job.stat, LogSumExp)
            or not isinstance(job.stat.logit, float)
        ):
            return None
        return job.upstream / job.stat.logit

    def _share(self, tile: Tile) -> Tensor:
        (job,) = self.jobs
        stat = job.stat
        assert isinstance(stat, LogSumExp)
        negatives = TileNegatives(tile, stat.family, job.place, spare=True)
        cosine = negatives.cosine
        shift = negatives.finite(stat).neg()[:, None]
        out = cosine if negatives.spare else None
        return torch.add(shift, cosine, alpha=1 / stat.logit, out=out).exp_()

    def _derivative(self, tile: Tile) -> Tensor | None:
        total: Tensor | None = None
        for at, job in enumerate(self.jobs):
            found = job.of(tile, at == len(self.jobs) - 1)
            if found is not None:
                total = found if total is None else total.add_(found)
        return total
