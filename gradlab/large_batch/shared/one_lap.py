"""Summaries whose derivative by the rows is a weighted sum of vectors, which is made in the lap of the value."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor

from gradlab.large_batch.shared.keys import Session
from gradlab.large_batch.shared.stats import Stat, Sum
from gradlab.large_batch.shared.tile import Tile, TileNegatives


@dataclasses.dataclass(frozen=True)
class OfAll(Stat):
    """``log Σ_ik exp(cos θ_ik / τ)`` over all pairs of the batch, a `Whole`.

    Attributes:
        temperature: τ.
        moving: whether its derivative is wanted.
    """

    temperature: float
    moving: bool

    def start(self, session: Session) -> Sum:
        """With a running maximum."""
        return _Energies(self, session)


@dataclasses.dataclass(frozen=True)
class Whole:
    """A log-sum-exp over all pairs.

    Attributes:
        total: the log-sum-exp, a scalar.
        shares: what falls to each row of the softmax, (n,).
        by_rows, by_columns: its derivatives by the rows of either side, (n, D) and (k, D), or None; within one view half of it.
    """

    total: Tensor
    shares: Tensor
    by_rows: Tensor | None
    by_columns: Tensor | None


class _Energies(Sum):
    """Sums of ``e_ik = exp((cos θ_ik - c)/τ)``, c being the largest cosine so far, so that none overflows.

    A mirrored tile stands for both orders of those of its pairs that lie in columns after its rows.
    """

    def __init__(self, stat: OfAll, session: Session) -> None:
        super().__init__(stat, session, ())
        (part,) = stat.family.parts
        first, self.second = part.product
        self.temperature, self.largest, self.rows = stat.temperature, -math.inf, session.rows[first]
        self.by_rows = torch.zeros_like(self.rows) if stat.moving else None
        apart = stat.moving and not part.is_square
        self.by_columns = torch.zeros_like(session.rows[self.second]) if apart else None

    def add(self, negatives: TileNegatives) -> None:
        tile = negatives.tile
        energy = self._energy(negatives)
        if energy is None:
            return
        own, others = self.rows[tile.rows], tile.passing(self.second)
        self.own[tile.rows] += energy.sum(1)
        if self.by_rows is not None:
            self.by_rows[tile.rows].addmm_(energy, others)
        if self.by_columns is not None:
            self.by_columns[tile.columns].addmm_(energy.T, own)
        if tile.mirrored:
            later = slice(max(tile.rows.stop, tile.columns.start), tile.columns.stop)
            turned = energy[:, later.start - tile.columns.start :].T
            self.own[later] += turned.sum(1)
            if self.by_rows is not None:
                self.by_rows[later].addmm_(turned, own)

    def finish(self) -> Whole:
        ring = self.session.ring
        largest = ring.largest(self.own.new_tensor(self.largest))
        shrunk = ((self.largest - largest) / self.temperature).exp()
        total = ring.total(self.own.sum() * shrunk)
        shares = self.own * (shrunk / total)
        for part in (self.by_rows, self.by_columns):
            if part is not None:
                part.mul_(shrunk / (total * self.temperature))
        return Whole(total.log() + largest / self.temperature, shares, self.by_rows, self.by_columns)

    def _energy(self, negatives: TileNegatives) -> Tensor | None:
        """``e_ik``, (r, c); None where all are 0. What was summed before is put on its scale."""
        cosine = negatives.cosine.T if negatives.turned else negatives.cosine
        largest = max(self.largest, float(cosine.amax()))
        if largest == -math.inf:
            return None
        if largest > self.largest:
            for part in (self.own, self.by_rows, self.by_columns):
                if part is not None:
                    part *= math.exp((self.largest - largest) / self.temperature)
            self.largest = largest
        shift = cosine.new_tensor(-self.largest / self.temperature)
        out = cosine if negatives.spare else None
        return torch.add(shift, cosine, alpha=1 / self.temperature, out=out).exp_()


@dataclasses.dataclass(frozen=True)
class Means(Stat):
    """``Σ_j W_ij``, (n,), and ``Σ_j W_ij h_j``, (n, D), with fixed weights.

    Attributes:
        weight: the `Name` of what maps views to weights.
        vectors: whether the second is wanted.
    """

    weight: Any
    vectors: bool

    def start(self, session: Session) -> Sum:
        """One after another."""
        return _Means(self, session)

    def trial(self, tile: Tile) -> None:
        """Make the weights of an empty tile."""
        self.made(TileNegatives(tile, self.family, 0))

    def coefficients(self, negatives: TileNegatives, upstream: Tensor) -> Tensor:
        """The weights."""
        return self.made(negatives) * upstream[:, None]

    def made(self, negatives: TileNegatives) -> Tensor:
        """The weights of a tile, (r, c)."""
        found: Tensor = self.weight.call(negatives.tile.session.views_of(negatives)).detach()
        return found


class _Means(Sum):
    def __init__(self, stat: Means, session: Session) -> None:
        super().__init__(stat, session, ())
        self.made = stat.made
        self.vectors = torch.zeros_like(session.rows[self.side]) if stat.vectors else None

    def add(self, negatives: TileNegatives) -> None:
        tile, weight = negatives.tile, self.made(negatives)
        self.own[tile.rows] += weight.sum(-1)
        if self.vectors is not None:
            self.vectors[tile.rows].addmm_(weight, tile.passing(negatives.part.columns))

    def finish(self) -> tuple[Tensor, Tensor | None]:
        return self.own, self.vectors
