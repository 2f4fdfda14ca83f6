"""Losses put together from the parts of others."""

from __future__ import annotations

import dataclasses
from typing import Any

from gradlab.arrays import Array, Float
from gradlab.batch.batch import Batch
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.errors import GradlabError
from gradlab.losses.base import BatchLoss, Loss
from gradlab.losses.gates import ExactGate
from gradlab.losses.parts import Gate, Part, Ratio, Summary, Weight
from gradlab.losses.registry import register
from gradlab.losses.surrogate_family import LI_2024, SurrogateLoss, effective_ratio_option, surrogate_value
from gradlab.settings import names_arguments, setting

GAUGES = ("declared", "unit")
KINDS: tuple[type[Part], ...] = (Gate, Weight, Ratio)


@names_arguments()
def recombine(
    *,
    gate: Any,
    weight: Any,
    ratio: Any,
    factor: float = 1.0,
    effective_ratio: str = "r",
    gauge: str = "declared",
) -> Loss:
    """A new loss from a gate, a weight and a ratio, each of any loss or constant.

    It is trained through the stop-gradient surrogate of Li et al. 2024, Eq. 5,
    ``L_i = sg(GD_i) Σ_j sg(W_ij) (h_i·n_j - sg(R_i) h_i·h_i')``, and is simulated, decomposed and verified like any
    other loss. Its negatives ``n_j`` are those of the weight: of the other view, or of the same view for
    the weights of MHE, MHS, Barlow Twins, VICReg and their repairs.

    Args:
        gate: gradient dissipation: a loss, its name or text such as ``"mpt(margin=0.3)"``, or a number; 1 is no
            dissipation.
        weight: likewise; a number is the weight of each negative, ``"uniform"`` is 1/K for each of K. Weights
            come in the gauge of their table: InfoNCE's sum to 1/τ, those of the baseline (Eq. 5) to 1.
        ratio: likewise; a number is a static ratio.
        factor: multiplies the weight; also as text, ``weight="0.05 * infonce"``.
        effective_ratio: ``"r"``, or ``"2r"`` to train as the published results were; see `Baseline` and, for
            negatives of the same view, `ModifiedLoss`.
        gauge: ``"declared"``, or ``"unit"`` to exchange parts between losses on one scale; see `RecombinedOnViews`.

    Returns:
        A `Recombined` loss, of pair similarities; a `RecombinedOnViews` if a part needs whole views.

    Raises:
        GradlabError: a part that is not a loss or number; a factor that is not greater than 0.

    Example:
        >>> import gradlab
        >>> loss = gradlab.recombine(gate="mpt(margin=0.3)", weight="infonce", ratio="arccon", factor=0.05)
        >>> loss
        Recombined(gate='mpt(margin=0.3)', weight='0.05 * infonce', ratio='arccon', effective_ratio='r', gauge='declared')
        >>> bool(gradlab.simulate(loss, grid=5).value[0, 0] > 0.99)
        True
    """
    return Recombined.build(
        gate=Gate(gate),
        weight=Weight(weight, factor),
        ratio=Ratio(ratio),
        effective_ratio=effective_ratio,
        gauge=gauge,
    )


@dataclasses.dataclass(frozen=True)
class RecombinedParts(Loss):
    """The parts of a recombined loss; `gradlab.recombine` explains them. Not to be used by itself."""

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
        "split of the parts' gradients: declared (that of the tables) or unit (weights sum to 1, dissipation the total push)",
        choices=GAUGES,
    )

    example = "recombined(gate=met, weight=infonce, ratio=1.5)"
    title = "recombined"
    paper = "Li et al. (2024), Eq. 5"
    bibtex = LI_2024
    formula = "sg(GD_i) Σ_j sg(W_ij) (cos θ_ij' - sg(R_i) cos θ_ii'), each part from a loss or constant"
    latex = {
        "gradient_dissipation": r"\mathrm{GD}_{\mathrm{gate}}",
        "weight": r"\mathrm{W}_{\mathrm{weight}}",
        "ratio": r"\mathrm{R}_{\mathrm{ratio}}",
    }
    surrogate = True
    table_order = 50

    def __post_init__(self) -> None:
        for kind in KINDS:
            object.__setattr__(self, kind.role, kind(getattr(self, kind.role)))
        super().__post_init__()

    @classmethod
    def build(cls, **hyperparameters: Any) -> Loss:
        """A loss of pair similarities if all parts are, else one of whole views."""
        given = {
            kind.role: kind(hyperparameters[kind.role]) for kind in KINDS if kind.role in hyperparameters
        }
        of_views = hyperparameters.get("gauge") == "unit" or any(part.needs_views for part in given.values())
        family = RecombinedOnViews if of_views else Recombined
        return family(**hyperparameters | given)

    def exact_gate(self) -> ExactGate | None:
        """The gate's; None in the unit gauge, where it is a push of any size."""
        return None if self.gauge == "unit" else self.gate.exact()


@register("recombined")
@dataclasses.dataclass(frozen=True)
class Recombined(RecombinedParts, SurrogateLoss):
    """Gate, weight and ratio from any losses or constant, trained through Eq. 5 of Li et al. 2024.

    Made by `gradlab.recombine`, or by name: ``get_loss("recombined", gate="mpt", weight="infonce", ratio=1.25)``.
    ``effective_ratio`` is that of the `Baseline`. With a part that needs whole views it becomes a
    `RecombinedOnViews`.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gauge == "unit":
            raise GradlabError("the unit gauge needs whole views; use gradlab.recombine")
        for part in (self.gate, self.weight, self.ratio):
            if part.needs_views:
                raise GradlabError(f"{part} needs whole views; use gradlab.recombine")

    @property
    def one_hot_weight(self) -> bool:  # type: ignore[override]  # of the class in other losses; here it depends on the part
        return bool(self.weight.is_one_hot)

    @property
    def negatives_are_fixed(self) -> bool:
        """With the effective ratio 2r."""
        return self.effective_ratio == "2r"

    def summary(self, negatives: Negatives) -> Summary:
        """What the gate and what the ratio need of the negatives."""
        gate = self.gate.summary(negatives)
        shared = self.ratio.source == self.gate.source
        return gate, gate if shared else self.ratio.summary(negatives)

    def dissipation(self, positive: PairSimilarity, summary: Summary) -> Float[Array, "*n"]:
        """The gate's; weight and ratio are called as they are."""
        return self.gate(positive, summary)


@dataclasses.dataclass(frozen=True)
class RecombinedOnViews(RecombinedParts, BatchLoss):
    """A `Recombined` loss with parts that need whole views.

    Where its negatives are of the same view, ``effective_ratio`` is that of the `ModifiedLoss`: the other anchors
    are fixed, and so are the positives unless it is ``"2r"``. Otherwise it is that of the `Baseline`.

    In the gauge ``"unit"`` parts of different losses are on one scale: the sizes of the weights sum to 1 for each
    anchor, the dissipation is the total push ``GD_i Σ_j |W_ij|``, and the ratio is pull over push,
    ``Σ_j W_ij R_i / Σ_j |W_ij|``. For weights of one sign, all but those of Barlow Twins and VICReg, that is the declared ratio.
    A loss's own three parts make its own gradient again, whatever the signs.
    """

    name = "recombined"

    @property
    def negative_view(self) -> str:  # type: ignore[override]  # of the class in other losses; here it depends on the part
        return str(self.weight.negative_view)

    @property
    def moves_positives(self) -> str:
        """By pull and push; with the effective ratio 2r, or negatives of the same view, by less."""
        both_ways = self.effective_ratio == "2r"
        if self.negative_view == "same":
            return "pull" if both_ways else "nothing"
        return "pull" if both_ways else "all"

    def value(self, views: Batch) -> Float[Array, "n"]:
        """The loss of each anchor, (N,)."""
        fixed, both_ways = views.with_fixed_positives(), self.effective_ratio == "2r"
        if self.negative_view == "same":
            push, pulled = views.same_view_fixed, views if both_ways else fixed
        else:
            push, pulled = (fixed if both_ways else views).other_view, views
        total, pushed = views.weighted_cosines(self.negative_weight, push)
        positive_weight = self.positive_weight(views, total)
        diagonal = positive_weight.ndim > 1
        pull = pulled.anchors * pulled.positives if diagonal else pulled.positive.cosine
        return surrogate_value(self.dissipation(views), pushed, positive_weight, pull)

    def dissipation(self, views: Batch) -> Float[Array, "n"]:
        """The gate's, as its loss declares it; in the unit gauge its loss's total push."""
        return self.gate.push_of(views) if self.gauge == "unit" else self.gate.of(views)

    def negative_weight(self, views: Batch) -> Float[Array, "n k"]:
        """The weight's, (N, N); in the unit gauge their sizes sum to 1."""
        return self.weight.share_of(views) if self.gauge == "unit" else self.weight.of(views)

    def positive_weight(self, views: Batch, total: Float[Array, "n"]) -> Float[Array, "n *d"]:
        """The ratio's times the sum of the weights; in the unit gauge its loss's pull over push."""
        if self.gauge == "unit":
            return self.ratio.pull_of(views)
        ratio = self.ratio.of(views)
        return (total if ratio.ndim == 1 else total[:, None]) * ratio
