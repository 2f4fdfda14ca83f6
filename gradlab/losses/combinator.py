"""What changes another loss: its directions, its negatives, their weights, its dimensions.

A combinator is a loss itself, so that it composes, trains, verifies and has components like any other. Its text is
``symmetric(infonce(temperature=0.1))``: the loss comes first. To add one, write one file with a registered subclass:

- of `OtherCandidates` where it changes what the negatives of an anchor are: `seen` returns the views as the loss is to see
  them, with other `gradlab.batch.candidates.Candidates`. Value, components of both sides and statistics follow.
- of `Modifier` (of one loss), or `Combinator` (of several) where it adds values of losses: `terms_of` says which, on which
  batches. Value and components of both sides follow.

All that a pair loss knows of its negatives it takes from the finished summary of a row, and of the other direction
from that of a column.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, detach
from gradlab.batch.batch import Batch
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss, PairLoss, unless
from gradlab.losses.candidate_loss import CandidateLoss
from gradlab.losses.components import Components, weighted_sum
from gradlab.losses.gates import CosineLogit, ExactGate, SoftGate, without_near
from gradlab.losses.registry import check_closed_form, get_loss
from gradlab.settings import setting


@dataclasses.dataclass(frozen=True)
class Combinator(Loss):
    """A loss made of others, its `terms`."""

    is_combinator: ClassVar[bool] = True
    first_setting: ClassVar[str]
    of_pairs: ClassVar[bool] = False  #: whether its losses must be functions of pair similarities
    paper: ClassVar[str] = ""
    latex: ClassVar = {  # the canonical split
        "gradient_dissipation": r"\sum_j n_{ij}",
        "weight": r"n_{ij}/\sum_k n_{ik}",
        "ratio": r"a_i/\sum_k n_{ik}",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        for base in self.bases:
            check_closed_form(base, self.name)
        for base in self.bases if self.of_pairs else ():
            if not isinstance(base, PairLoss | CandidateLoss):
                raise GradlabError(
                    f"{self.name} takes losses of pair similarities such as infonce, or combinators of them; {base.name} "
                    "compares whole views"
                )

    @property
    @abc.abstractmethod
    def terms(self) -> tuple[Loss, ...]:
        """The losses that it is directly made of."""

    @abc.abstractmethod
    def terms_of(self, batch: Batch) -> list[tuple[float, Loss, Batch]]:
        """The losses that it adds up on a batch: their weights, the losses, and the batches as they see them."""

    def value_of(self, views: Batch) -> Float[Array, "*n"]:
        values = [weight * loss.value_of(seen) for weight, loss, seen in self.terms_of(views)]
        return sum(values[1:], values[0])

    @property
    def within(self) -> tuple[Loss, ...]:
        return self, *(one for term in self.terms for one in term.within)

    @property
    def looks_at(self) -> frozenset[str]:
        return frozenset().union(*(term.looks_at for term in self.terms))

    # Attributes of the class in other losses; here they depend on what is changed.

    @property
    def takes_own_negatives(self) -> bool:  # type: ignore[override]
        """Where the loss of the anchors' direction does."""
        return self.terms[0].takes_own_negatives

    @property
    def needs_teacher(self) -> bool:  # type: ignore[override]
        return any(base.needs_teacher for base in self.bases)

    @property
    def exact_in(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset.intersection(*(base.exact_in for base in self.bases))

    @property
    def exact_in_full(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset.intersection(*(base.exact_in_full for base in self.bases))

    @property
    def surrogate(self) -> bool:  # type: ignore[override]
        return any(base.surrogate for base in self.bases)

    def components_of(self, views: Batch) -> Components:
        return self.sides_of(views)[0]

    def sides_of(self, views: Batch) -> tuple[Components, Components]:
        return self._added(views, self.terms_of(views))

    def _added(
        self, views: Batch, terms: Sequence[tuple[float, Loss, Batch]], exchanged: Sequence[int] = ()
    ) -> tuple[Components, Components]:
        """The weighted sum of the sides of terms, of which those that are ``exchanged`` see the positives as anchors."""
        factors = [weight for weight, _, _ in terms]
        if len({id(loss) for _, loss, _ in terms}) > 1:
            scalars = [loss.is_scalar(seen) for _, loss, seen in terms]
            if any(scalars) != all(scalars):  # the batch's value stands in each of the rows that are summed
                factors = [
                    (views.count if scalar else 1) * factor  # in this order the explorer keeps the count
                    for factor, scalar in zip(factors, scalars, strict=True)
                ]
        sides: list[tuple[Components, ...]] = [loss.sides_of(seen) for _, loss, seen in terms]
        # Of both directions the rows' own side: row i is sentence i in either.
        gates = [weight * rows.gate for (weight, _, _), (rows, _) in zip(terms, sides, strict=True)]
        gate = sum(gates[1:], gates[0]) / sum(weight for weight, _, _ in terms)
        sides = [both[:: -1 if at in exchanged else 1] for at, both in enumerate(sides)]
        seen_by_anchors, seen_by_positives = (
            list(zip(factors, parts, strict=True)) for parts in zip(*sides, strict=True)
        )
        anchors = weighted_sum(seen_by_anchors, views, "anchors", gate)
        positives = weighted_sum(seen_by_positives, views.exchanged(), "positives")
        return dataclasses.replace(anchors, counterpart=positives), positives


@dataclasses.dataclass(frozen=True)
class Modifier(Combinator):
    """A loss made of another one, its first setting."""

    loss: Any = setting("infonce", "loss that is changed, such as infonce(temperature=0.1)", rule="text")

    first_setting: ClassVar[str] = "loss"

    def __post_init__(self) -> None:
        object.__setattr__(self, "loss", get_loss(self.loss))
        super().__post_init__()

    @property
    def terms(self) -> tuple[Loss, ...]:
        return (self.loss,)


@dataclasses.dataclass(frozen=True)
class OtherCandidates(Modifier):
    """A loss whose anchors have other negatives."""

    of_pairs = True

    @property
    def acts_across_views(self) -> bool:
        return bool(self.loss.acts_across_views)

    @abc.abstractmethod
    def seen(self, views: Batch) -> Batch:
        """The views as the loss sees them."""

    def terms_of(self, batch: Batch) -> list[tuple[float, Loss, Batch]]:
        return [(1.0, self.loss, self.seen(batch))]

    def changed(self, row: ChangedRow) -> ChangedRow | None:
        """What it makes of a loss of one anchor's similarities; None where these do not tell which negatives it has."""
        return None

    def row_loss(self) -> ChangedRow | None:
        row = self.loss.row_loss()
        if row is None:
            return None
        return self.changed(row if isinstance(row, ChangedRow) else ChangedRow(row))

    def exact_gate(self) -> ExactGate | None:
        row = self.row_loss()
        return None if row is None else row.exact_gate()

    def components_of(self, views: Batch) -> Components:
        return self.terms[0].components_of(self.seen(views))

    def sides_of(self, views: Batch) -> tuple[Components, Components]:
        return self.terms[0].sides_of(self.seen(views))


def read_weights(given: Any, count: int, of: str) -> list[float]:
    """So many weights greater than 0, one for each of what they are ``of``; 1 each where nothing is given."""
    weights = read_numbers(given, "weights") or [1.0] * count
    if len(weights) != count or not all(0 < weight < math.inf for weight in weights):
        raise GradlabError(
            f"weights must be {count} numbers greater than 0, one for each {of}, not {given!r}"
        )
    return weights


def write_weights(weights: Sequence[float]) -> str:
    """The text that `read_weights` reads, empty where all of them are 1."""
    return "" if all(weight == 1 for weight in weights) else "+".join(map(repr, weights))


def read_numbers(given: Any, name: str) -> list[float]:
    """Numbers from a text such as ``1+0.1``, a number or a list."""
    parts: Iterable[Any] = given
    if isinstance(given, str):
        parts = [part for part in given.split("+") if part.strip()]
    elif isinstance(given, (int, float)):
        parts = [given]
    try:
        return [float(part) for part in parts]
    except (TypeError, ValueError):
        raise GradlabError(f"{name} must be numbers, joined by +, not {given!r}") from None


@dataclasses.dataclass(frozen=True)
class ChangedRow:
    """A loss of pairs without near negatives, or with hard ones that weigh more; shapes as in `gradlab.losses.base.PairLoss`.

    Which negatives are near is told by their cosines as they are, in whatever order the two changes are made.
    """

    loss: PairLoss
    above: float = math.inf  # cosine above which a negative does not count
    alpha: float = 0.0  # factor of the cosine that is added to the logits

    @property
    def one_hot_weight(self) -> bool:
        return self.loss.one_hot_weight

    def exact_gate(self) -> ExactGate | None:
        """The loss's, of the negatives that are left, at the temperature ``1/(1/τ + α)``; a constant one does not depend on that."""
        gate = self.loss.exact_gate()
        if self.alpha and isinstance(gate, SoftGate):
            hardened = CosineLogit(1 / (1 / self._temperature + self.alpha))
            gate = dataclasses.replace(gate, negative_logit=hardened)
        return None if gate is None else without_near(gate, self.above)

    def summary(self, negatives: Negatives) -> Any:
        """The loss's, and which anchors have no negative left; None where none has, or those keep their pull."""
        seen, alone = self._seen(negatives)
        return self.loss.summary(seen), alone

    def dissipation(self, positive: PairSimilarity, summary: Any) -> Float[Array, "*n"]:
        """Gradient dissipation; 0 where no negative is left."""
        own, alone = summary
        return unless(alone, self.loss.dissipation(positive, own))

    def ratio(self, positive: PairSimilarity, summary: Any) -> Float[Array, "*n"]:
        """Ratio; NaN where no negative is left."""
        own, alone = summary
        return unless(alone, self.loss.ratio(positive, own), float("nan"))

    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Weight; zeros where no negative is left."""
        seen, alone = self._seen(negatives)
        return unless(None if alone is None else alone[..., None], self.loss.weight(seen))

    def _seen(self, negatives: Negatives) -> tuple[Negatives, Bool[Array, "*n"] | None]:
        cosine = negatives.cosine
        xp = array_namespace(cosine)
        if self.above < math.inf:
            cosine = xp.where(cosine > self.above, -xp.inf, cosine)
        if self.alpha:
            cosine = cosine + self.alpha * self._temperature * detach(cosine)
        changed = dataclasses.replace(negatives, cosine=cosine)
        return (changed, None) if self.loss.pulls_alone else changed.with_some()

    @property
    def _temperature(self) -> float:
        found: float = self.loss.temperature  # type: ignore[attr-defined]  # losses that take hardness have one
        return found
