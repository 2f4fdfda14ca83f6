"""Base classes of losses: a value, and the declared components of its gradient.

A `PairLoss` only uses the similarities of each anchor to its positive and its negatives, so it
accepts angles as well as embeddings. A `BatchLoss` needs whole views (similarities within a view,
or batch statistics).

Apart from its weights, a `PairLoss` reduces the K negatives of an anchor to one `summary` (a
log-sum-exp, or the hardest negative). This makes simulation cheap: the summary depends only on the
negatives; the dissipation and the ratio depend only on the positive and the summary.
"""

from __future__ import annotations

import abc
import dataclasses
import inspect
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, as_float, compiled, divide, without_autocast
from gradlab.batch.batch import Batch
from gradlab.batch.check import check_batch
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.errors import GradlabError, nearest
from gradlab.losses.components import Components
from gradlab.losses.gates import ConstantGate, ExactGate
from gradlab.losses.notation import COMPONENT_SYMBOLS, formula_latex
from gradlab.losses.sides import from_pools, positives_from_anchors
from gradlab.settings import Settings, call_text, declarations

if TYPE_CHECKING:
    from gradlab.settings.module import LossModule

# Arguments that only some losses use, and which losses use them.
ASKED_FOR = {
    "mask": "mask(LOSS, by=given) does",
    "guide": "mask(LOSS, by=guide) does",
    "sentences": "mask(LOSS, by=pairs, pairs=FILE) does",
    "scores": "cosent does",
    "teacher": "kl, margin_mse and embedding_distillation do",
}
_ARGUMENTS = tuple(inspect.signature(check_batch).parameters)


@dataclasses.dataclass(frozen=True)
class Preset:
    """A published setting of a loss, with its training's batch size and learning rate if stated."""

    hyperparameters: Mapping[str, Any]  # fields of the loss; all other fields keep their defaults
    source: str
    batch_size: int | None = None
    learning_rate: float | None = None


@dataclasses.dataclass(frozen=True)
class Loss(Settings, abc.ABC):
    """Base class of a loss on two views of N sentences.

    The fields of a subclass are its hyper-parameters. The positives' side of the gradient is
    derived from the anchors' components and `moves_positives`.
    """

    name: ClassVar[str] = ""  #: its registered name
    title: ClassVar[str]  #: for people; of a registered loss that has none the name of its class
    paper: ClassVar[str]  #: for people
    bibtex: ClassVar[str] = ""  #: entry of the paper, for model cards
    formula: ClassVar[str]  #: the value, in plain text
    #: of ``gradient_dissipation``, ``weight`` and ``ratio``, for tables
    latex: ClassVar[Mapping[str, str]] = {}
    #: conventions in which the components equal autograd without `extra_terms` (`gradlab.verify`)
    exact_in: ClassVar[frozenset[str]] = frozenset({"tangent", "raw", "similarity"})
    exact_to: ClassVar[float] = 1e-11  #: largest error that counts as exact there
    #: whether the value is one whose derivative restates the components
    surrogate: ClassVar[bool] = False
    #: whether its components are formulas, or found from its gradients
    closed_form: ClassVar[bool] = True
    #: view of the weight's columns: ``"other"`` or ``"same"``
    negative_view: ClassVar[str] = "other"
    presets: ClassVar[Mapping[str, Preset]] = {}  #: published settings by name, beside the defaults
    table_order: ClassVar[int] = 100  #: place in the papers' tables
    setting_noun: ClassVar[str] = "hyper-parameter"
    #: whether it changes another loss; see `gradlab.losses.combinator`
    is_combinator: ClassVar[bool] = False
    takes_scores: ClassVar[bool] = False  #: whether it looks at ``scores=``
    needs_teacher: ClassVar[bool] = False  #: whether every call must bring ``teacher=``
    #: text at which its page shows its numbers; empty for its name alone
    example: ClassVar[str] = ""
    #: where the defaults come from, where that is not plainly the paper
    settings_source: ClassVar[str] = ""
    takes_own_negatives: ClassVar[bool] = False  #: whether an anchor may have negatives of its own
    #: whether only an anchor's own positive pulls it, so that a relation without it leaves it out
    pulls_only_own: ClassVar[bool] = False
    #: why it is not a function of the angles that `gradlab.simulate` draws
    not_simulated: ClassVar[str] = (
        "it compares whole views, "
        "of which the angles of one anchor to the other view do not tell enough"
    )

    def __str__(self) -> str:
        """Return the text from which `gradlab.get_loss` recreates the loss, without defaults."""
        return call_text(self)

    def _repr_markdown_(self) -> str:
        """Return settings, value and components as Markdown with formulas, for notebooks."""
        components = [
            f"{symbol} = {self.latex[name]}"
            for name, symbol in COMPONENT_SYMBOLS
            if name in self.latex
        ]
        formulas = [formula_latex(self.formula)] if self.closed_form else []
        return "\n\n".join(
            [f"`{self!r}`", *(f"$${formula}$$" for formula in [*formulas, *components])]
        )

    @property
    def learned(self) -> tuple[str, ...]:
        """Names of learned hyper-parameters, which start at their values (`gradlab.learnable`)."""
        return ()

    @classmethod
    def build(cls, **hyperparameters: Any) -> Loss:
        """Create the loss for `gradlab.get_loss`: by default an instance of this class."""
        return cls(**hyperparameters)

    @abc.abstractmethod
    def value_of(self, batch: Batch) -> Float[Array, "*n"]:
        """Return one value for each anchor, (N,), or a scalar for a loss of the whole batch."""

    @abc.abstractmethod
    def components_of(self, batch: Batch) -> Components:
        """Return the declared components on two views."""

    def is_scalar(self, batch: Batch) -> bool:
        """Return True if the value on these views is one scalar for the whole batch."""
        return bool(self.value_of(batch).ndim == 0)

    @property
    def moves_positives(self) -> str:
        """How the gradient of autograd reaches the positives, one of:

        - ``"all"``: a positive is pulled by its anchor, and pushed by every anchor that has it
          as a negative (the default if the negatives are in the other view);
        - ``"pull"``: a positive is only pulled, because the negatives are fixed or in the anchors'
          own view (the default of other losses);
        - ``"nothing"``: the positives are fixed;
        - ``"mirror"``: exchanging the views does not change the loss, so the positives have the
          components that they would have as anchors.

        A loss for which none of these holds overrides `sides_of`.
        """
        return "all" if self.negative_view == "other" else "pull"

    @property
    def within(self) -> tuple[Loss, ...]:
        """The loss itself and, for a combinator, all losses nested in it."""
        return (self,)

    @property
    def bases(self) -> tuple[Loss, ...]:
        """All losses in `within` that are not combinators."""
        return tuple(loss for loss in self.within if not loss.is_combinator)

    @property
    def depth(self) -> int:
        """How many losses are nested in each other, with this one."""
        return 1

    @property
    def evaluations(self) -> int:
        """How many evaluations of losses that are not combinators a value takes."""
        return 1

    def has(self, kind: type[Loss]) -> bool:
        """Return True if the loss, or a loss nested in it, is an instance of ``kind``."""
        return any(isinstance(loss, kind) for loss in self.within)

    def sides_of(self, batch: Batch) -> tuple[Components, Components]:
        """Return the declared components of the anchors, and the components of the positives."""
        anchors = self.components_of(batch)
        positives = self._positives(anchors, batch)
        return dataclasses.replace(anchors, counterpart=positives), positives

    def _positives(self, anchors: Components, batch: Batch) -> Components:
        moves = self.moves_positives
        if moves == "mirror":
            return dataclasses.replace(self.components_of(batch.exchanged()), side="positives")
        return positives_from_anchors(anchors, batch, push=moves == "all", pull=moves != "nothing")

    def exact_gate(self) -> ExactGate | None:
        """Return the gradient dissipation in a form that exact simulation integrates, or None."""
        return None

    def row_loss(self) -> Any:
        """Return the loss as a `PairLoss` of one anchor's similarities; None if it needs more."""
        return None

    def __call__(
        self,
        anchors: Float[Array, "n d"],
        positives: Float[Array, "n d"],
        extra_negatives: Float[Array, "m d"] | None = None,
        reduction: str = "mean",
        *,
        normalize: bool = False,
        in_batch_negatives: bool = True,
        **context: Any,
    ) -> Float[Array, "*n"]:
        """Compute the loss as a trainable scalar.

        Args:
            anchors: unit rows, numpy or torch. In half precision, or under autocast, the
                loss is float32.
            positives, extra_negatives, normalize, in_batch_negatives: see
                `gradlab.batch.check.check_batch`.
            reduction: ``"mean"``, ``"sum"`` (the paradigm's ``Σ_i L_i``) or ``"none"`` (one value
                per anchor). For a loss of the whole batch, ``"mean"`` and ``"sum"`` both return its
                one value. In a mix of both kinds, each row holds its ``L_i`` plus the value of the
                whole batch: ``"mean"`` returns the printed formula, ``"sum"`` N times as much.
                Components belong to the sum.
            **context: further arguments of `check_batch`, such as ``own_negatives`` or ``labels``.

        Raises:
            GradlabError: see `gradlab.batch.check.check_batch`; an unknown or impossible reduction.
        """
        arguments = {"normalize": normalize, "in_batch_negatives": in_batch_negatives, **context}
        with without_autocast(anchors):
            batch = self.batch(anchors, positives, extra_negatives, **arguments)
            return reduce(self.value_of(batch), reduction, self.name)

    @property
    def looks_at(self) -> frozenset[str]:
        """Names of the arguments in `ASKED_FOR` that the loss uses."""
        arguments = {"scores": self.takes_scores, "teacher": self.needs_teacher}
        return frozenset(name for name, used in arguments.items() if used)

    def batch(
        self,
        anchors: Float[Array, "n d"],
        positives: Float[Array, "n d"],
        extra_negatives: Float[Array, "m d"] | None = None,
        **arguments: Any,
    ) -> Batch:
        """Check a call's arguments, those of `gradlab.batch.check.check_batch`; return the batch.

        Raises:
            GradlabError: as `check_batch` and `check_arguments` do.
        """
        self.check_arguments(arguments)
        batch = check_batch(anchors, positives, extra_negatives, **arguments)
        if batch.supervision.relation is not None and not compiled(batch.supervision.relation):
            self._warn_of_left_out(batch)
        return batch

    def leaves(self, batch: Batch) -> Iterator[tuple[Loss, Batch]]:
        """Yield each loss that is not a combinator, with the batch that it is computed on."""
        yield self, batch

    def _warn_of_left_out(self, batch: Batch) -> None:
        """Warn of anchors that a loss of one positive leaves out, because of the relation."""
        for loss, candidates in self.leaves(batch):
            if not loss.pulls_only_own:
                continue
            own, relation = candidates.own_role, candidates.supervision.relation
            xp = array_namespace(relation)
            if count := int(xp.count_nonzero((own != 1) & xp.any(relation == 1, axis=-1))):
                warnings.warn(
                    f"relation does not call the own pair of {count} of {own.shape[0]} anchors a "
                    f"positive: {self}, which pulls no other positive, leaves them out; "
                    "supcon, sincere and mil_nce take several positives",
                    stacklevel=4,
                )
                return

    def check_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Raise `GradlabError` for an unknown argument, or one of `ASKED_FOR` that is not used."""
        for name, value in arguments.items():
            if name in ASKED_FOR:
                if value is not None and name not in self.looks_at:
                    raise GradlabError(f"{self} does not look at {name}=; {ASKED_FOR[name]}")
            elif name not in _ARGUMENTS:
                hint = f".{nearest(name, _ARGUMENTS)}"
                if name in declarations(type(self)):
                    hint = f"; write {self.name}({name}=...)"
                raise GradlabError(f"{self} has no argument {name!r}{hint}")

    def module(self, *, learnable: bool | None = None) -> LossModule:
        """Return the loss as an ``nn.Module`` whose parameters are the learned hyper-parameters.

        Args:
            learnable: None learns the hyper-parameters in `learned`; True also learns the
                temperature of every softmax, as `gradlab.learnable` does; False learns nothing.

        Raises:
            GradlabError: a hyper-parameter cannot be trained, or there is none to learn.
        """
        from gradlab.settings.module import LossModule

        return LossModule(self, learnable=learnable)

    def with_learned_temperatures(self) -> Self:
        """Return the same loss, with the temperature of every softmax marked as learned."""

        def learning(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(learning, value))
            return value.with_learned_temperatures() if isinstance(value, Loss) else value

        if not self.closed_form:
            return self
        fields = [field.name for field in dataclasses.fields(self) if field.init]
        return dataclasses.replace(self, **{name: learning(getattr(self, name)) for name in fields})


def check_reduction(reduction: str) -> None:
    """Raise `GradlabError` unless ``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``."""
    if reduction not in {"mean", "sum", "none"}:
        raise GradlabError(f"reduction must be 'mean', 'sum' or 'none', not {reduction!r}")


def reduce(value: Float[Array, "*n"], reduction: str, name: str) -> Float[Array, "..."]:
    """Reduce values per anchor by ``"mean"``, ``"sum"`` or ``"none"``; a scalar is unchanged."""
    check_reduction(reduction)
    if value.ndim == 0 and reduction == "none":
        raise GradlabError(f"{name} is one loss of the whole batch; use reduction='mean' or 'sum'")
    if value.ndim == 0 or reduction == "none":
        return value
    xp = array_namespace(value)
    return xp.mean(value) if reduction == "mean" else xp.sum(value)


@dataclasses.dataclass(frozen=True)
class PairLoss(Loss):
    """Base class of losses of each anchor's similarities to its positive and to its negatives.

    Shapes: ``positive`` is a `PairSimilarity` of shape (...,) and ``negatives`` a `Negatives` of
    shape (..., K). A summary broadcasts against (...,).
    """

    takes_own_negatives = True  # they are further columns of the row
    pulls_only_own = True
    one_hot_weight: ClassVar[bool] = False  #: whether the hardest negative has all the weight
    #: whether negatives enter as cosines over `temperature` only
    takes_hardness: ClassVar[bool] = False
    #: whether an anchor without negatives keeps its pull (and its value)
    pulls_alone: ClassVar[bool] = False

    def row_loss(self) -> PairLoss:
        return self

    def is_scalar(self, batch: Batch) -> bool:
        return False

    @property
    def negatives_are_fixed(self) -> bool:
        """True if training moves no negative: only the pull acts on both views, as 2r for r."""
        return False

    @property
    def moves_positives(self) -> str:
        """``"all"``, or ``"pull"`` if the negatives are fixed."""
        return "pull" if self.negatives_are_fixed else "all"

    @abc.abstractmethod
    def summary(self, negatives: Negatives) -> Any:
        """Return what dissipation and ratio need of the negatives: arrays, (...,), of any kind."""

    @abc.abstractmethod
    def dissipation(self, positive: PairSimilarity, summary: Any) -> Float[Array, "*n"]:
        """Return the gradient dissipation ``GD_i``, (...,)."""

    @abc.abstractmethod
    def ratio(self, positive: PairSimilarity, summary: Any) -> Float[Array, "*#n"]:
        """Return the ratio ``R_i``, (...,)."""

    @abc.abstractmethod
    def weight(self, negatives: Negatives) -> Float[Array, "*n k"]:
        """Return the weight ``W_ij`` of every negative, (..., K); 0 in masked columns."""

    @abc.abstractmethod
    def value(self, positive: PairSimilarity, negatives: Negatives) -> Float[Array, "*n"]:
        """Return the loss of each anchor, (...,)."""

    def components(self, positive: PairSimilarity, negatives: Negatives) -> Components:
        """Compute the components from similarities."""
        summary, weight, pull = self.summary(negatives), self.weight(negatives), self.pull(positive)
        dissipation, ratio = self.dissipation(positive, summary), self.ratio(positive, summary)
        xp = array_namespace(weight)
        total = xp.sum(weight, axis=-1)
        with np.errstate(invalid="ignore"):  # 0 · ∞ if all weights are 0
            positive_weight = total * ratio
        if pull is not None:
            positive_weight = xp.where(total == 0, divide(pull, total), positive_weight)
        return Components(dissipation, weight, positive_weight, given_pull=pull)

    def pull(self, positive: PairSimilarity) -> Float[Array, "*n"] | None:
        """Return each anchor's pull, (...,), if the loss `pulls_alone`; else None: see `ratio`."""
        return None

    def value_of(self, batch: Batch) -> Float[Array, "*n"]:
        """Return each anchor's loss, (N,); 0 without negatives, unless the loss `pulls_alone`."""
        fixed = batch.with_fixed_positives() if self.negatives_are_fixed else batch
        positive = batch.positive  # first: the order of autograd's sums determines the last bits
        negatives, alone = self._negatives(fixed)
        return unless(alone, self.value(positive, negatives))

    def components_of(self, batch: Batch) -> Components:
        """Return the components, weight (N, K); canonical with any pool but ``"other"``."""
        if batch.candidates.pools != ("other",):
            return self.sides_of(batch)[0]
        return self._rows(batch)

    def sides_of(self, batch: Batch) -> tuple[Components, Components]:
        if batch.candidates.pools == ("other",):
            return super().sides_of(batch)
        return from_pools(self._rows(batch), batch)

    def _rows(self, batch: Batch) -> Components:
        """Return the declared components of each anchor, one weight column per negative."""
        negatives, alone = self._negatives(batch)
        statistics = _masked(batch) if batch.candidates.rules else {}
        if batch.supervision.relation is not None:
            without = as_float(batch.own_role != 1, batch.anchors)
            statistics["without_positives"] = array_namespace(without).mean(without)
        components = self.components(batch.positive, negatives)
        pull = components.given_pull
        return dataclasses.replace(
            components,
            gradient_dissipation=unless(alone, components.gradient_dissipation),
            weight=unless(None if alone is None else alone[:, None], components.weight),
            positive_weight=unless(alone, components.positive_weight),
            given_pull=None if pull is None else unless(alone, pull),
            views=batch,
            statistics=statistics,
            left_out=_left_out(batch),
        )

    def _negatives(self, batch: Batch) -> tuple[Negatives, Bool[Array, "n"] | None]:
        """Return negatives, and which anchors lack them or a positive, (N,), or None if none can.

        The results of these anchors must be dropped; see `Negatives.with_some`.
        """
        negatives = batch.negatives
        if batch.candidates.hardness:
            negatives = batch.hardened(negatives, self.temperature)  # type: ignore[attr-defined]  # every loss that takes hardness has one
        alone = None
        if batch.may_lack_negatives and not self.pulls_alone:
            negatives, alone = negatives.with_some()
        if batch.supervision.relation is None:
            return negatives, alone
        without = batch.own_role != 1
        return negatives, without if alone is None else alone | without


def unless(
    condition: Bool[Array, "*#n"] | None, values: Float[Array, "*n"], fill: float = 0.0
) -> Float[Array, "*n"]:
    """Return ``values``, but ``other`` where ``condition`` is True; None means False everywhere."""
    if condition is None:
        return values
    xp = array_namespace(values)
    return xp.where(condition, xp.full_like(values, fill), values)


def _left_out(batch: Batch) -> dict[str, Bool[Array, "n _"]]:
    """Return which columns of each block are not negatives; empty if only the sentence itself."""
    if not batch.candidates.rules and "positive_same" not in batch.candidates.pools:
        return {}
    masked = batch.negatives.masked
    return {block.name: masked[:, block.columns] for block in batch.candidate_blocks}


def _masked(batch: Batch) -> dict[str, Float[Array, ""]]:
    """Return the shares of pairs that rules leave out and of anchors without any negative left."""
    xp = array_namespace(batch.anchors)
    unmasked = batch.with_candidates(rules=()).negatives.cosine
    before, after = (~xp.isinf(cosine) for cosine in (unmasked, batch.negatives.cosine))
    masked, alone = xp.astype(before & ~after, unmasked.dtype), ~xp.any(after, axis=-1)
    count = xp.sum(xp.astype(before, unmasked.dtype))
    return {
        "masked_pairs": xp.sum(masked) / xp.where(count == 0, xp.ones_like(count), count),
        "without_negatives": xp.mean(xp.astype(alone, unmasked.dtype)),
    }


@dataclasses.dataclass(frozen=True)
class BatchLoss(Loss):
    """Base class of losses of whole views: similarities within a view, or statistics of the batch.

    Such a loss treats the M extra negatives (of a queue) as further sentences whose two views
    coincide. They enter similarities, statistics and counts (N becomes N + M), but they are not
    anchors: if the value has one term per anchor, the loss consists of the first N terms.

    `gradlab.blockwise` holds the similarities of one block of anchors at a time. This is possible
    if the value uses N x N similarities only through summaries (such as `Negatives.hardest`) and
    sums over its own weights (`Batch.weighted_cosines`). ``dissipation``, ``negative_weight`` and
    ``positive_weight`` must then accept a block: a `Batch` with some of the rows, whose
    `Batch.whole` has all. If processes share the batch, these rows have only some of the columns;
    use summaries for results of whole rows.
    """

    #: whether the value is one number for the whole batch; None if a value has to tell
    has_one_value: ClassVar[bool | None] = None

    def is_scalar(self, batch: Batch) -> bool:
        if self.has_one_value is None:
            return bool(self.value(self._whole(batch.whole.first(2))).ndim == 0)
        return self.has_one_value

    @abc.abstractmethod
    def value(self, batch: Batch) -> Float[Array, "*n"]:
        """Return the loss: a scalar, or a value per anchor, (N,), if the published loss has one."""

    @abc.abstractmethod
    def dissipation(self, batch: Batch) -> Float[Array, "n"]:
        """Return the gradient dissipation ``GD_i``, (n,)."""

    @abc.abstractmethod
    def negative_weight(self, batch: Batch) -> Float[Array, "n k"]:
        """Return the weight ``W_ij``, (n, n), zero at j = i."""

    @abc.abstractmethod
    def positive_weight(self, batch: Batch, total: Float[Array, "n"]) -> Float[Array, "n *d"]:
        """Return ``Σ_j W_ij R_ij``, (n,), or (n, d) if R is diagonal; ``total`` is ``Σ_j W_ij``."""

    def extra_terms(self, batch: Batch) -> Mapping[str, Float[Array, "n d"]]:
        """Return named parts of the exact gradient that the paper's form omits, (n, d) each."""
        return {}

    def components(self, batch: Batch) -> Components:
        """Return the declared components; weight (N, N)."""
        weight = self.negative_weight(batch)
        return Components(
            self.dissipation(batch),
            weight,
            self.positive_weight(batch, array_namespace(weight).sum(weight, axis=-1)),
            negative_view=self.negative_view,
            extra_terms=self.extra_terms(batch),
        )

    def value_of(self, batch: Batch) -> Float[Array, "*n"]:
        """Return `value` on the batch with extra negatives, without their own terms, if any."""
        whole = self._whole(batch)
        if whole.count == 1:  # 0, as for a `PairLoss` without negatives
            return array_namespace(batch.anchors).sum(0 * batch.anchors)
        value = self.value(whole)
        return value if value.ndim == 0 else value[: batch.anchors.shape[0]]

    def components_of(self, batch: Batch) -> Components:
        """Return the anchors' rows of `components` with extra negatives; weight (N, N + M)."""
        whole = self._whole(batch)
        if whole.count == 1:
            zero, view = 0 * batch.anchors[:, 0], self.negative_view
            return Components(zero, zero[:, None], zero, negative_view=view, views=batch)
        return first_rows(self.components(whole), batch)

    def _positives(self, anchors: Components, batch: Batch) -> Components:
        """Return the positives' side; in a scalar loss, extra negatives are anchors that push."""
        whole = self._whole(batch)
        if whole is batch or self.moves_positives != "all" or not self.is_scalar(batch):
            return super()._positives(anchors, batch)
        sentences = dataclasses.replace(self.components(whole), views=whole)
        return first_rows(positives_from_anchors(sentences, whole), batch.exchanged())

    def _whole(self, batch: Batch) -> Batch:
        """Return the batch with extra negatives as sentences; refuse what the loss cannot use."""
        if batch.own_negatives is not None:
            raise GradlabError(
                f"{self.name} compares whole views; "
                "own_negatives are for losses of pairs, such as infonce"
            )
        if not batch.in_batch_negatives:
            raise GradlabError(
                f"{self.name} compares the sentences of a batch; "
                "it cannot do without in-batch negatives"
            )
        return batch if batch.extra_negatives is None else batch.with_extra_sentences()


def first_rows(whole: Components, batch: Batch) -> Components:
    """Return the components of the rows of ``views``, which come first in the whole."""
    rows, pull = slice(batch.anchors.shape[0]), whole.given_pull
    return dataclasses.replace(
        whole,
        gradient_dissipation=whole.gradient_dissipation[rows],
        weight=whole.weight[rows],
        positive_weight=whole.positive_weight[rows],
        given_pull=None if pull is None else pull[rows],
        extra_terms={name: term[rows] for name, term in whole.extra_terms.items()},
        views=batch,
    )


@dataclasses.dataclass(frozen=True)
class UngatedBatchLoss(BatchLoss):
    """Base class of losses of whole views without a gate: the dissipation is always 1."""

    def dissipation(self, batch: Batch) -> Float[Array, "n"]:
        return array_namespace(batch.anchors).ones_like(batch.positive.chord)

    def exact_gate(self) -> ExactGate:
        return ConstantGate()
