"""Some rows of this process against some columns that are passing, and what losses make of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gradlab.errors import GradlabError
from gradlab.geometry.embeddings import Block, HardnessTerm
from gradlab.geometry.similarity import Negatives, PairSimilarity, gaps_of
from gradlab.large_batch.products import write_cosines
from gradlab.large_batch.shared.keys import Family, Session, SharedBlock, Side


class Tile:
    """A tile.

    Attributes:
        session: what is known of the whole.
        rows: this process's rows.
        owner: whose the columns are.
        columns: which of the owner's.
        travelling: these columns of the owner's by their sides; None on a trial, which only notes what is asked for.
        asked: the sides whose rows have to travel for what was asked.
        held: whether its cosines stay for others, as it has all pairs.
        mirrored: whether, of a view compared with itself, no tile has those of these pairs in their other order whose columns
            come after the rows.
    """

    def __init__(
        self,
        session: Session,
        rows: slice,
        owner: int,
        columns: slice,
        travelling: dict[Side, Tensor] | None,
        memory: Tensor | None = None,
        mirrored: bool = False,
    ) -> None:
        """``memory`` is used for the cosines of the first product."""
        self.session, self.rows, self.owner, self.columns = session, rows, owner, columns
        self.travelling, self.mirrored = travelling, mirrored
        self.asked: dict[Side, None] = {}
        self.held = session.one_tile and travelling is not None and not mirrored
        self._memory = memory
        self._raw: dict[tuple[Side, Side, bool], tuple[Tensor, int]] = session.products if self.held else {}

    def raw(self, part: SharedBlock) -> Tensor:
        """The cosines of a part's product, (B, k), -inf where a sentence meets itself if it is no negative of its own."""
        first, second = part.product
        key = (first, second, part.own)
        found, changes = self._raw.get(key, (None, 0))
        # What is held was meant to stay; a function of somebody's loss may have changed it all the same.
        if found is None or (self.held and _changes(found) != changes):
            found, self._memory = self._product(first, second, self._memory), None
            if part.own and self.owner == self.session.ring.rank:
                self._fill_own(found)
            self._raw[key] = found, _changes(found)
        return found

    def passing(self, side: Side) -> Tensor:
        """The columns, (k, D)."""
        assert self.travelling is not None
        return self.travelling[side]

    def guided(self, part: SharedBlock) -> Tensor:
        """The guide's cosines of a part, (B, k)."""
        first, second = (self.session.guide_side(side) for side in part.product)
        return self._product(first, second, None)

    def _product(self, first: Side, second: Side, memory: Tensor | None) -> Tensor:
        self.asked[second] = None
        rows = self.session.rows[first][self.rows]
        size = self.columns.stop - self.columns.start
        if self.travelling is None:
            return rows.new_zeros(rows.shape[0], size)
        found = rows.new_empty(rows.shape[0], size) if memory is None else memory[: rows.shape[0], :size]
        write_cosines(rows, self.travelling[second], found)
        return found

    def _fill_own(self, cosine: Tensor) -> None:
        first = max(self.rows.start, self.columns.start)
        last = min(self.rows.stop, self.columns.stop)
        if first < last:
            own = cosine[
                first - self.rows.start : last - self.rows.start,
                first - self.columns.start : last - self.columns.start,
            ]
            own.diagonal().fill_(-torch.inf)

    def numbers(self, side: Side, own: bool) -> slice:
        """Of this tile's own rows, or of its columns, the places among the rows of all processes."""
        here = self.rows if own else self.columns
        start = self.session.start(side, self.session.ring.rank if own else self.owner)
        return slice(start + here.start, start + here.stop)


def _changes(tensor: Tensor) -> int:
    """How often it has been written to, which tensors of inference mode do not count."""
    return 0 if tensor.is_inference() else tensor._version


class TileNegatives(Negatives):
    """Some negatives of some rows, which know the sums over all negatives of these rows.

    Attributes:
        spare: whether the memory of the cosines is needed by nobody else.
    """

    spare: bool
    tile: Tile
    family: Family
    place: int
    part: SharedBlock
    turned: bool

    def __init__(
        self, tile: Tile, family: Family, place: int, *, turned: bool | None = None, spare: bool = False
    ) -> None:
        """The tile's share of part ``place`` of a family.

        Args:
            tile: the tile.
            family: the negatives.
            place: of the part.
            turned: whether the rows are those that are passing; None if that is as the part says.
            spare: whether the memory of the tile's cosines may be used, once these have been read.
        """
        part = (family.straight if turned is False else family).parts[place]
        side = part.turned if turned is None else turned
        # Set past the frozen dataclass, whose fields are computed here.
        spare = spare and not tile.held
        self.__dict__.update(tile=tile, family=family, place=place, part=part, turned=side, spare=spare)

    @property
    def cosine(self) -> Tensor:  # type: ignore[override]  # a field there; made when asked for, as not all weights need it
        """(r, c), -inf where masked."""
        # No cached property: until Python 3.12 threads wait for each other at one, and here for each other's masks.
        if "made" not in self.__dict__:
            raw = self.tile.raw(self.part)
            made = self._left(raw.T if self.turned else raw)
            self.__dict__.update(made=made, spare=self.spare or made.data_ptr() != raw.data_ptr())
        found: Tensor = self.__dict__["made"]
        return found

    def gaps(self) -> Tensor:  # type: ignore[override]  # a field there; held here, the tile's memory outlived it in a circle
        """``1 - cos θ``, (r, c), from the rows."""
        tile, (first, second) = self.tile, self.part.product
        if tile.travelling is None:
            return 1 - self.cosine
        rows, columns = tile.session.rows[first][tile.rows], tile.travelling[second]
        return gaps_of(columns, rows, self.cosine) if self.turned else gaps_of(rows, columns, self.cosine)

    def _left(self, cosine: Tensor) -> Tensor:
        """Without what is masked, and with what is added."""
        if self.part.owned:
            cosine = cosine.masked_fill(self.owned, -torch.inf)
        for rule in sorted(self.family.rules, key=lambda rule: not rule.must_leave_negatives):
            out = rule.left_out(self._block, cosine, _Context(self))  # type: ignore[arg-type]  # what rules ask of views
            if out is None:
                continue
            if self.part.name == "positive_other" and not self.part.own:
                out = out & ~self.meets_itself
            cosine = cosine.masked_fill(out, -torch.inf)
        added: Any = 0.0
        for one, temperature in self.family.hardness:
            amount = one.alpha * temperature * cosine
            added = added + torch.where(self._hard(one), amount, 0.0)
        return torch.where(cosine.isinf(), cosine, cosine + added) if self.family.hardness else cosine

    def _hard(self, one: HardnessTerm) -> Tensor:
        yes = torch.ones((), dtype=torch.bool, device=self.tile.session.device)
        if one.on == "all":
            return yes
        if self.part.name == "extra" and one.on in ("in_batch", "hard"):
            return self.owned if one.on == "hard" else ~self.owned
        acts = (
            one.on != "hard" if self.part.name == "other" else one.on == "other" and self.part.name == "extra"
        )
        return yes if acts else ~yes

    @property
    def _block(self) -> Block:
        part, session = self.part, self.tile.session
        rows, columns = session.rows[part.rows], session.rows[part.columns]
        return Block(part.name, rows, columns, slice(0, len(columns)), part.own)

    @property
    def owned(self) -> Tensor:
        """Which extra negatives are hard negatives of which sentences, (r, c)."""
        session = self.tile.session
        numbers = self.tile.numbers(session.sentences, True)
        rows = torch.arange(numbers.start, numbers.stop, device=session.device)
        found: Tensor = rows[:, None] == session.owners[self.tile.numbers(self.part.columns, False)]
        return found

    @property
    def meets_itself(self) -> Tensor:
        """Where a sentence is compared with itself, (r, c)."""
        first, second = self.part.product
        rows, columns = self.tile.numbers(first, True), self.tile.numbers(second, False)
        device = self.tile.session.device
        found = torch.arange(rows.start, rows.stop, device=device)[:, None] == torch.arange(
            columns.start, columns.stop, device=device
        )
        return found.T if self.turned else found

    def known(self, stat: Any) -> Tensor:
        """What is known of the rows, (r, ...)."""
        session = self.tile.session
        if self.turned:
            return session.everyone(stat)[self.tile.numbers(self.part.rows, False)]
        found: Tensor = session.ask(stat, None)[self.tile.rows]
        return found

    def log_sum_exp(self, temperature: float) -> Tensor:
        """Over all negatives of a row, (r,); 0 where there are none, so that their softmax is 0."""
        return self.finite(self.tile.session.log_sum_exp(self.family, temperature))

    def log_sum_exp_of(self, logit: Any) -> Tensor:
        """As `log_sum_exp`."""
        return self.finite(self.tile.session.log_sum_exp(self.family, logit))

    def finite(self, stat: Any) -> Tensor:
        """A log-sum-exp, (r,)."""
        found = self.known(stat)
        lacking = self.family.rules or any(part.owned for part in self.family.parts)
        return found.masked_fill(found.isinf(), 0.0) if lacking else found

    def sum_of(self, quantity: Any, slope: Any = None) -> Tensor:
        """Over all negatives of a row, (r,)."""
        return self.known(self.tile.session.each(self.family, quantity, slope))[:, 0]

    def softmax(self, temperature: float) -> Tensor:
        """These columns of the softmax over all, (r, c)."""
        return torch.div(self.cosine, temperature).sub_(self.log_sum_exp(temperature)[:, None]).exp_()

    def softmax_of(self, logit: Any) -> Tensor:
        """These columns of the softmax over all, (r, c)."""
        return (self.logits(logit) - self.log_sum_exp_of(logit)[:, None]).exp_()

    def softmax_of_columns(self, temperature: float) -> Tensor:
        """Of similarities within one view, what the columns give to the rows in their own softmax, (r, c)."""
        session = self.tile.session
        every = session.everyone(session.log_sum_exp(self.family, temperature))
        own = every[self.tile.numbers(self.part.columns, False)]
        return torch.div(self.cosine, temperature).sub_(own).exp_()

    def softmax_of_all(self, temperature: float) -> Tensor:
        """This part of the softmax over all pairs of the batch, (r, c)."""
        total, _ = self.tile.session.of_all(self.family, temperature)
        return torch.div(self.cosine, temperature).sub_(total).exp_()

    @property
    def count(self) -> Tensor:
        """Of all negatives of a row, (r,)."""
        return self.known(self.tile.session.count(self.family))[:, 0]

    @property
    def hardest(self) -> PairSimilarity:  # type: ignore[override]  # a field or a cached property there
        """Of all negatives of a row, (r,)."""
        self._refuse_turned()
        session = self.tile.session
        return session.hardest(self.family, None, self.tile.rows)

    @property
    def hardest_index(self) -> Tensor:  # type: ignore[override]  # a field or a cached property there
        """Its column here, (r,); negative where it is none of these."""
        self._refuse_turned()
        session = self.tile.session
        nearest = session.nearest(self.family)
        here = self.tile.numbers(self.part.columns, False)
        column, rows = nearest.column[self.tile.rows], nearest.part[self.tile.rows]
        inside = (rows == self.place) & (column >= here.start) & (column < here.stop)
        return torch.where(inside, column - here.start, -1)

    def _refuse_turned(self) -> None:
        if self.turned:
            raise GradlabError("this weight needs the hardest negative of rows that other processes have")


class _Context:
    """What rules ask of views, of a tile."""

    def __init__(self, negatives: TileNegatives) -> None:
        self._negatives, self._session = negatives, negatives.tile.session

    @property
    def anchors(self) -> Tensor:
        return self._session.rows[self._negatives.part.product[0]]

    def guided(self, block: Block) -> tuple[Tensor, Tensor]:
        one = self._negatives
        found = one.tile.guided(one.part)
        if one.turned:
            everyone = self._session.guide_positives(everyone=True)
            return found.T, everyone[one.tile.numbers(one.part.rows, False)]
        return found, self._session.guide_positives(everyone=False)[one.tile.rows]

    def masked(self, block: Block) -> Tensor | None:
        one, mask = self._negatives, self._session.mask
        assert mask is not None
        n = self._session.sizes(self._session.sentences)[0]
        if block.name.endswith("extra"):
            return mask[:, n:][one.tile.rows, one.tile.columns] if mask.shape[1] > n else None
        first, second = (one.tile.columns, one.tile.rows) if one.turned else (one.tile.rows, one.tile.columns)
        return mask[first, second]

    def numbered(self, block: Block) -> tuple[Tensor, Tensor]:
        one, (every, extra) = self._negatives, self._session.numbers
        first, second = one.part.product
        own = every[one.tile.numbers(first, True)]
        others = (extra if block.name.endswith("extra") else every)[one.tile.numbers(second, False)]
        return (others, own) if one.turned else (own, others)


class HardestAlone(Negatives):
    """The hardest negative of each row as if it were the only one, and the sums over all."""

    session: Session
    family: Family

    def __init__(self, session: Session, family: Family, cosine: Tensor) -> None:
        """``cosine``, (n,), are those of the hardest negatives."""
        self.__dict__.update(session=session, family=family, cosine=cosine[:, None])

    def log_sum_exp(self, temperature: float) -> Tensor:
        """Over all negatives of a row, (n,)."""
        return self.session.ask(self.session.log_sum_exp(self.family, temperature), None)

    def log_sum_exp_of(self, logit: Any) -> Tensor:
        """Over all negatives of a row, (n,)."""
        return self.session.ask(self.session.log_sum_exp(self.family, logit), None)

    def sum_of(self, quantity: Any, slope: Any = None) -> Tensor:
        """Over all negatives of a row, (n,)."""
        return self.session.ask(self.session.each(self.family, quantity, slope), None)[:, 0]

    @property
    def count(self) -> Tensor:
        """Of all negatives of a row, (n,)."""
        return self.session.ask(self.session.count(self.family), None)[:, 0]

    @property
    def hardest(self) -> PairSimilarity:  # type: ignore[override]  # a field or a cached property there
        """(n,)."""
        return self.session.hardest(self.family, None)

    @property
    def hardest_index(self) -> Tensor:  # type: ignore[override]  # a field or a cached property there
        """0, (n,)."""
        return torch.zeros(len(self.cosine), dtype=torch.int64, device=self.cosine.device)
