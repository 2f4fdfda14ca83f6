"""Summaries of the negatives of each row: how tiles add up to them, and their derivatives by a tile's cosines."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

import torch
from torch import Tensor

from gradlab.geometry.similarity import Negatives
from gradlab.large_batch.shared.keys import Family, Nearest, Session
from gradlab.large_batch.shared.mail import fetch_nearest
from gradlab.large_batch.shared.tile import Tile, TileNegatives

# Exponentials of cosines over a temperature can be summed without a running maximum as long as the smallest does not underflow.
LARGEST_EXPONENT = {torch.float32: 80.0, torch.float64: 600.0}
# Below every cosine, rounding included; a row whose columns are all masked has the maximum -inf, which is no shift.
BELOW = -2.0


@dataclasses.dataclass(frozen=True)
class Stat(abc.ABC):
    """A summary.

    Attributes:
        family: of which negatives.
    """

    family: Family

    @abc.abstractmethod
    def start(self, session: Session) -> Sum:
        """Where its tiles add up."""

    def trial(self, tile: Tile) -> None:
        """Ask for whatever its tiles will ask for."""
        for place in range(len(self.family.parts)):
            _ = TileNegatives(tile, self.family, place).cosine

    def coefficients(self, negatives: TileNegatives, upstream: Tensor) -> Tensor | None:
        """Derivatives of ``Σ_i upstream_i s_i`` by the cosines of a tile, (r, c), which may take their memory; None if there are none."""
        return None


class Sum(abc.ABC):
    """Tiles that are added up for each row, (n, m); of transposed products for the rows of all processes, (N, m).

    Attributes:
        own: of this process's rows.
        every: of all rows, or None where no product is a transposed one.
    """

    def __init__(self, stat: Stat, session: Session, width: tuple[int, ...], fill: float = 0.0) -> None:
        """``width``: () or (m,)."""
        side = stat.family.rows
        like = session.rows[side]
        self.stat, self.session, self.side = stat, session, side
        self.own = like.new_full((like.shape[0], *width), fill)
        turned = any(part.turned for part in stat.family.parts)
        self.every = like.new_full((sum(session.sizes(side)), *width), fill) if turned else None

    def place(self, negatives: TileNegatives) -> Tensor:
        """The entries that a tile's rows have, a view."""
        if negatives.turned:
            assert self.every is not None
            return self.every[negatives.tile.numbers(self.side, False)]
        return self.own[negatives.tile.rows]

    @abc.abstractmethod
    def add(self, negatives: TileNegatives) -> None:
        """Add a tile."""

    @abc.abstractmethod
    def finish(self) -> Any:
        """The summary, once all tiles are there."""


class _Plain(Sum):
    """Numbers of tiles, added up as they are."""

    @abc.abstractmethod
    def of(self, negatives: TileNegatives) -> Tensor:
        """What a tile adds, (r, m)."""

    def add(self, negatives: TileNegatives) -> None:
        self.place(negatives).add_(self.of(negatives))

    def finish(self) -> Any:
        if self.every is not None:
            self.own += self.session.ring.total(self.every)[self.session.share(self.side)]
        return self.own


@dataclasses.dataclass(frozen=True)
class LogSumExp(Stat):
    """``log Σ_k exp(φ(cos θ_k))``, (n,).

    Attributes:
        logit: a temperature, or the `Name` of φ.
    """

    logit: Any

    def start(self, session: Session) -> Sum:
        """Without a running maximum where that is safe."""
        if isinstance(self.logit, float):
            bound = 1 + sum(one.alpha * temperature for one, temperature in self.family.hardness)
            dtype = session.rows[self.family.rows].dtype
            if 2 * bound / self.logit <= LARGEST_EXPONENT[dtype]:
                return _Exponentials(self, session, bound)
        return _RunningLogSumExp(self, session, (), -torch.inf)

    def logits(self, negatives: TileNegatives) -> Tensor:
        """(r, c), -inf where masked."""
        if isinstance(self.logit, float):
            return torch.div(negatives.cosine, self.logit, out=negatives.cosine if negatives.spare else None)
        return negatives.logits(self.logit.call)

    def coefficients(self, negatives: TileNegatives, upstream: Tensor) -> Tensor | None:
        """The softmax, times φ'."""
        finished = negatives.finite(self)[:, None]
        slope: Any = None
        if not isinstance(self.logit, float):
            slope = _slope(self.logit.call, negatives)
        share = self.logits(negatives).sub_(finished).exp_()
        if slope is None:
            return share.mul_((upstream / self.logit)[:, None])
        return share.mul_(slope).mul_(upstream[:, None])


class _Exponentials(_Plain):
    """Sums of ``exp((cos θ - b)/τ)``, b being the largest cosine that there can be."""

    def __init__(self, stat: LogSumExp, session: Session, bound: float) -> None:
        super().__init__(stat, session, ())
        self.bound, self.temperature = bound, stat.logit
        self._shift = self.own.new_tensor(-bound / stat.logit)

    def of(self, negatives: TileNegatives) -> Tensor:
        cosine = negatives.cosine
        out = cosine if negatives.spare else None
        return torch.add(self._shift, cosine, alpha=1 / self.temperature, out=out).exp_().sum(-1)

    def finish(self) -> Tensor:
        return super().finish().log_().add_(self.bound / self.temperature)


class _RunningLogSumExp(Sum):
    """Log-sum-exps of tiles, combined."""

    def add(self, negatives: TileNegatives) -> None:
        stat = self.stat
        assert isinstance(stat, LogSumExp)
        logits = stat.logits(negatives)
        top = logits.amax(-1)
        shift = torch.where(top.isinf(), 0.0, top)
        found = (logits - shift[:, None]).exp_().sum(-1).log_().add_(shift)
        place = self.place(negatives)
        torch.logaddexp(place, found, out=place)

    def finish(self) -> Tensor:
        if self.every is not None:
            top = self.session.ring.largest(self.every.clone())
            shift = torch.where(top.isinf(), 0.0, top)
            sums = self.session.ring.total((self.every - shift).exp_()).log_().add_(shift)
            torch.logaddexp(self.own, sums[self.session.share(self.side)], out=self.own)
        return self.own


@dataclasses.dataclass(frozen=True)
class Sums(Stat):
    """Sums over the negatives of what a summand makes of them, (n, m)."""

    summand: Any

    def start(self, session: Session) -> Sum:
        """One after another."""
        return _Sums(self, session, (self.summand.count,))

    def trial(self, tile: Tile) -> None:
        """Make the summands of an empty tile."""
        for place in range(len(self.family.parts)):
            self.summand.of(TileNegatives(tile, self.family, place))

    def coefficients(self, negatives: TileNegatives, upstream: Tensor) -> Tensor | None:
        """The summand's."""
        found: Tensor | None = self.summand.coefficients(negatives, upstream)
        return found


class _Sums(_Plain):
    def of(self, negatives: TileNegatives) -> Tensor:
        assert isinstance(self.stat, Sums)
        return torch.stack([one.sum(-1) for one in self.stat.summand.of(negatives)], -1)


@dataclasses.dataclass(frozen=True)
class Each:
    """What is made of each negative, and its derivative by the cosine, or None if that follows from the cosine."""

    function: Any
    slope: Any = None
    count = 1

    def of(self, negatives: TileNegatives) -> list[Tensor]:
        """(r, c)."""
        return [torch.where(negatives.cosine.isinf(), 0.0, self.function.call(negatives))]

    def coefficients(self, negatives: TileNegatives, upstream: Tensor) -> Tensor:
        """``f'``."""
        found = _slope(self.function.call, negatives) if self.slope is None else self.slope.call(negatives)
        return torch.where(negatives.cosine.isinf(), 0.0, found * upstream[:, 0, None])


@dataclasses.dataclass(frozen=True)
class One:
    """1 for each negative."""

    count = 1

    def of(self, negatives: TileNegatives) -> list[Tensor]:
        """(r, c)."""
        return [(~negatives.cosine.isinf()).to(negatives.cosine.dtype)]

    def coefficients(self, negatives: TileNegatives, upstream: Tensor) -> None:
        """None."""


@dataclasses.dataclass(frozen=True)
class Mean:
    """``f(cos θ)``, weighed by the softmax of the logits; without a derivative."""

    function: Any
    logit: Any
    count = 1

    def of(self, negatives: TileNegatives) -> list[Tensor]:
        """(r, c)."""
        return [negatives.softmax_of(self.logit.call) * self.function.call(negatives)]

    def coefficients(self, negatives: TileNegatives, upstream: Tensor) -> None:
        """None."""


@dataclasses.dataclass(frozen=True)
class Weighted:
    """A fixed weight, and the weight times the cosine.

    Attributes:
        weight: the `Name` of what maps negatives to weights.
    """

    weight: Any
    count = 2

    def of(self, negatives: TileNegatives) -> list[Tensor]:
        """(r, c) each."""
        weight = self.weight.call(negatives).detach()
        return [weight, weight * negatives.finite_cosine]

    def coefficients(self, negatives: TileNegatives, upstream: Tensor) -> Tensor:
        """The weight: the first sum has no derivative."""
        found: Tensor = self.weight.call(negatives).detach()
        return found * upstream[:, 1, None]


@dataclasses.dataclass(frozen=True)
class Hardest(Stat):
    """The hardest negative, a `Nearest`."""

    def start(self, session: Session) -> Sum:
        """Which it is; its vector is fetched at the end."""
        return _Best(self, session, (), -torch.inf)


class _Best(Sum):
    """Of equally hard negatives the first counts, by parts, and in the order of the processes."""

    def __init__(self, stat: Stat, session: Session, width: tuple[int, ...], fill: float) -> None:
        super().__init__(stat, session, width, fill)
        self.part = torch.zeros(len(self.own), dtype=torch.int64, device=self.own.device)
        self.column = torch.zeros_like(self.part)
        if self.every is not None:
            self.every_part, self.every_column = (
                torch.zeros(len(self.every), dtype=torch.int64, device=self.own.device) for _ in range(2)
            )

    def add(self, negatives: TileNegatives) -> None:
        tile, part = negatives.tile, negatives.part
        cosine = negatives.cosine
        if negatives.turned and negatives.tile.rows.stop - negatives.tile.rows.start > 1:
            top, index = cosine.max(-1)
            index = (cosine == top[:, None]).to(torch.uint8).argmax(-1)
        else:
            index = cosine.argmax(-1)
            top = cosine.gather(1, index[:, None])[:, 0]
        column = index + tile.numbers(part.columns, negatives.turned).start
        at = tile.numbers(self.side, False) if negatives.turned else tile.rows
        if negatives.turned:
            assert self.every is not None
            best, kind, places = self.every[at], self.every_part[at], self.every_column[at]
        else:
            best, kind, places = self.own[at], self.part[at], self.column[at]
        _keep(best, kind, places, top, negatives.place, column)

    def finish(self) -> Nearest:
        session = self.session
        if self.every is not None:
            ring, share = session.ring, session.share(self.side)
            top = ring.largest(self.every.clone())
            count = sum(
                max(session.sizes(part.columns)[-1], sum(session.sizes(part.columns)))
                for part in self.stat.family.parts
            )
            order = self.every_part * count + self.every_column
            behind = torch.where(self.every == top, -order, torch.iinfo(torch.int64).min)
            first = -ring.largest(behind)
            kind = first.div(count, rounding_mode="floor")
            _keep(self.own, self.part, self.column, top[share], kind[share], (first - kind * count)[share])
        return fetch_nearest(session, self.stat.family, self.own, self.part, self.column)


def _keep(best: Tensor, part: Tensor, column: Tensor, top: Tensor, new_part: Any, new_column: Tensor) -> None:
    """Replace what is less hard, or as hard but later."""
    kind = torch.as_tensor(new_part, device=best.device)
    earlier = (kind < part) | ((kind == part) & (new_column < column))
    better = (top > best) | ((top == best) & earlier & (top > -torch.inf))
    for held, new in ((best, top), (part, kind), (column, new_column)):
        torch.where(better, new, held, out=held)


def _slope(function: Any, negatives: TileNegatives) -> Tensor:
    """The derivative by the cosines of what is made of each negative by itself."""
    with torch.enable_grad():
        leaf = negatives.finite_cosine.detach().clone().requires_grad_()
        found: Tensor = torch.autograd.grad(function(Negatives.from_cosines(leaf)).sum(), leaf)[0]
    return found
