"""Losses recombined from a gate, a weight and a ratio, each taken from a loss or constant."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple, Self

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, divide, finite, of_rows
from gradlab.batch.batch import Batch
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.losses.baseline import SurrogateLoss, SurrogateOnViews, effective_ratio_option
from gradlab.losses.batch_loss import BatchLoss
from gradlab.losses.exact_gates import ConstantGate, ExactGate
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.registry import check_closed_form, cited, get_loss, register
from gradlab.settings import names_arguments, setting
from gradlab.settings.declaration import plain_text

# Summaries of the negatives for the gate and for the ratio; None if not needed.
Summary = tuple[Any, Any]


class Constant(NamedTuple):
    """Components that are constants: called like those of a `PairLoss`."""

    number: float | str  # the number, or "uniform": a weight of 1/K

    def summary(self, negatives: Negatives) -> None:
        return None

    def dissipation(self, positive: PairSimilarity, summary: None) -> Float[Array, "*n"]:
        return array_namespace(positive.chord).full_like(positive.chord, self.number)

    def ratio(self, positive: PairSimilarity, summary: None) -> Float[Array, "*n"]:
        return self.dissipation(positive, summary)

    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        cosine = negatives.cosine
        xp = array_namespace(cosine)
        weights = xp.where(xp.isinf(cosine), xp.zeros_like(cosine), xp.ones_like(cosine))
        if self.number != "uniform":
            return self.number * weights
        count = negatives.count[..., None]
        return weights / xp.where(count == 0, xp.ones_like(count), count)

    def exact_gate(self) -> ExactGate:
        return ConstantGate(float(self.number))


class ComponentSource(str):
    """One component of a recombined loss: taken from a loss, or a constant.

    It is a string, the text of its source, so it prints, compares, hashes and pickles as a
    string.

    Args:
        source: a loss, its name or a text such as ``"mpt(margin=0.3)"``, a finite number or its
            text, or another part. From a recombined loss, its own part of the same kind is taken.

    Raises:
        GradlabError: the source is none of these.
    """

    role: ClassVar[str]
    source: Loss | float | str  # the loss, or the number

    def __new__(cls, source: Any) -> Self:
        return source if type(source) is cls else cls._create(resolve(source, cls.role)[1])

    @classmethod
    def _create(cls, source: Loss | float | str, prefix: str = "") -> Self:
        component = super().__new__(cls, prefix + plain_text(source))
        component.source = source
        return component

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(vars(self).values())

    def __repr__(self) -> str:
        return str(self) if isinstance(self.source, float) else super().__repr__()

    @property
    def loss(self) -> Any:
        """The `PairLoss`, `BatchLoss` or `Constant` that the part is taken from."""
        return self.source if isinstance(self.source, Loss) else Constant(self.source)

    @property
    def needs_views(self) -> bool:
        """True if the part needs more than the anchors' similarities to the other view."""
        return isinstance(self.source, BatchLoss)


def resolve(source: Any, role: str) -> tuple[float, Loss | float | str]:
    """Return the factor, and the loss or number that ``source`` names; see `Weight`."""
    if isinstance(source, ComponentSource):
        return getattr(source, "factor", 1.0), source.source
    if role == "weight" and isinstance(source, str):
        if source == "uniform":
            return 1.0, source
        number, times, source_text = source.partition("*")
        if times:
            try:
                factor = float(number)
            except ValueError:
                raise GradlabError(
                    "a weight is a loss or 'NUMBER * loss', such as '0.05 * infonce'; "
                    f"{number!r} is not a number"
                ) from None
            further, origin = resolve(source_text.strip(), role)
            return factor * further, origin
    if isinstance(source, str):
        try:
            source = float(source)
        except ValueError:
            source = get_loss(source)
    if isinstance(source, Loss):
        check_closed_form(source, "recombination")
        if not isinstance(source, PairLoss | BatchLoss):
            raise GradlabError(
                f"{role} is taken from a loss with one positive an anchor, such as infonce, "
                f"not from {source.name}; a combinator can contain the recombined loss"
            )
        component = getattr(source, role, None)
        return resolve(component, role) if isinstance(component, ComponentSource) else (1.0, source)
    if isinstance(source, (int, float)) and not isinstance(source, bool) and math.isfinite(source):
        return 1.0, float(source)
    raise GradlabError(f"{role} must be a loss, its name or a finite number, not {source!r}")


class Gate(ComponentSource):
    """Gradient dissipation of a recombined loss; the constant 1 means no gate."""

    role = "gate"

    def of(self, batch: Batch) -> Float[Array, "n"]:
        loss = self.loss
        if self.needs_views:
            return loss.dissipation(batch)
        return loss.dissipation(batch.positive, loss.summary(batch.other_view))


class Weight(ComponentSource):
    """Weight of a recombined loss, times a factor.

    Args:
        source: as for `ComponentSource`, or ``"uniform"``, 1/K for each of K negatives; a constant
            is the weight of every negative. A text may start with the factor: ``"0.05 * infonce"``.
        factor: a number greater than 0.
    """

    role = "weight"
    factor: float

    def __new__(cls, source: Any, factor: float = 1.0) -> Self:
        if type(source) is cls and factor == 1:
            return source
        own, source = resolve(source, cls.role)
        factor *= own
        if not (math.isfinite(factor) and factor > 0):
            raise GradlabError(f"the factor on the weight must be greater than 0, not {factor!r}")
        component = cls._create(source, "" if factor == 1 else f"{factor!r} * ")
        component.factor = factor
        return component

    def __call__(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return the weight, (..., K); 0 in masked columns."""
        return self.factor * self.loss.weight(negatives)

    def of(self, batch: Batch) -> Float[Array, "n k"]:
        if self.needs_views:
            return self.factor * self.loss.negative_weight(batch)
        return self(batch.other_view)

    def total_size(self, batch: Batch) -> Float[Array, "n"]:
        """Return ``Σ_j |W_ij|``, (n,)."""
        xp = array_namespace(batch.anchors)
        return batch.total_weight(lambda rows: xp.abs(self.of(rows)))


class Ratio(ComponentSource):
    """Ratio of a recombined loss; a constant is a static ratio."""

    role = "ratio"

    def __call__(self, positive: PairSimilarity, summary: Summary) -> Float[Array, "*#n"]:
        return self.loss.ratio(positive, summary[1])

    def of(self, batch: Batch, *, unit: bool) -> Float[Array, "n *d"]:
        """Return the ratio, (n,), or its diagonal, (n, d); in the unit gauge, pull over push.

        Raises:
            GradlabError: the weights of the source loss sum to 0, so there is no ratio.
        """
        loss = self.loss
        if isinstance(loss, Constant) or not (unit or self.needs_views):
            return loss.ratio(batch.positive, loss.summary(batch.other_view))
        if self.needs_views:
            total = batch.total_weight(loss.negative_weight)
            pull = loss.positive_weight(batch, total)
        else:
            pull = batch.by_rows(lambda rows: loss.components_of(rows).positive_weight)
        if unit:
            total = Weight(loss).total_size(batch)
        elif not bool(array_namespace(total).all(total != 0)):
            raise GradlabError(
                f"the weights of {self} sum to 0 for some anchor, so it has no ratio"
            )
        return divide(pull, of_rows(total, pull))


@names_arguments
def recombine(
    *,
    gate: Any,
    weight: Any,
    ratio: Any,
    factor: float = 1.0,
    effective_ratio: str = "r",
    gauge: str = "declared",
) -> Loss:
    """Create a loss from a gate, a weight and a ratio, each taken from any loss or constant.

    The loss is trained through the stop-gradient surrogate of Li et al. 2024, Eq. 5,
    ``L_i = sg(GD_i) Σ_j sg(W_ij) (h_i·n_j - sg(R_i) h_i·h_i')``, and can be simulated, decomposed
    and verified like any other loss. The negatives ``n_j`` are those of the weight: the other view,
    or the same view for the weights of MHE, MHS, Barlow Twins, VICReg and their repairs.

    Args:
        gate: source of the gradient dissipation: a loss, its name, a text such as
            ``"mpt(margin=0.3)"``, or a number; 1 means no gate.
        weight: source of the weight; a number is the weight of every negative, ``"uniform"`` is 1/K
            for each of K negatives. Weights keep the gauge of their table: those of InfoNCE sum to
            1/τ, those of the baseline (Eq. 5) to 1.
        ratio: source of the ratio; a number is a static ratio.
        factor: multiplies the weight; also as text, ``weight="0.05 * infonce"``.
        effective_ratio: ``"r"``, or ``"2r"`` as in the published training; see `Baseline` and, for
            negatives of the same view, `ModifiedLoss`.
        gauge: ``"declared"``, or ``"unit"``, one scale for all losses; see `RecombinedOnViews`.

    Returns:
        A `Recombined` loss of pair similarities; a `RecombinedOnViews` if a part or gauge needs
        whole views.

    Raises:
        GradlabError: a part is neither a loss nor a number, or the factor is not above 0.

    Example:
        >>> import gradlab
        >>> loss = gradlab.recombine(
        ...     gate="mpt(margin=0.3)", weight="infonce", ratio="arccon", factor=0.05
        ... )
        >>> loss  # doctest: +NORMALIZE_WHITESPACE
        Recombined(gate='mpt(margin=0.3)', weight='0.05 * infonce', ratio='arccon',
        effective_ratio='r', gauge='declared')
        >>> bool(gradlab.simulate(loss, grid=5).value[0, 0] > 0.99)
        True
    """
    sources = {"gate": gate, "weight": Weight(weight, factor), "ratio": ratio}
    return Recombined.build(**sources, effective_ratio=effective_ratio, gauge=gauge)


@dataclasses.dataclass(frozen=True)
class RecombinedParts(Loss):
    """Base class with the parts of a recombined loss, which `gradlab.recombine` explains."""

    gate: Any = setting(
        "mpt(margin=0.3)",
        "gradient dissipation: of a loss, such as mpt(margin=0.3), or a number",
        rule="text",
    )
    weight: Any = setting(
        "infonce", "weight: of a loss, also 0.05 * infonce, uniform (1/K), or a number", rule="text"
    )
    ratio: Any = setting("1.0", "ratio: of a loss, such as arccon, or a number", rule="text")
    effective_ratio: str = effective_ratio_option()
    gauge: str = setting(
        "declared",
        "split of the parts' gradients: declared (as in the tables) or unit "
        "(weights sum to 1, dissipation the total push)",
        choices=("declared", "unit"),
    )

    example = "recombined(gate=met, weight=infonce, ratio=1.5)"
    title = "recombined"
    paper = "Li et al. (2024), Eq. 5"
    bibtex = cited("li2024towards")
    formula = (
        "sg(GD_i) Σ_j sg(W_ij) (cos θ_ij' - sg(R_i) cos θ_ii'), each part from a loss or constant"
    )
    surrogate = True

    def __post_init__(self) -> None:
        for kind in (Gate, Weight, Ratio):
            self._fix(**{kind.role: kind(getattr(self, kind.role))})
        super().__post_init__()

    @classmethod
    def build(cls, **hyperparameters: Any) -> Loss:
        """Return a `Recombined`, or a `RecombinedOnViews` if a part or gauge needs whole views."""
        loss = RecombinedOnViews(**hyperparameters)
        return loss if loss.needs_views else Recombined(**hyperparameters)

    @property
    def needs_views(self) -> bool:
        """Whether a part or the gauge needs whole views."""
        sources = self.gate, self.weight, self.ratio
        return self.gauge == "unit" or any(source.needs_views for source in sources)

    def exact_gate(self) -> ExactGate | None:
        # In the unit gauge, the dissipation is the total push.
        gate: ExactGate | None = None if self.gauge == "unit" else self.gate.loss.exact_gate()
        return gate


@register("recombined")
class Recombined(RecombinedParts, SurrogateLoss):
    """Gate, weight and ratio of any losses or constants, trained through Eq. 5 of Li et al. 2024.

    Use `gradlab.recombine`, or the name:
    ``get_loss("recombined", gate="mpt", weight="infonce", ratio=1.25)``. `Baseline` explains
    ``effective_ratio``. If a part needs whole views, the loss is a `RecombinedOnViews`.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.needs_views:
            raise GradlabError(f"{self} needs whole views; use gradlab.recombine")
        source = self.weight.source
        self._fix(one_hot_weight=isinstance(source, PairLoss) and source.one_hot_weight)

    def summary(self, negatives: Negatives) -> Summary:
        gate = self.gate.loss.summary(negatives)
        shared = self.ratio.source == self.gate.source
        return gate, gate if shared else self.ratio.loss.summary(negatives)

    def dissipation(self, positive: PairSimilarity, summary: Summary) -> Float[Array, "*n"]:
        """Return the dissipation of the gate; `weight` and `ratio` are parts, called directly."""
        return self.gate.loss.dissipation(positive, summary[0])


@dataclasses.dataclass(frozen=True)
class RecombinedOnViews(RecombinedParts, SurrogateOnViews):
    """A `Recombined` loss with parts that need whole views.

    The gauge ``"unit"`` puts parts of different losses on one scale: the absolute weights of an
    anchor sum to 1, the dissipation is the total push ``GD_i Σ_j |W_ij|``, and the ratio is
    ``Σ_j W_ij R_i / Σ_j |W_ij|``, pull over push. It is the declared ratio if no weight is negative
    (Barlow Twins, VICReg, HCL and GOR have negative ones). All three parts of one loss reproduce
    its gradient, whatever the signs.
    """

    name = "recombined"
    latex = Recombined.latex

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight.needs_views:
            self._fix(negative_view=self.weight.source.negative_view)

    def dissipation(self, batch: Batch) -> Float[Array, "n"]:
        """Return the gate's declared dissipation; in the unit gauge, the total push of its loss."""
        dissipation, loss = self.gate.of(batch), self.gate.loss
        if self.gauge != "unit" or isinstance(loss, Constant):
            return dissipation
        return dissipation * Weight(loss).total_size(batch)

    def negative_weight(self, batch: Batch) -> Float[Array, "n k"]:
        """Return the weights, (N, N); in the unit gauge, their absolute values sum to 1."""
        weight = self.weight.of(batch)
        if self.gauge != "unit":
            return weight
        return finite(divide(weight, self.weight.total_size(batch)[:, None]))

    def positive_weight(self, batch: Batch, total: Float[Array, "n"]) -> Float[Array, "n *d"]:
        """Return the ratio times the total weight; in the unit gauge, pull over push."""
        unit = self.gauge == "unit"
        ratio = self.ratio.of(batch, unit=unit)
        return ratio if unit else of_rows(total, ratio) * ratio
