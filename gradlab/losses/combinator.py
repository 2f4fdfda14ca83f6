"""Combinators, which change losses (directions, negatives, weights, dimensions) or add them.

A combinator is a loss, so it composes, trains, verifies and has components like any other. Its text
starts with the loss that it changes: ``symmetric(infonce(temperature=0.1))``. To add a combinator,
write a file with a registered subclass of

- `OtherCandidates` if it changes the negatives of an anchor: `inner_batch` returns the batch with
  other `gradlab.batch.candidates.Candidates`. Value, components of both sides and statistics
  follow.
- `Modifier` (for one loss) or `Combinator` (for several) if it adds values of losses: `terms_of`
  returns the losses, their weights and their batches. Value and components of both sides follow.
"""

from __future__ import annotations

import abc
import dataclasses
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, cached_property, detach
from gradlab.batch.batch import Batch
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.losses.candidate_loss import CandidateLoss
from gradlab.losses.canonical_split import weighted_sum
from gradlab.losses.components import Components, completed
from gradlab.losses.exact_gates import CosineLogit, ExactGate, SoftGate, without_near
from gradlab.losses.pair_loss import PairLoss, unless
from gradlab.losses.registry import check_closed_form, get_loss
from gradlab.settings import setting

# Limits of nested losses: a value of `symmetric` 16 deep would take 65,536 evaluations.
MAX_DEPTH, MAX_EVALUATIONS = 16, 256


@dataclasses.dataclass(frozen=True)
class Combinator(Loss):
    """Base class of losses that are made of other losses, their `terms`."""

    is_combinator: ClassVar[bool] = True
    first_setting: ClassVar[str]
    of_pairs: ClassVar[bool] = False  #: whether its losses must be functions of pair similarities
    #: indices of the terms in which the positives are the anchors
    exchanged_terms: ClassVar[tuple[int, ...]] = ()
    paper: ClassVar[str] = ""
    latex: ClassVar = {  # the canonical split
        "gradient_dissipation": r"\sum_j n_{ij}",
        "weight": r"n_{ij}/\sum_k n_{ik}",
        "ratio": r"a_i/\sum_k n_{ik}",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self._fix_nested()
        self._check_size()
        for base in self.bases:
            check_closed_form(base, self.name)
        for base in self.bases if self.of_pairs else ():
            if not isinstance(base, PairLoss | CandidateLoss):
                raise GradlabError(
                    f"{self.name} takes losses of pair similarities such as infonce, "
                    f"or combinators of them; {base.name} compares whole views"
                )
        self._fix(
            looks_at=frozenset().union(*(term.looks_at for term in self.terms)),
            exact_in=frozenset.intersection(*(base.exact_in for base in self.bases)),
            surrogate=any(base.surrogate for base in self.bases),
        )

    def _check_size(self) -> None:
        if self.depth > MAX_DEPTH:
            raise GradlabError(
                f"at most {MAX_DEPTH} losses can be nested in each other; "
                f"{self.name} would be around {self.depth - 1}"
            )
        if self.evaluations > MAX_EVALUATIONS:
            raise GradlabError(
                f"a loss can be made of at most {MAX_EVALUATIONS} evaluations of others; "
                f"{self.name} would take {self.evaluations}"
            )

    @property
    @abc.abstractmethod
    def terms(self) -> tuple[Loss, ...]:
        """The losses that the combinator is directly made of."""

    @abc.abstractmethod
    def terms_of(self, batch: Batch) -> list[tuple[float, Loss, Batch]]:
        """Return the terms of a sum on a batch: weight, loss, and the batch that the loss gets."""

    def value_of(self, batch: Batch) -> Float[Array, "*n"]:
        values = [
            weight * loss.value_of(candidates) for weight, loss, candidates in self.terms_of(batch)
        ]
        return sum(values[1:], values[0])

    def leaves(self, batch: Batch) -> Iterator[tuple[Loss, Batch]]:
        for _, loss, candidates in self.terms_of(batch):
            yield from loss.leaves(candidates)

    # Two terms may be one loss, so that counts would take time 2^depth if they were not kept.

    @cached_property
    def depth(self) -> int:  # a property in other losses
        return 1 + max(term.depth for term in self.terms)

    @cached_property
    def evaluations(self) -> int:
        return sum(term.evaluations for term in self.terms)

    def is_scalar(self, batch: Batch) -> bool:
        return all(base.is_scalar(batch) for base in self.bases)

    @property
    def within(self) -> tuple[Loss, ...]:
        """The loss itself and all losses nested in it, each once."""
        return self, *vars(self)["_nested"]

    def _fix_nested(self) -> None:
        """Walk the tree of nested losses, once for each loss."""
        nested = {id(loss): loss for term in self.terms for loss in term.within}
        self._fix(_nested=tuple(nested.values()))

    def unchecked(self, settings: Mapping[str, Any]) -> Self:
        copied = super().unchecked(settings)
        copied._fix_nested()
        return copied

    def components_of(self, batch: Batch) -> Components:
        return self._added(batch, self.terms_of(batch), positives=False)[0]

    def sides_of(self, batch: Batch) -> tuple[Components, Components]:
        anchors, positives = self._added(batch, self.terms_of(batch))
        assert positives is not None
        return completed(anchors, counterpart=positives), positives

    def displaced_pushes(self, batch: Batch) -> Sequence[Float[Array, "n"]] | None:
        """Add the pushes on anchors with their positives away; None if a term has none."""
        pushes_of_terms = []
        for weight, loss, candidates in self.terms_of(batch):
            pushes = loss.displaced_pushes(candidates)
            if pushes is None:
                return None
            pushes_of_terms.append([weight * push for push in pushes])
        return [sum(pushes[1:], pushes[0]) for pushes in zip(*pushes_of_terms, strict=True)]

    def _added(
        self, batch: Batch, terms: Sequence[tuple[float, Loss, Batch]], *, positives: bool = True
    ) -> tuple[Components, Components | None]:
        """Add the components of the terms, of the anchors and, if asked for, of the positives."""
        factors = _factors(batch, terms)
        anchor_sides, positive_sides, gates = [], [], []
        for index, (weight, loss, candidates) in enumerate(terms):
            exchanged = index in self.exchanged_terms
            if exchanged or positives:
                sides = loss.sides_of(candidates)
            else:
                sides = (loss.components_of(candidates),) * 2
            # The gate of the rows in both directions: row i is sentence i in either one.
            gates.append(weight * sides[0].gate)
            anchor_sides.append((factors[index], sides[exchanged]))
            positive_sides.append((factors[index], sides[not exchanged]))
        gate = sum(gates[1:], gates[0]) / sum(weight for weight, _, _ in terms)
        anchors = weighted_sum(anchor_sides, batch, "anchors", gate)
        if not positives:
            return anchors, None
        return anchors, weighted_sum(positive_sides, batch.exchanged(), "positives")


@dataclasses.dataclass(frozen=True)
class Modifier(Combinator):
    """Base class of combinators that change one loss, their first setting."""

    loss: Any = setting(
        "infonce", "loss that is changed, such as infonce(temperature=0.1)", rule="text"
    )

    first_setting: ClassVar[str] = "loss"

    def __post_init__(self) -> None:
        self._fix(loss=get_loss(self.loss))
        super().__post_init__()

    @property
    def terms(self) -> tuple[Loss, ...]:
        return (self.loss,)


@dataclasses.dataclass(frozen=True)
class OtherCandidates(Modifier):
    """Base class of combinators that give the anchors of a loss other negatives."""

    of_pairs = True

    @abc.abstractmethod
    def inner_batch(self, batch: Batch) -> Batch:
        """Return the views that the inner loss is computed on."""

    def terms_of(self, batch: Batch) -> list[tuple[float, Loss, Batch]]:
        return [(1.0, self.loss, self.inner_batch(batch))]

    def changed(self, row: ChangedRow) -> ChangedRow | None:
        """Return the changed row loss; None if a row's cosines do not determine its negatives."""
        return None

    def row_loss(self) -> ChangedRow | None:
        row = self.loss.row_loss()
        if row is None:
            return None
        return self.changed(row if isinstance(row, ChangedRow) else ChangedRow(row))

    def exact_gate(self) -> ExactGate | None:
        row = self.row_loss()
        return None if row is None else row.exact_gate()

    def components_of(self, batch: Batch) -> Components:
        """Return the components in the split of the loss, if there is one term."""
        (_, loss, candidates), *further = self.terms_of(batch)
        return super().components_of(batch) if further else loss.components_of(candidates)

    def sides_of(self, batch: Batch) -> tuple[Components, Components]:
        (_, loss, candidates), *further = self.terms_of(batch)
        return super().sides_of(batch) if further else loss.sides_of(candidates)


def read_weights(weights_text: Any, count: int, of: str) -> list[float]:
    """Read ``count`` finite weights above 0 of what ``of`` names; 1 each if none are given."""
    weights = read_numbers(weights_text, "weights") or [1.0] * count
    if len(weights) != count or not all(0 < weight < math.inf for weight in weights):
        raise GradlabError(
            f"weights must be {count} numbers greater than 0, one for each {of}, "
            f"not {weights_text!r}"
        )
    return weights


def write_weights(weights: Sequence[float]) -> str:
    """Return the text that `read_weights` reads; empty if all weights are 1."""
    return "" if all(weight == 1 for weight in weights) else "+".join(map(repr, weights))


def read_numbers(numbers: Any, name: str) -> list[float]:
    """Read numbers from a text such as ``1+0.1``, a number or a list; else raise `GradlabError`."""
    terms: Iterable[Any] = numbers
    if isinstance(numbers, str):
        # The + of an exponent, as in 1e+16, joins nothing.
        terms = [term for term in re.split(r"(?<![eE])\+", numbers) if term.strip()]
    elif isinstance(numbers, (int, float)):
        terms = [numbers]
    try:
        return [float(term) for term in terms]
    except (TypeError, ValueError):
        raise GradlabError(f"{name} must be numbers, joined by +, not {numbers!r}") from None


@dataclasses.dataclass(frozen=True)
class ChangedRow:
    """A `PairLoss` without near negatives or with hard ones upweighted; it has the same shapes.

    The threshold ``above`` applies to the unchanged cosines, whichever of the two
    changes comes first.
    """

    loss: PairLoss
    above: float = math.inf  # negatives with a cosine above it are left out
    alpha: float = 0.0  # factor of the cosine that is added to the logits

    @property
    def one_hot_weight(self) -> bool:
        return self.loss.one_hot_weight

    def exact_gate(self) -> ExactGate | None:
        """Return the gate without near negatives, the others at the temperature ``1/(1/τ + α)``."""
        gate = self.loss.exact_gate()
        if self.alpha and isinstance(gate, SoftGate):
            hardened = CosineLogit(1 / (1 / self._temperature + self.alpha))
            gate = dataclasses.replace(gate, negative_logit=hardened)
        return None if gate is None else without_near(gate, self.above)

    def summary(self, negatives: Negatives) -> Any:
        """Return the loss's summary, and which anchors have no negatives (None if irrelevant)."""
        changed, alone = self._changed(negatives)
        return self.loss.summary(changed), alone

    def dissipation(self, positive: PairSimilarity, summary: Any) -> Float[Array, "*n"]:
        """Return the gradient dissipation; 0 for an anchor without negatives."""
        return unless(summary[1], self.loss.dissipation(positive, summary[0]))

    def ratio(self, positive: PairSimilarity, summary: Any) -> Float[Array, "*n"]:
        """Return the ratio; NaN for an anchor without negatives."""
        return unless(summary[1], self.loss.ratio(positive, summary[0]), math.nan)

    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return the weight; zeros for an anchor without negatives."""
        changed, alone = self._changed(negatives)
        return unless(None if alone is None else alone[..., None], self.loss.weight(changed))

    def _changed(self, negatives: Any) -> tuple[Negatives, Bool[Array, "*n"] | None]:
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
        temperature: float = self.loss.temperature  # type: ignore[attr-defined]  # every loss that takes hardness has one
        return temperature


def _factors(batch: Batch, terms: Sequence[tuple[float, Loss, Batch]]) -> list[float]:
    """Return the factor of each term's components, which belong to a sum over rows.

    A sum with a value per row contains the one value of a whole batch once per row.
    """
    factors = [weight for weight, _, _ in terms]
    if len({id(loss) for _, loss, _ in terms}) == 1:
        return factors
    scalars = [loss.is_scalar(candidates) for _, loss, candidates in terms]
    if all(scalars):
        return factors
    # Count first: the explorer then records it.
    return [
        batch.count * factor if scalar else factor
        for factor, scalar in zip(factors, scalars, strict=True)
    ]
