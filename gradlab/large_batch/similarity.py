"""Similarities of a block of anchors: exponentials computed once, and chords that can be differentiated."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator

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
# Of the pairs that there are.
Some = slice | torch.Tensor
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
        self,
        factors: dict[str, torch.Tensor],
        by_first: torch.Tensor | None,
        by_second: torch.Tensor | None,
        new: tuple[bool, bool] = (False, False),
    ) -> None:
        """`chain` of derivatives by the squares of chords, halved, (B,) each, and by cosines; ``new`` memory holds nothing so far."""
        for place, total in enumerate((by_first, by_second)):
            if total is None:
                continue
            begun = not new[place]
            for name, factor in factors.items():
                if name == "cosine":
                    toward = (self.second, self.first)[place]
                else:
                    toward = self.difference if name == "chord" else self.sum
                    factor = -factor if name == "chord" and place else factor
                if begun:
                    total.addcmul_(toward, factor[:, None])
                else:
                    torch.mul(toward, factor[:, None], out=total)
                begun = True

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
    like: LongPairs | None
    column: torch.Tensor | None

    def __init__(
        self,
        first: torch.Tensor,
        second: torch.Tensor,
        like: LongPairs | None = None,
        column: torch.Tensor | None = None,
    ) -> None:
        """Pair rows.

        Args:
            first: (n, D).
            second: (n, D), row by row; or (k, D).
            like: pairs of the same numbers, whose measures serve here too.
            column: which of ``second`` each row is paired with, (n,); None for row by row.
        """
        super().__init__(first.detach(), second.detach())
        self.__dict__.update(ends=(first, second), like=like, column=column)

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

    def is_of(self, first: torch.Tensor, second: torch.Tensor) -> bool:
        """Whether these rows are the same memory."""
        ends = zip((self.first, self.second), (first, second), strict=True)
        return all(
            one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.stride() == other.stride()
            for one, other in ends
        )

    def chain(
        self,
        derivatives: dict[str, torch.Tensor],
        by_first: torch.Tensor | None,
        by_second: torch.Tensor | None,
        new: tuple[bool, bool],
    ) -> None:
        """As `RowPairs.chain`, of (n,) to (n, D); ``new`` memory holds nothing so far, and all of it is written."""
        for rows, pairs, factors in self._some(derivatives, slices(len(self.first), CLOSE_PAIRS)):
            first, second = (None if one is None else one[rows] for one in (by_first, by_second))
            pairs.follow(factors, first, second, new)

    def chained(
        self, derivatives: dict[str, torch.Tensor], at: Iterable[Some], by_first: torch.Tensor | None
    ) -> Iterator[torch.Tensor]:
        """What ``derivatives`` by the leaves, (n,) each, mean for the second rows of some pairs after others, (m, D); overwritten by the next.

        Args:
            derivatives: see `RowPairs.chain`.
            at: the numbers of pairs.
            by_first: where they are added up for the first rows, (n, D), or None.
        """
        every = list(at)
        memory = self.first.new_empty(2, max(map(count_of, every), default=0), self.first.shape[1])
        for rows, pairs, factors in self._some(derivatives, every):
            own, by_second = memory[:, : count_of(rows)]
            if by_first is None or isinstance(rows, slice):
                pairs.follow(factors, None if by_first is None else by_first[rows], by_second, (False, True))
            else:
                pairs.follow(factors, own, by_second, (True, True))
                by_first.index_add_(0, rows, own)
            yield by_second

    def _some(
        self, derivatives: dict[str, torch.Tensor], at: Iterable[Some]
    ) -> Iterator[tuple[Some, RowPairs, dict[str, torch.Tensor]]]:
        """Some pairs after others, and the factors of `RowPairs.follow`; overwritten by the next."""
        every = list(at)
        gathered = self.column is not None or any(not isinstance(rows, slice) for rows in every)
        size = max(map(count_of, every), default=0)
        memory = self.first.new_empty(3 if gathered else 1, size, self.first.shape[1])
        factors = _factors(derivatives, self.leaves)
        for rows in every:
            first = _rows(self.first, rows, memory[1:])
            second = _rows(self.second, rows if self.column is None else self.column[rows], memory[2:])
            pairs = RowPairs(first, second)
            if "chord" in factors:
                pairs.__dict__["difference"] = torch.sub(first, second, out=memory[0, : len(first)])
            yield rows, pairs, {name: _rows(one, rows) for name, one in factors.items()}

    def _measured(self, name: str) -> torch.Tensor:
        if self.like is not None and name in self.like.leaves:
            return self.like.leaves[name].detach().requires_grad_()
        found, sign = self.first.new_empty(len(self.first)), -1 if name == "chord" else 1
        memory = self.first.new_empty(
            1 if self.column is None else 2, min(CLOSE_PAIRS, len(found)), self.first.shape[1]
        )
        with torch.no_grad():
            for rows in slices(len(found), CLOSE_PAIRS):
                first = self.first[rows]
                second = _rows(self.second, rows if self.column is None else self.column[rows], memory[1:])
                sums = torch.add(first, second, alpha=sign, out=memory[0, : len(first)])
                torch.linalg.vector_norm(sums, dim=-1, out=found[rows])
        return found.requires_grad_()


def consecutive(index: torch.Tensor) -> Some:
    """Ascending numbers, (m,), as a slice where none is left out."""
    if not len(index):
        return slice(0, 0)
    first, last = int(index[0]), int(index[-1])
    return slice(first, last + 1) if last - first + 1 == len(index) else index


def count_of(at: Some) -> int:
    """How many they are."""
    return at.stop - at.start if isinstance(at, slice) else len(at)


def _rows(rows: torch.Tensor, at: Some, memory: torch.Tensor | None = None) -> torch.Tensor:
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
