"""Two views of a batch of which this process has a share; what is not its own it asks for."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gradlab.errors import GradlabError
from gradlab.geometry.candidates import blocks_of
from gradlab.geometry.similarity import Negatives, OfEach, PairSimilarity
from gradlab.geometry.views import Views
from gradlab.large_batch.shared.communicator import gathered, summed
from gradlab.large_batch.shared.keys import Family, SharedBlock, Side
from gradlab.large_batch.shared.session import Session
from gradlab.large_batch.shared.tile import HardestAlone, Tile, TileNegatives
from gradlab.large_batch.similarity import LazyPairs

NEEDS_ALL = (
    "this loss needs all similarities of the batch at once, which nobody holds; it needs a value made of summaries, such as "
    "log_sum_exp, hardest, sum_of or weighted"
)


class SharedNegatives(Negatives):
    """The negatives of this process's rows, known by their summaries."""

    session: Session
    family: Family
    rows: list[tuple[Tensor, Tensor]]
    fill: bool

    def __init__(
        self, session: Session, family: Family, rows: list[tuple[Tensor, Tensor]], alone: bool = False
    ) -> None:
        """Negatives.

        Args:
            session: where to ask.
            family: what they are.
            rows: for each part of the family, the tensors of rows and columns.
            alone: whether rows without negatives are to have finite summaries.
        """
        # Set past the frozen dataclass, whose fields are never computed here.
        self.__dict__.update(session=session, family=family, rows=rows, fill=alone)

    def _ask(self, stat: Any) -> Tensor:
        return self.session.ask(stat, self.rows)

    @property
    def cosine(self) -> Tensor:  # type: ignore[override]  # a field or a cached property there
        """Refused.

        Raises:
            GradlabError: always.
        """
        raise GradlabError(NEEDS_ALL)

    @property
    def count(self) -> Tensor:
        """(n,)."""
        return self.session.ask(self.session.count(self.family), None)[:, 0]

    def log_sum_exp(self, temperature: float) -> Tensor:
        """(n,)."""
        return self._filled(self._ask(self.session.log_sum_exp(self.family, temperature)))

    def log_sum_exp_of(self, logit: OfEach) -> Tensor:
        """(n,)."""
        return self._filled(self._ask(self.session.log_sum_exp(self.family, logit)))

    def sum_of(self, quantity: OfEach, slope: OfEach | None = None) -> Tensor:
        """(n,)."""
        return self._ask(self.session.each(self.family, quantity, slope))[:, 0]

    def mean_of(self, quantity: OfEach, logit: OfEach) -> Tensor:
        """(n,), without gradient."""
        return self.session.ask(self.session.mean(self.family, quantity, logit), None)[:, 0]

    def weighted(self, weight: Callable[[Negatives], Any], *, one_hot: bool = False) -> tuple[Tensor, Tensor]:
        """(n,) each."""
        if one_hot:
            hardest = self.hardest
            seen = HardestAlone(self.session, self.family, hardest.cosine.detach())
            total = weight(seen).detach()[:, 0]
            return total, total * hardest.cosine
        found = self._ask(self.session.weighted(self.family, weight))
        return found[:, 0].detach(), found[:, 1]

    @property
    def hardest(self) -> PairSimilarity:  # type: ignore[override]  # a field or a cached property there
        """(n,)."""
        return self.session.hardest(self.family, self.rows)

    @property
    def hardest_index(self) -> Tensor:  # type: ignore[override]  # a field or a cached property there
        """Refused: it is a column of the matrix that nobody holds."""
        raise GradlabError(NEEDS_ALL)

    def softmax(self, temperature: float) -> Tensor:
        """Refused."""
        raise GradlabError(NEEDS_ALL)

    def softmax_of(self, logit: OfEach) -> Tensor:
        """Refused."""
        raise GradlabError(NEEDS_ALL)

    def log_sum_exp_of_all(self, temperature: float) -> Tensor:
        """``log Σ_ik exp(cos θ_ik / τ)``, a scalar."""
        return self._of_all(temperature)[0]

    def shares_of_all(self, temperature: float) -> Tensor:
        """What falls to each row of the softmax over all pairs, (n,); without gradient."""
        return self._of_all(temperature)[1]

    def with_some(self) -> tuple[Negatives, Tensor]:
        """With finite summaries where there are no negatives, and where that is, (n,)."""
        return SharedNegatives(self.session, self.family, self.rows, True), self.count == 0

    def _of_all(self, temperature: float) -> tuple[Tensor, Tensor]:
        """Both; where gradients would travel, or rows are columns of the product, from the log-sum-exps of the rows."""
        (part, *others), ring = self.family.parts, self.session.ring
        moving = torch.is_grad_enabled() and any(end.requires_grad for ends in self.rows for end in ends)
        travels = moving and ring.count > 1 and not part.is_square
        if not (others or part.turned or travels):
            return self.session.of_all(self.family, temperature, self.rows if moving else None)
        own = self._ask(self.session.log_sum_exp(self.family, temperature))
        total = gathered(ring, own).logsumexp(0)
        return total, (own - total).detach().exp()

    def _filled(self, found: Tensor) -> Tensor:
        return torch.where(found.isinf(), 0.0, found) if self.fill else found


@dataclasses.dataclass(frozen=True)
class SharedViews(Views):
    """The views.

    Attributes:
        session: where to ask.
        flipped: whether the anchors are the positives of the batch as it was given.
        whole: whether the extra negatives are further sentences.
    """

    session: Session = dataclasses.field(kw_only=True)
    flipped: bool = False
    whole: bool = False

    @functools.cached_property
    def negatives(self) -> Negatives:
        """The candidates."""
        rules = self.candidates.rules
        found = self._family(blocks_of(self), rules)
        if must := tuple(rule for rule in rules if rule.must_leave_negatives):
            left = self._family(blocks_of(self), must).count
            if not bool((left > 0).all()):
                alone = int((left > 0).to(torch.uint8).argmin())
                raise GradlabError(f"the mask leaves anchor {alone} no negative; leave it at least one")
        return found

    @functools.cached_property
    def other_view(self) -> Negatives:
        """The usual candidates."""
        return self._family(blocks_of(self.with_candidates(pools=("other",), rules=(), hardness=())), ())

    @functools.cached_property
    def same_view(self) -> Negatives:
        """Within the anchors."""
        return self._within("same", self.anchors, self.anchors)

    @functools.cached_property
    def same_view_fixed(self) -> Negatives:
        """Within the anchors, the others fixed."""
        return self._within("same", self.anchors, self.anchors.detach())

    @functools.cached_property
    def positive_view(self) -> Negatives:
        """Within the positives."""
        return self._within("positive_same", self.positives, self.positives)

    def pair(self, first: Tensor, second: Tensor) -> PairSimilarity:
        """Row by row."""
        if first.shape != second.shape:
            first, second = torch.broadcast_tensors(first, second)
        return self.session.pair(first, second)

    def hardened(self, negatives: Negatives, temperature: float) -> Negatives:
        """With hardness."""
        assert isinstance(negatives, SharedNegatives)
        for one in self.candidates.hardness:
            if (
                one.on in ("in_batch", "hard")
                and self.extra_negatives is not None
                and self.session.owners is None
            ):
                raise GradlabError(
                    "whose hard negatives the extra negatives are is not known; give their owners"
                )
        hardness = tuple((one, float(temperature)) for one in self.candidates.hardness)
        family = dataclasses.replace(negatives.family, hardness=hardness)
        return SharedNegatives(self.session, family, negatives.rows)

    @property
    def count(self) -> int:
        """N."""
        return sum(self.session.sizes(Side("a", self.whole, 0)))

    def gathered(self, values: Tensor) -> Tensor:
        """Of all processes."""
        self.session.ring.step(values)
        return gathered(self.session.ring, values)

    def total(self, values: Tensor) -> Tensor:
        """Over the processes."""
        self.session.ring.step(values)
        return summed(self.session.ring, values)

    def total_weight(self, weight: Callable[[Views], Any]) -> Tensor:
        """(n,)."""
        family = self._compared(weight)
        self.session.views[family] = self
        return self.session.total_weight(family, weight)

    def weighted_cosines(self, weight: Callable[[Views], Any], negatives: Negatives) -> tuple[Tensor, Tensor]:
        """(n,) each."""
        assert isinstance(negatives, SharedNegatives)
        self.session.views[family := negatives.family.straight] = self
        ((first, second),) = negatives.rows
        return self.session.weighted_cosines(family, weight, first, second)

    def sharing_products(self) -> SharedViews:
        """These views, which hold no products."""
        return self

    def exchanged(self) -> SharedViews:
        """The positives are the anchors."""
        return dataclasses.replace(
            self, anchors=self.positives, positives=self.anchors, flipped=not self.flipped
        )

    def without_extra_negatives(self) -> SharedViews:
        """The same batch alone."""
        return dataclasses.replace(self, extra_negatives=None, owners=None)

    def with_extra_sentences(self) -> SharedViews:
        """The extra negatives as further sentences."""
        more = super().with_extra_sentences()
        assert isinstance(more, SharedViews)
        return dataclasses.replace(more, whole=True)

    def seen_by(self, tile: Tile) -> TileViews:
        """As a tile's rows see them."""
        names = [field.name for field in dataclasses.fields(SharedViews)]
        return TileViews(**{name: getattr(self, name) for name in names}, tile=tile)

    def _within(self, name: str, first: Tensor, second: Tensor) -> Negatives:
        side = self._side("anchors" if name == "same" else "positives", first)
        return self._make(Family((SharedBlock(name, side, side, True),)), [(first, second)])

    def _family(self, blocks: list[Any], rules: tuple[Any, ...]) -> SharedNegatives:
        made = []
        for block in blocks:
            first = "positives" if block.name.startswith("positive") else "anchors"
            last = {"other": "positives", "positive_same": "positives"}.get(block.name, "anchors")
            last = "extra_negatives" if block.name.endswith("extra") else last
            owned = block.name == "positive_extra" and self.session.owners is not None
            sides = self._side(first, block.rows), self._side(last, block.vectors)
            made.append((SharedBlock(block.name, *sides, block.own, owned), block.rows, block.vectors))
        family = Family(tuple(part for part, _, _ in made), rules)
        return self._make(family, [(first, second) for _, first, second in made])

    def _make(self, family: Family, rows: list[tuple[Tensor, Tensor]]) -> Any:
        return SharedNegatives(self.session, family, rows)

    def _side(self, name: str, rows: Tensor) -> Side:
        role = "e" if name == "extra_negatives" else "ab"[(name == "positives") != self.flipped]
        side, held = Side(role, self.whole and role != "e", rows.shape[1]), self.session.rows
        rows = rows.detach()
        if len(rows) != self.session.sizes(side)[self.session.ring.rank]:
            raise GradlabError(
                f"this loss compares {len(rows)} rows where the batch has {self.session.sizes(side)[self.session.ring.rank]}; "
                "blockwise compares all of them"
            )
        # A loss may put other rows in their place. Several processes need one that says how it exchanges views.
        while self.session.ring.count == 1 and side in held and not _same(held[side], rows):
            side = dataclasses.replace(side, version=side.version + 1)
        if self.session.ring.count == 1 or side not in held:  # the newest, by which it is known again
            held[side] = rows.contiguous()
        return side

    def _compared(self, weight: Any) -> Family:
        """The columns that a loss's weights stand for."""
        loss = getattr(weight, "__self__", None)
        view = getattr(loss, "negative_view", "other")
        negatives: Any = self.same_view if view == "same" else self.other_view
        family: Family = negatives.family.straight
        return family


@dataclasses.dataclass(frozen=True)
class TileViews(SharedViews):
    """What the rows of a tile see of the passing columns, without gradient.

    Attributes:
        tile: the tile.
    """

    tile: Tile = dataclasses.field(kw_only=True)

    @functools.cached_property
    def positive(self) -> PairSimilarity:
        """Of the tile's rows."""
        rows = self.tile.rows
        return LazyPairs(self.anchors.detach()[rows], self.positives.detach()[rows])

    def total(self, values: Tensor) -> Tensor:
        """Refused: tiles are no part of the batch that processes could add up."""
        raise GradlabError(NEEDS_ALL)

    def gathered(self, values: Tensor) -> Tensor:
        """Refused."""
        raise GradlabError(NEEDS_ALL)

    def total_weight(self, weight: Callable[[Views], Any]) -> Tensor:
        """Of the tile's rows."""
        return super().total_weight(weight)[self.tile.rows]

    def _make(self, family: Family, rows: list[tuple[Tensor, Tensor]]) -> Any:
        if len(family.parts) > 1:
            raise GradlabError(NEEDS_ALL)
        return TileNegatives(self.tile, family, 0, turned=False)


def _same(first: Tensor, second: Tensor) -> bool:
    return first.data_ptr() == second.data_ptr() or torch.equal(first, second)
