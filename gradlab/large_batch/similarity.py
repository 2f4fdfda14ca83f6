"""Similarities of a block of anchors: exponentials computed once, and chords that can be differentiated."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from gradlab.geometry.similarity import Negatives, OfEach, PairSimilarity
from gradlab.large_batch.products import slices

MEASURES = ("cosine", "chord", "antichord")
# Pairs whose rows are looked at together, where there are as many as a share has rows.
PAIRS = 640
# Likewise where nothing is sent: differences of so few stay in a processor's cache.
CLOSE_PAIRS = 128
# Entries of an array that stays in the cache of one processor's core.
CACHED = 1 << 17
# Memory of a block's size for a softmax, by temperature.
Scratch = dict[float, torch.Tensor]


@dataclasses.dataclass(frozen=True)
class BlockNegatives(Negatives):
    """The negatives of a block of anchors; a softmax is computed once, in memory that all blocks share.

    Attributes:
        scratch: that memory, handed from block to block.
    """

    scratch: Scratch = dataclasses.field(default_factory=dict)
    _softmax: dict[float, torch.Tensor] = dataclasses.field(default_factory=dict)
    _log_sum_exp: dict[float, torch.Tensor] = dataclasses.field(default_factory=dict)

    def log_sum_exp(self, temperature: float) -> torch.Tensor:
        """``log Σ_k exp(cos θ_k / τ)``, (B,): the largest logit less the log of its softmax."""
        if temperature not in self._log_sum_exp:
            share = self.softmax(temperature).amax(-1)
            self._log_sum_exp[temperature] = self.cosine.amax(-1) / temperature - share.log()
        return self._log_sum_exp[temperature]

    def softmax(self, temperature: float) -> torch.Tensor:
        """Softmax of ``cos θ_k / τ``, (B, K); overwritten by the next block, not to be changed in place."""
        if temperature not in self._softmax:
            logits = torch.div(self.cosine, temperature, out=self._memory(temperature))
            # In place on a CPU, whose kernel has read a row before it writes it.
            out = logits if logits.device.type == "cpu" else None
            self._softmax[temperature] = torch.softmax(logits, -1, out=out)
        return self._softmax[temperature]

    def sum_of(self, quantity: OfEach, slope: OfEach | None = None) -> torch.Tensor:
        """Over the columns that are not masked, (B,); of some rows at a time, that stay in a processor's cache."""
        if self.cosine.device.type != "cpu":
            return super().sum_of(quantity, slope)
        step = max(1, CACHED // self.cosine.shape[1])
        parts = [self._some(rows) for rows in slices(len(self.cosine), step)]
        return torch.cat([part.sum_of(quantity, slope) for part in parts])

    def _some(self, rows: slice) -> Negatives:
        """Those of some rows, of which single columns are not measured."""
        cosine = self.cosine[rows]
        return dataclasses.replace(Negatives.from_cosines(cosine), gaps=lambda: self.one_minus_cosine[rows])

    def _memory(self, temperature: float) -> torch.Tensor:
        if temperature not in self.scratch:
            self.scratch[temperature] = torch.empty_like(self.cosine)
        return self.scratch[temperature][: self.cosine.shape[0]]


class LazyPairs(PairSimilarity):
    """Similarity of pairs of rows: measured when asked for, so that what a loss does not use costs nothing."""

    first: torch.Tensor
    second: torch.Tensor

    def __init__(self, first: torch.Tensor, second: torch.Tensor) -> None:
        """Pair ``first`` (B, D) with ``second`` (B, D), row by row."""
        # Set past the frozen dataclass, whose fields are computed here.
        self.__dict__.update(first=first, second=second)

    @functools.cached_property
    def chord(self) -> torch.Tensor:  # type: ignore[override]  # a field there, computed when asked for here
        """``|h - h'|``, (B,)."""
        return torch.linalg.vector_norm(self.first - self.second, dim=-1)

    @functools.cached_property
    def antichord(self) -> torch.Tensor:  # type: ignore[override]  # likewise
        """``|h + h'|``, (B,)."""
        return torch.linalg.vector_norm(self.first + self.second, dim=-1)


class RowPairs(LazyPairs):
    """Pairs of which each measure is a leaf of a graph; from what a loss uses, `chain` goes on to the rows."""

    products: torch.Tensor | None

    def __init__(
        self, first: torch.Tensor, second: torch.Tensor, products: torch.Tensor | None = None
    ) -> None:
        """Pair ``first`` (B, D) with ``second`` (B, D); ``products``, (B,), are their dot products where known."""
        super().__init__(first, second)
        self.__dict__["products"] = products

    @functools.cached_property
    def cosine(self) -> torch.Tensor:  # type: ignore[override]  # likewise
        """``cos θ``, (B,)."""
        products = self.products
        if products is None:
            products = torch.linalg.vecdot(self.first, self.second)
        return products.requires_grad_()

    @functools.cached_property
    def chord(self) -> torch.Tensor:  # type: ignore[override]  # likewise
        """``|h - h'|``, (B,)."""
        return torch.linalg.vector_norm(self.difference, dim=-1).requires_grad_()

    @functools.cached_property
    def antichord(self) -> torch.Tensor:  # type: ignore[override]  # likewise
        """``|h + h'|``, (B,)."""
        return torch.linalg.vector_norm(self.sum, dim=-1).requires_grad_()

    @functools.cached_property
    def difference(self) -> torch.Tensor:
        """``h - h'``, (B, D)."""
        return self.first - self.second

    @functools.cached_property
    def sum(self) -> torch.Tensor:
        """``h + h'``, (B, D)."""
        return self.first + self.second

    @property
    def leaves(self) -> dict[str, torch.Tensor]:
        """What has been measured so far, by name."""
        return {name: self.__dict__[name] for name in MEASURES if name in self.__dict__}

    def chain(
        self,
        derivatives: dict[str, torch.Tensor],
        by_first: torch.Tensor | None,
        by_second: torch.Tensor | None,
    ) -> None:
        """Add what ``derivatives`` by the leaves, (B,) each, mean for the rows to (B, D), unless None.

        A chord is followed along the difference of the rows itself, which loses nothing where they are
        nearly equal; where they coincide it counts as constant, as in torch.
        """
        self.follow(_factors(derivatives, self.leaves), by_first, by_second)

    def follow(
        self, factors: dict[str, torch.Tensor], by_first: torch.Tensor | None, by_second: torch.Tensor | None
    ) -> None:
        """`chain` of derivatives by the squares of chords, halved, (B,) each, and by cosines."""
        for name, factor in factors.items():
            if name == "cosine":
                to_first, to_second, sign = self.second, self.first, 1
            elif name == "chord":
                to_first = to_second = self.difference
                sign = -1
            else:
                to_first = to_second = self.sum
                sign = 1
            if by_first is not None:
                by_first.addcmul_(to_first, factor[:, None])
            if by_second is not None:
                by_second.addcmul_(to_second, factor[:, None], value=sign)

    def radial(self, derivatives: dict[str, torch.Tensor]) -> torch.Tensor:
        """The factor, (B,), of each row in its own derivative, which the derivative of a dot product lacks."""
        total = torch.zeros_like(self.first[:, 0])
        for name, derivative in derivatives.items():
            if name != "cosine":
                total += _per_length(derivative, self.leaves[name])
        return total


class LongPairs(LazyPairs):
    """Pairs of many rows, of which each measure is a leaf of a graph; differences and sums are held for some of them.

    Attributes:
        ends: the rows as they were given, where derivatives go.
    """

    ends: tuple[torch.Tensor, torch.Tensor]

    def __init__(self, first: torch.Tensor, second: torch.Tensor) -> None:
        """Pair ``first`` (n, D) with ``second`` (n, D), row by row."""
        super().__init__(first.detach(), second.detach())
        self.__dict__["ends"] = first, second

    @functools.cached_property
    def chord(self) -> torch.Tensor:  # type: ignore[override]  # likewise
        """``|h - h'|``, (n,)."""
        return self._measured("chord")

    @functools.cached_property
    def antichord(self) -> torch.Tensor:  # type: ignore[override]  # likewise
        """``|h + h'|``, (n,)."""
        return self._measured("antichord")

    @property
    def leaves(self) -> dict[str, torch.Tensor]:
        """What has been measured so far, by name."""
        return {name: self.__dict__[name] for name in MEASURES if name in self.__dict__}

    def chained(
        self, derivatives: dict[str, torch.Tensor], at: Iterable[torch.Tensor] | None = None
    ) -> Iterator[tuple[Any, torch.Tensor, torch.Tensor]]:
        """What ``derivatives`` by the leaves, (n,) each, mean for both rows of some pairs after others, (m, D) each.

        Args:
            derivatives: see `RowPairs.chain`.
            at: the numbers of pairs; None for slices of `CLOSE_PAIRS`. What is made of some is overwritten by the next.
        """
        every = [*slices(len(self.first), CLOSE_PAIRS)] if at is None else [consecutive(rows) for rows in at]
        gathered = any(not isinstance(rows, slice) for rows in every)
        size = max(
            (rows.stop - rows.start if isinstance(rows, slice) else len(rows) for rows in every), default=0
        )
        memory = self.first.new_empty(4 if gathered else 2, size, self.first.shape[1])
        factors = _factors(derivatives, self.leaves)
        for rows in every:
            first, second = (
                _some(one, rows, memory[2 + place :]) for place, one in enumerate((self.first, self.second))
            )
            pairs = RowPairs(first, second)
            by_first, by_second = memory[:2, : len(pairs.first)].zero_()
            pairs.follow({name: _some(one, rows) for name, one in factors.items()}, by_first, by_second)
            yield rows, by_first, by_second

    def _measured(self, name: str) -> torch.Tensor:
        found, sign = self.first.new_empty(len(self.first)), -1 if name == "chord" else 1
        memory = torch.empty_like(self.first[:CLOSE_PAIRS])
        with torch.no_grad():
            for rows in slices(len(found), CLOSE_PAIRS):
                first = self.first[rows]
                sums = torch.add(first, self.second[rows], alpha=sign, out=memory[: len(first)])
                torch.linalg.vector_norm(sums, dim=-1, out=found[rows])
        return found.requires_grad_()


def consecutive(index: torch.Tensor) -> slice | torch.Tensor:
    """Ascending numbers, (m,), as a slice where none is left out."""
    if not len(index):
        return slice(0, 0)
    first, last = int(index[0]), int(index[-1])
    return slice(first, last + 1) if last - first + 1 == len(index) else index


def _some(rows: torch.Tensor, at: slice | torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
    """Some rows; where these are copied, in the first array of ``memory`` (arrays, m, D)."""
    if isinstance(at, slice):
        return rows[at]
    return torch.index_select(rows, 0, at, out=None if memory is None else memory[0, : len(at)])


def _factors(
    derivatives: dict[str, torch.Tensor], leaves: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Derivatives by chords as those by half their squares; by cosines as they are."""
    return {
        name: one if name == "cosine" else _per_length(one, leaves[name]) for name, one in derivatives.items()
    }


def _per_length(derivative: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    length = length.detach()
    # Along a difference that is 0 there is no direction; an infinite derivative stays visible there, as NaN.
    return torch.where(length == 0, 0 * derivative, derivative / length)
