"""What is known of a shared batch: summaries that a loss asked for, made lap by lap until it needs no further ones, or at once where it is one tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gradlab.errors import GradlabError
from gradlab.geometry.similarity import PairSimilarity
from gradlab.large_batch.shared.communicator import Communicator, Told, words_of
from gradlab.large_batch.shared.keys import Family, Name, Nearest, Side
from gradlab.large_batch.shared.one_lap import Means, OfAll
from gradlab.large_batch.shared.stats import Each, Hardest, LogSumExp, Mean, One, Stat, Sums, Weighted
from gradlab.large_batch.shared.tile import Tile, TileNegatives
from gradlab.large_batch.similarity import LongPairs

# Makes summaries of a session; for each the sides whose rows have to travel. It holds no session itself, or this one would outlive its use.
Make = Callable[["Session", dict[Stat, list[Side]]], None]
# Laps of which each depends on the one before; more means that a loss asks for something else each time.
MOST_ROUNDS = 8


class Use:
    """A summary as a leaf of the loss's graph.

    Attributes:
        stat: the summary.
        leaf: of it.
        rows: for each part of the family, the tensors of its rows and columns in the loss's graph.
    """

    def __init__(self, stat: Stat, leaf: Any, rows: list[tuple[Tensor, Tensor]]) -> None:
        """See the attributes."""
        self.stat, self.leaf, self.rows = stat, leaf, rows


class Session:
    """One evaluation of a loss on a shared batch.

    Attributes:
        ring: the processes.
        rows: this process's rows of each side.
        uses: the summaries that the loss has used in this round.
        pairs: of rows of this process that the loss has asked for in this round, by the tensors.
        owners: of the extra negatives of all processes, the number of the sentence, or -1; None if not known.
        mask: as given, on one process, or None.
        one_tile: whether the batch is one process's and one tile: summaries are made as soon as they are asked for, no lap goes round.
        products: the cosines of that tile so far, and how often they had been changed by then.
        numbers: of the sentences of all processes, and of their extra negatives, -1 where not known; or None.
    """

    def __init__(
        self,
        ring: Communicator,
        anchors: list[int],
        extra: list[int],
        device: torch.device,
        one_tile: bool = False,
    ) -> None:
        """``anchors`` and ``extra`` are how many rows each process has."""
        self.ring, self.device = ring, device
        self._anchors, self._extra = anchors, extra
        self.rows: dict[Side, Tensor] = {}
        self.uses: list[Use] = []
        self.pairs: dict[tuple[int, int], LongPairs] = {}
        self._before: dict[tuple[int, int], LongPairs] = {}
        self.owners: Any = None
        self.mask: Tensor | None = None
        self.one_tile = one_tile
        self.products: dict[Any, tuple[Tensor, int]] = {}
        self._make: Make | None = None
        self.numbers: Any = None
        self.views: dict[Family, Any] = {}
        self.memory: dict[Any, Tensor] = {}
        self._known: dict[Any, Any] = {}
        self._everyone: dict[Stat, Tensor] = {}
        self._pending: dict[Any, None] = {}
        self._guide: tuple[Tensor, Tensor] | None = None
        self.sentences = Side("a", False, 0)

    def sizes(self, side: Side) -> list[int]:
        """How many rows each process has."""
        if side.role.endswith("e"):
            return self._extra
        if side.whole:
            return [one + more for one, more in zip(self._anchors, self._extra, strict=True)]
        return self._anchors

    def start(self, side: Side, rank: int) -> int:
        """The number of a process's first row among those of all."""
        return sum(self.sizes(side)[:rank])

    def share(self, side: Side) -> slice:
        """This process's rows among those of all."""
        first = self.start(side, self.ring.rank)
        return slice(first, first + self.sizes(side)[self.ring.rank])

    def guide_side(self, side: Side) -> Side:
        """Of the guide's embeddings."""
        return next(one for one in self.rows if one.role == side.guide)

    def guide_positives(self, *, everyone: bool) -> Tensor:
        """The guide's cosines of the positives, of this process (n,) or of all (N,)."""
        if self._guide is None:
            first, second = (self.rows[self.guide_side(Side(role, False, 0))] for role in "ab")
            own = torch.linalg.vecdot(first, second)
            self._guide = own, self.ring.gather(own, self._anchors)
        return self._guide[everyone]

    def pair(self, first: Tensor, second: Tensor) -> LongPairs:
        """Rows of this process, (n, D) each, row by row."""
        key = id(first), id(second)
        if key not in self.pairs:
            like = next((one for one in self.pairs.values() if one.is_of(first, second)), None)
            self.pairs[key] = self._before.get(key) or LongPairs(first, second, like)
        return self.pairs[key]

    # What can be asked for.

    def log_sum_exp(self, family: Family, logit: Any) -> Stat:
        """At a temperature, or of logits."""
        return LogSumExp(family, float(logit) if isinstance(logit, (int, float)) else Name(logit))

    def count(self, family: Family) -> Stat:
        """Of the negatives."""
        return Sums(family, One())

    def each(
        self, family: Family, function: Callable[..., Any], slope: Callable[..., Any] | None = None
    ) -> Stat:
        """Of what is made of each negative."""
        return Sums(family, Each(Name(function), None if slope is None else Name(slope)))

    def mean(self, family: Family, function: Callable[..., Any], logit: Callable[..., Any]) -> Stat:
        """Weighed by a softmax."""
        return Sums(family, Mean(Name(function), Name(logit)))

    def weighted(self, family: Family, weight: Callable[..., Any]) -> Stat:
        """Weights, and weights times cosines."""
        return Sums(family, Weighted(Name(weight)))

    def ask(self, stat: Stat, rows: list[tuple[Tensor, Tensor]] | None) -> Tensor:
        """A summary, as a leaf where ``rows`` say whose it is; before it is known, numbers of its shape.

        Args:
            stat: the summary.
            rows: for each part of its family, the tensors of rows and columns that its gradient goes to.
        """
        if not self._has(stat):
            like = self.rows[stat.family.rows]
            return like.new_ones(
                (like.shape[0], stat.summand.count) if isinstance(stat, Sums) else like.shape[0]
            )
        found: Tensor = self._known[stat]
        if rows is None:
            return found
        leaf = found.clone().requires_grad_()
        self.uses.append(Use(stat, leaf, rows))
        return leaf

    def of_all(
        self, family: Family, temperature: float, rows: list[tuple[Tensor, Tensor]] | None = None
    ) -> tuple[Tensor, Tensor]:
        """The log-sum-exp over all pairs, as a leaf where ``rows`` say whose they are; and what falls to each row of theirs, (n,)."""
        stat = OfAll(family, float(temperature), rows is not None)
        if not self._has(stat):
            shares = torch.ones_like(self.rows[family.rows][:, 0])
            return shares.new_ones(()), shares
        found = self._known[stat]
        if rows is None:
            return found.total, found.shares
        total = found.total.clone().requires_grad_()
        self.uses.append(Use(stat, total, rows))
        return total, found.shares

    def total_weight(self, family: Family, weight: Callable[..., Any]) -> Tensor:
        """Weights of views, added up, (n,)."""
        return self._means(Means(family, Name(weight), False))[0]

    def weighted_cosines(
        self, family: Family, weight: Callable[..., Any], first: Tensor, second: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The same, and cosines weighed by them, (n,) each; of the rows ``first`` to ``second``, in the loss's graph."""
        stat = Means(family, Name(weight), True)
        total, vectors = self._means(stat)
        cosines = torch.linalg.vecdot(first, vectors)
        if stat not in self._pending and torch.is_grad_enabled() and second.requires_grad:
            leaf = torch.zeros_like(total).requires_grad_()
            self.uses.append(Use(stat, leaf, [(first.detach(), second)]))
            cosines = cosines + leaf
        return total, cosines

    def _means(self, stat: Means) -> tuple[Tensor, Tensor]:
        if not self._has(stat):
            like = self.rows[stat.family.rows]
            return torch.ones_like(like[:, 0]), like
        found: tuple[Tensor, Tensor] = self._known[stat]
        return found

    def known(self, stat: Stat) -> Any:
        """What is known."""
        return self._known[stat]

    def everyone(self, stat: Stat) -> Tensor:
        """A summary of the rows of all processes, (N, ...)."""
        if stat not in self._everyone and self._has(stat) and self.one_tile:
            self.gather(stat)
        if stat not in self._everyone:
            self._pending["everyone", stat] = None
            like, total = self.rows[stat.family.rows], sum(self.sizes(stat.family.rows))
            return like.new_ones((total, stat.summand.count) if isinstance(stat, Sums) else total)
        return self._everyone[stat]

    def nearest(self, family: Family) -> Nearest:
        """The hardest negatives, by number."""
        stat = Hardest(family)
        if not self._has(stat):
            like = self.rows[family.rows]
            zero = torch.zeros(len(like), dtype=torch.int64, device=self.device)
            return Nearest(like[:, 0], zero, zero, like, [])
        found: Nearest = self._known[stat]
        return found

    def hardest(
        self, family: Family, rows: list[tuple[Tensor, Tensor]] | None, at: slice = slice(None)
    ) -> PairSimilarity:
        """The hardest negatives of the rows, by chords; leaves where ``rows`` say whose they are."""
        nearest = self.nearest(family)
        first = self.rows[family.rows]
        if Hardest(family) not in self._known:  # numbers of their shape
            return LongPairs(first[at, :0], first[at, :0])
        for place, part in enumerate(family.parts):
            if part.rows != family.rows:
                first = torch.where((nearest.part == place)[:, None], self.rows[part.rows], first)
        if nearest.gathered:
            pairs = LongPairs(first[at], nearest.vectors[at])
        else:
            pairs = LongPairs(first[at], nearest.vectors, column=nearest.column[at])
        if rows is not None:
            self.uses.append(Use(Hardest(family), pairs, rows))
        return pairs

    def views_of(self, negatives: TileNegatives) -> Any:
        """The views whose negatives these are, as a tile's rows see them."""
        return self.views[negatives.family].seen_by(negatives.tile)

    def _has(self, stat: Stat) -> bool:
        """Whether a summary is known; one that is not is made, at once or in the next lap."""
        if stat in self._known:
            return True
        if not self.one_tile:
            self._pending[stat] = None
            return False
        assert self._make is not None
        with torch.no_grad():
            self._make(self, {stat: []})
        return True

    # Rounds.

    def evaluate(self, value: Callable[[], Tensor], like: Tensor, make: Make) -> Tensor:
        """The value, once all that it asks for is known.

        Args:
            value: evaluates the loss.
            like: a tensor of the batch.
            make: makes summaries, and says them by `learn`.

        Raises:
            GradlabError: on all processes, what one of them raises.
        """
        self._make = make
        for _ in range(MOST_ROUNDS):
            self._pending.clear()
            found, error = None, None
            try:
                found = value()
            except Exception as problem:  # which all processes are to hear of
                if self.ring.count == 1 or isinstance(problem, Told):
                    raise
                error = words_of(problem)
            self.ring.step(like, error)
            if not self._pending:
                assert found is not None
                return found
            # Of this round only pairs of given rows are kept, which are likely to be asked for again.
            kept = {key: one for key, one in self.pairs.items() if all(end.is_leaf for end in one.ends)}
            found, self.uses, self.pairs, self._before = None, [], {}, kept
            self._resolve(make)
        raise GradlabError(
            "this loss asks for something else whenever it is evaluated; what it sums over its negatives must be a method of "
            "the loss, or a function that takes nothing but numbers from around it"
        )

    def _resolve(self, make: Make) -> None:
        with torch.no_grad():
            asked = [one for one in self._pending if isinstance(one, Stat)]
            sides: dict[Stat, list[Side]] = {}
            for stat in asked:
                self._pending.clear()
                tile = Tile(self, slice(0, 1), self.ring.rank, slice(0, 1), None)
                stat.trial(tile)
                needs = [one for one in self._pending if one != stat]
                if needs:
                    asked += [one for one in needs if isinstance(one, Stat) and one not in asked]
                else:
                    sides[stat] = list(tile.asked)
                self._gather_known(needs)
            make(self, sides)
            self._pending.clear()

    def _gather_known(self, needs: list[Any]) -> None:
        for one in needs:
            if isinstance(one, tuple) and one[1] in self._known:
                self.gather(one[1])

    def gather(self, stat: Stat) -> None:
        """Have a summary of the rows of all processes."""
        if stat not in self._everyone:
            self._everyone[stat] = self.ring.gather(
                self._known[stat].contiguous(), self.sizes(stat.family.rows)
            )

    def close(self) -> None:
        """Let go of what is needed no more, and of views, which hold the session."""
        self.views.clear()
        self.products.clear()

    def learn(self, stat: Stat, found: Any) -> None:
        """Know a summary."""
        self._known[stat] = found
