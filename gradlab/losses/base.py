"""Base class of losses: a value, and the declared components of its gradient.

A `PairLoss` only uses the similarities of each anchor to its positive and its negatives, so it
accepts angles as well as embeddings. A `BatchLoss` needs whole views (similarities within a view,
or batch statistics). A `CandidateLoss` has several positives.
"""

from __future__ import annotations

import abc
import copy
import dataclasses
import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, compiled, partners_at_angle, without_autocast
from gradlab.batch.batch import Batch
from gradlab.batch.check import check_batch
from gradlab.batch.roles import own_role
from gradlab.errors import ALIASES, GradlabError, nearest
from gradlab.losses.canonical_split import with_positives
from gradlab.losses.components import ANGLES_AWAY, Components
from gradlab.losses.documentation import Documentation
from gradlab.losses.exact_gates import ExactGate
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
class Loss(Settings, Documentation, abc.ABC):
    """Base class of a loss on two views of N sentences.

    The fields of a subclass are its hyper-parameters. The positives' side of the gradient is
    derived from the anchors' components and `moves_positives`.
    """

    # A loss whose settings decide one of these sets it at construction.

    name: ClassVar[str] = ""  #: its registered name
    presets: ClassVar[Mapping[str, Preset]] = {}  #: published settings by name, beside the defaults
    #: names of the arguments beside two views that the loss uses: ``"own_negatives"`` if an anchor
    #: may have negatives of its own, and names in `ASKED_FOR`
    looks_at: ClassVar[frozenset[str]] = frozenset()
    #: view of the weight's columns: ``"other"`` or ``"same"``
    negative_view: ClassVar[str] = "other"
    #: whether only an anchor's own positive pulls it, so that a relation without it leaves it out
    pulls_only_own: ClassVar[bool] = False
    #: whether it changes another loss; see `gradlab.losses.combinator`
    is_combinator: ClassVar[bool] = False
    #: whether its components are formulas, or found from its gradients
    closed_form: ClassVar[bool] = True
    #: whether the value is one whose derivative restates the components
    surrogate: ClassVar[bool] = False
    #: conventions in which the components equal autograd without `extra_terms` (`gradlab.verify`)
    exact_in: ClassVar[frozenset[str]] = frozenset({"tangent", "raw", "similarity"})
    exact_to: ClassVar[float] = 1e-11  #: largest error that counts as exact there
    setting_noun: ClassVar[str] = "hyper-parameter"

    #: the text from which `gradlab.get_loss` recreates the loss, without defaults
    __str__ = call_text

    def _repr_markdown_(self) -> str:
        """Return settings, value and components as Markdown with formulas, for notebooks."""
        return f"`{self!r}`\n\n{self.formulas_markdown(with_value=self.closed_form)}"

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
        return with_positives(self.components_of, batch, self.moves_positives)

    def displaced_pushes(self, batch: Batch) -> Sequence[Float[Array, "n"]] | None:
        """Return the total push on all anchors for each of `ANGLES_AWAY` of their own positives.

        None, the default, if a positive acts on the rows of other anchors too, so that not all can
        be moved at once; `displaced_pushes_one_by_one` then moves them one by one.
        """
        return None

    def displaced_pushes_one_by_one(
        self, batch: Batch, count: int, side: str
    ) -> Sequence[Float[Array, "count"]]:
        """Return, for each of `ANGLES_AWAY`, the total push on the first ``count`` rows of a side.

        On the side of ``"anchors"`` one positive at a time is moved, on that of ``"positives"`` one
        anchor.
        """
        return [self._push_one_by_one(batch, count, side, angle) for angle in ANGLES_AWAY]

    def _push_one_by_one(
        self, batch: Batch, count: int, side: str, angle: float
    ) -> Float[Array, "count"]:
        xp = array_namespace(batch.anchors)
        is_of_anchors = side == "anchors"
        rows, partners = batch.anchors, batch.positives
        if not is_of_anchors:
            rows, partners = partners, rows
        displaced_partners = partners_at_angle(rows, partners, angle)
        indices = xp.arange(batch.count, device=rows.device)
        pushes = []
        for row in range(count):
            moved = xp.where((indices == row)[:, None], displaced_partners, partners)
            if is_of_anchors:
                components = self.components_of(dataclasses.replace(batch, positives=moved))
            else:
                _, components = self.sides_of(dataclasses.replace(batch, anchors=moved))
            pushes.append(components.total_push[row])
        return xp.stack(pushes)

    def _pushes_of_rows(
        self, batch: Batch, positives: Float[Array, "a n d"]
    ) -> list[Float[Array, "n"]]:
        """Return the total push on all anchors for other positives, the columns as they are."""
        rows = batch.rows(0, batch.anchors.shape[0])
        return [
            self.components_of(dataclasses.replace(rows, positives=moved)).total_push
            for moved in positives
        ]

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
            own, relation = own_role(candidates), candidates.supervision.relation
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
                if (setting := ALIASES.get(name, name)) in declarations(type(self)):
                    hint = f"; write {self.name}({setting}=...)"
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

    def unchecked(self, settings: Mapping[str, Any]) -> Self:
        """Return a copy with other settings, which are not checked, such as learned tensors."""
        copied = copy.copy(self)
        copied._fix(**settings)
        return copied

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
