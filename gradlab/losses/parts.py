"""Parts of other losses: a gate, a weight and a ratio, each from a loss or constant.

A part is a text, its source, so that it prints, compares, hashes and saves as one; and it can be called in
place of the method of the loss that it comes from.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, divide, finite
from gradlab.batch.batch import Batch
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.errors import GradlabError
from gradlab.losses.base import BatchLoss, Loss, PairLoss
from gradlab.losses.gates import ConstantGate, ExactGate
from gradlab.losses.registry import check_closed_form, get_loss
from gradlab.settings import call_text

Summary = tuple[Any, Any]  # what the gate and what the ratio need of the negatives, or None


class Part(str):
    """One component: taken from a loss, or the same number everywhere.

    Args:
        source: a loss, its name or a text such as ``"mpt(margin=0.3)"``, a finite number or its text, or another
            part; of a recombined loss the part that it was itself given is taken.

    Attributes:
        source: the loss, or the number.

    Raises:
        GradlabError: none of these.
    """

    role: ClassVar[str]
    source: Loss | float | str

    def __new__(cls, source: Any) -> Self:
        """From any source; from a part of this kind, that part."""
        if type(source) is cls:
            return source
        source = read_source(source, cls.role)
        return cls._create(source.source if isinstance(source, Part) else source)

    @classmethod
    def _create(cls, source: Loss | float | str, prefix: str = "") -> Self:
        text = call_text(source) if isinstance(source, Loss) else str(source)
        part = super().__new__(cls, prefix + text)
        part.source = source
        return part

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.source,)

    def __repr__(self) -> str:
        return str(self) if isinstance(self.source, float) else super().__repr__()

    @property
    def needs_views(self) -> bool:
        """Whether it takes more than the anchors' similarities to the other view."""
        return isinstance(self.source, Loss) and not isinstance(self.source, PairLoss)

    def summary(self, negatives: Negatives) -> Any:
        """What it needs of the negatives, (...,); None if nothing."""
        return self.source.summary(negatives) if isinstance(self.source, PairLoss) else None


def read_source(source: Any, role: str) -> Part | Loss | float:
    """A loss or number from what a user may give; of a recombined loss its own part.

    Raises:
        GradlabError: not a loss, its name or a finite number.
    """
    if isinstance(source, Part):
        return source
    if isinstance(source, str):
        try:
            source = float(source)
        except ValueError:
            source = get_loss(source)
    if isinstance(source, Loss):
        check_closed_form(source, "recombination")
        if source.is_combinator:
            raise GradlabError(
                f"{role} is taken from a loss, not from what changes one, such as {source.name}; recombine first, then combine"
            )
        if not isinstance(source, PairLoss | BatchLoss):
            raise GradlabError(
                f"{role} is taken from a loss with one positive an anchor, such as infonce, not from {source.name}"
            )
        own = getattr(source, role, None)
        return own if isinstance(own, Part) else source
    if isinstance(source, (int, float)) and not isinstance(source, bool) and math.isfinite(source):
        return float(source)
    raise GradlabError(f"{role} must be a loss, its name or a finite number, not {source!r}")


class Gate(Part):
    """Gradient dissipation; 1 throughout means that the loss has no gate."""

    role = "gate"

    def __call__(self, positive: PairSimilarity, summary: Summary) -> Float[Array, "*n"]:
        if isinstance(self.source, PairLoss):
            return self.source.dissipation(positive, summary[0])
        return array_namespace(positive.chord).full_like(positive.chord, self.source)

    def of(self, views: Batch) -> Float[Array, "n"]:
        if isinstance(self.source, BatchLoss):
            return self.source.dissipation(views)
        return self(views.positive, (self.summary(views.other_view), None))

    def push_of(self, views: Batch) -> Float[Array, "n"]:
        """The total push ``GD_i Σ_j |W_ij|`` of the loss that it is from: the dissipation where weights sum to 1."""
        if isinstance(self.source, Loss):
            return self.of(views) * _total_size(self.source, views)
        return self.of(views)

    def exact(self) -> ExactGate | None:
        """In the form that the exact simulator integrates, or None."""
        return self.source.exact_gate() if isinstance(self.source, Loss) else ConstantGate(float(self.source))


class Weight(Part):
    """Weight times a factor; a number for every negative, or ``"uniform"``: 1/K for each of K negatives.

    Args:
        source: as `Part`; a text may begin with the factor, as ``"0.05 * infonce"``.
        factor: a number greater than 0.

    Attributes:
        factor: the factor.
    """

    role = "weight"
    factor: float

    def __new__(cls, source: Any, factor: float = 1.0) -> Self:
        """From any source; from a weight without another factor, that weight."""
        if type(source) is cls and factor == 1:
            return source
        if isinstance(source, str) and not isinstance(source, Part) and "*" in source:
            number, _, source = source.partition("*")
            factor, source = factor * float(read_number(number)), source.strip()
        if source != "uniform" or isinstance(source, Part):
            source = read_source(source, cls.role)
        if isinstance(source, Part):
            factor, source = factor * getattr(source, "factor", 1.0), source.source
        if not (math.isfinite(factor) and factor > 0):
            raise GradlabError(f"the factor on the weight must be greater than 0, not {factor!r}")
        part = cls._create(source, "" if factor == 1 else f"{factor!r} * ")
        part.factor = factor
        return part

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.source, self.factor)

    @property
    def negative_view(self) -> str:
        """The view that its columns stand for."""
        return self.source.negative_view if isinstance(self.source, Loss) else "other"

    @property
    def is_one_hot(self) -> bool:
        """Whether the hardest negative has all of it."""
        return isinstance(self.source, PairLoss) and self.source.one_hot_weight

    def __call__(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Weight; 0 in masked columns."""
        if isinstance(self.source, PairLoss):
            return self.factor * self.source.weight(negatives)
        cosine = negatives.cosine
        xp = array_namespace(cosine)
        each = xp.where(xp.isinf(cosine), xp.zeros_like(cosine), xp.ones_like(cosine))
        if self.source == "uniform":
            count = negatives.count[..., None]
            return self.factor * each / xp.where(count == 0, xp.ones_like(count), count)
        return self.factor * float(self.source) * each  # type: ignore[arg-type]  # no loss here: a number

    def of(self, views: Batch) -> Float[Array, "n k"]:
        if isinstance(self.source, BatchLoss):
            return self.factor * self.source.negative_weight(views)
        return self(views.other_view)

    def share_of(self, views: Batch) -> Float[Array, "n k"]:
        """Weight by its total size, ``W_ij / Σ_k |W_ik|``; zeros where all weights are."""
        return finite(divide(self.of(views), views.total_weight(self.size_of)[:, None]))

    def size_of(self, views: Batch) -> Float[Array, "n k"]:
        """``|W_ij|``."""
        weight = self.of(views)
        return array_namespace(weight).abs(weight)


class Ratio(Part):
    """Ratio; a number is a static one."""

    role = "ratio"

    def __call__(self, positive: PairSimilarity, summary: Summary) -> Float[Array, "*#n"]:
        if isinstance(self.source, PairLoss):
            return self.source.ratio(positive, summary[1])
        return array_namespace(positive.chord).full_like(positive.chord, self.source)

    def of(self, views: Batch) -> Float[Array, "n *d"]:
        """Ratio; (n, d), the diagonal, for Barlow Twins.

        Raises:
            GradlabError: an infinite or undefined ratio, as of a loss whose weights sum to 0.
        """
        if not isinstance(self.source, BatchLoss):
            return self(views.positive, (None, self.summary(views.other_view)))
        total = views.total_weight(self.source.negative_weight)
        if not bool(array_namespace(total).all(total != 0)):
            raise GradlabError(f"the weights of {self} sum to 0 for some anchor, so it has no ratio")
        pull = self.source.positive_weight(views, total)
        return pull / (total if pull.ndim == 1 else total[:, None])

    def pull_of(self, views: Batch) -> Float[Array, "n *d"]:
        """Pull over push, ``Σ_j W_ij R_i / Σ_j |W_ij|``: the ratio where weights have one sign."""
        if not isinstance(self.source, Loss):
            return self.of(views)
        if isinstance(self.source, BatchLoss):
            pull = self.source.positive_weight(views, views.total_weight(self.source.negative_weight))
        else:
            source = self.source
            pull = views.by_rows(lambda rows: source.components_of(rows).positive_weight)
        total = _total_size(self.source, views)
        return divide(pull, total if pull.ndim == 1 else total[:, None])


def _total_size(loss: Loss, views: Batch) -> Float[Array, "n"]:
    """``Σ_j |W_ij|``."""
    return views.total_weight(Weight(loss).size_of)


def read_number(text: str) -> float:
    """A number from its text.

    Raises:
        GradlabError: not a number.
    """
    try:
        return float(text)
    except ValueError:
        raise GradlabError(
            f"a weight is a loss or 'NUMBER * loss', such as '0.05 * infonce'; {text!r} is not a number"
        ) from None
