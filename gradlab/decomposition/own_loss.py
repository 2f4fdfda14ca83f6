"""`OwnLoss`: your own loss, such as ``package.module:Name``, with components from its gradients."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from array_api_compat import is_torch_array

from gradlab.arrays import Array, Float
from gradlab.batch.batch import Batch
from gradlab.batch.check import CONTEXT
from gradlab.decomposition.batch_arguments import (
    check_context,
    check_needed,
    context_names,
    context_of,
)
from gradlab.decomposition.checked_loss import scalar_of
from gradlab.decomposition.decomposing import decompose, displaced_pushes_of
from gradlab.decomposition.loss_copy import independent_copy
from gradlab.decomposition.two_view_losses import TwoViewLoss, held_rows, name_of, two_views
from gradlab.errors import GradlabError, first_line, listed
from gradlab.gradient.pairs_as_products import CheckedProducts
from gradlab.gradient.statistics import recorded_push
from gradlab.losses.base import Loss
from gradlab.losses.batch_loss import first_rows
from gradlab.losses.components import Components, completed
from gradlab.losses.published_models import PREFIX, model_loss
from gradlab.losses.registry import is_own, loss_class, parse_hyperparameters, read_loss
from gradlab.settings import parse_call, read_json
from gradlab.settings.objects import import_object


def own_loss(loss: Any, settings: Mapping[str, Any]) -> Loss:
    """Return a foreign loss as a `gradlab.Loss`; arguments and errors as in `gradlab.get_loss`."""
    if not isinstance(loss, str):
        if settings:
            raise GradlabError(
                f"{name_of(loss)} is already an object; it takes no {', '.join(settings)}"
            )
        return OwnLoss(loss, name_of(loss))
    resolved = resolve_loss(loss, settings)
    if isinstance(resolved, Loss):
        return resolved
    return OwnLoss(resolved, _call_text(loss, settings) if settings else loss)


class OwnLoss(Loss):
    """A two-view function, torch module or other library's loss as a loss of the whole batch.

    Attributes:
        original: the object that was given.
        given_as: name of the loss; if given as text, `gradlab.get_loss` rebuilds the loss from it.
    """

    original: Any
    given_as: str

    paper: ClassVar[str] = "none"
    formula: ClassVar[str] = "L is given as code"
    not_simulated: ClassVar[str] = "it is given as code"
    latex: ClassVar[Mapping[str, str]] = {}
    closed_form: ClassVar[bool] = False
    exact_in: ClassVar[frozenset[str]] = frozenset({"tangent"})
    # Coefficients read from gradients have the gradients' rounding.
    exact_to: ClassVar[float] = 1e-6

    def __init__(self, original: Any, given_as: str) -> None:
        # The class has no settings of gradlab's kind, and so no dataclass fields.
        self._fix(original=original, given_as=given_as, name=given_as, title=given_as)
        # Arguments of a batch beside embeddings that the signature of the loss has.
        self._fix(looks_at=context_names(original))

    __eq__, __hash__ = object.__eq__, object.__hash__

    def check_arguments(self, arguments: Mapping[str, Any]) -> None:
        super().check_arguments(arguments)
        context = {name: value for name, value in arguments.items() if name in CONTEXT}
        check_context(self.name, context, self.looks_at)

    def value_of(self, batch: Batch) -> Float[Array, ""]:
        """Return the value of the loss, a scalar; errors as in `gradlab.decompose`."""
        self._check(batch)
        tensors = batch.in_torch()
        *shared, own = tensors.embeddings
        rows = [embeddings for embeddings in shared if embeddings is not None]
        keywords = context_of(tensors, self.looks_at) | (
            {} if own is None else {"own_negatives": own}
        )
        if rows[0].dtype == torch.float64:
            function = functools.partial(self._double, **keywords)
            value = scalar_of(lambda *views: self._products(function, views), self.name, rows)
        else:
            value = scalar_of(functools.partial(self._as_given, **keywords), self.name, rows)
        return value if is_torch_array(batch.anchors) else value.detach().numpy()

    def displaced_pushes_one_by_one(
        self, batch: Batch, count: int, side: str
    ) -> Sequence[Float[Array, "count"]]:
        """Return the total push on ``count`` rows of a side, each from a gradient of its own."""
        self._check(batch)
        context = context_of(batch.in_torch(), self.looks_at)
        return displaced_pushes_of(self._double, self.name, batch, side, count, context)

    def components_of(self, batch: Batch) -> Components:
        """Return components of the anchors, from gradients; errors as in `gradlab.decompose`."""
        components: Components = self._decomposed(batch, "anchors").components
        return components

    def sides_of(self, batch: Batch) -> tuple[Components, Components]:
        """Return the components of both sides, from gradients; errors as in `gradlab.decompose`."""
        anchors, positives = (
            decomposition.components for decomposition in self._decomposed(batch, "both")
        )
        return completed(anchors, counterpart=positives), positives

    def __repr__(self) -> str:
        return self.given_as

    def __deepcopy__(self, memo: dict[int, Any]) -> OwnLoss:
        return OwnLoss(copy.deepcopy(self.original, memo), self.given_as)

    def recorded_components(self, batch: Batch) -> Components:
        """Return components of a training's batch, with the relative push as the dissipation.

        They are those of the first `RECORDED` anchors: each costs a gradient. ``batch`` has unit
        torch rows in float64.
        """
        whole = self.components_of(batch)
        share = recorded_push(whole)
        if share is None:
            raise GradlabError(
                "it is not a function of dot products: its largest push is not known"
            )
        assert whole.views is not None  # `decompose` was given embeddings
        first = first_rows(whole, whole.views.rows(0, share.shape[0]))
        share = torch.where(share == 0, 0.0, share.nan_to_num())
        unit = torch.where(share == 0, 1.0, first.total_push / torch.where(share == 0, 1.0, share))
        return dataclasses.replace(
            first,
            gradient_dissipation=share,
            weight=first.weight * unit[:, None],
            positive_weight=first.positive_weight * unit,
        )

    def _check(self, batch: Batch) -> None:
        check_needed(self.original, self.name, batch)
        if not batch.in_batch_negatives:
            raise GradlabError(
                f"{self.name} compares the sentences of a batch; "
                "it cannot do without in-batch negatives"
            )

    def _decomposed(self, batch: Batch, side: str) -> Any:
        self._check(batch)
        *rows, own = [array.cpu() if is_torch_array(array) else array for array in batch.embeddings]
        context = context_of(batch, self.looks_at)
        try:
            return decompose(self._double, *rows, own_negatives=own, side=side, **context)
        except GradlabError as error:
            queues = held_rows(self.original)
            if not queues or "extra_negatives" in str(error):
                raise
            raise GradlabError(
                f"{error}; it holds {listed(queues[:3])}: give a queue as extra_negatives=, to a "
                "loss of (anchors, positives, extra_negatives)"
            ) from error

    def in_double(self) -> TwoViewLoss:
        """Return the loss as a function of two views in double precision, without checks."""
        return self._double

    @functools.cached_property
    def _products(self) -> CheckedProducts:
        return CheckedProducts()

    @functools.cached_property
    def _as_given(self) -> TwoViewLoss:
        return two_views(self.original)[0]

    @property
    def _double(self) -> TwoViewLoss:
        """The loss in double precision: a copy of it as it is now, which no call changes."""
        function = two_views(independent_copy(self.original))[0]

        def double_loss(*rows: Any, **keywords: Any) -> Any:
            return function(*rows, **keywords)

        double_loss.__name__ = self.given_as
        double_loss.__signature__ = _signature(self.original)  # type: ignore[attr-defined]
        return double_loss


def resolve_loss(text: str, settings: Mapping[str, Any]) -> Any:
    """Return the loss that ``text`` names, built with ``settings``, which override the text's.

    Args:
        text: name of a gradlab loss, ``package.module:Name`` or ``path/to/file.py:Name``,
            optionally with settings: ``file.py:Name(temperature=0.1)``. Modules of the current
            folder are found too. ``Name`` is a loss object, a loss function of two views, which
            gets the settings as keywords, or a class or factory, which is called with them. Classes
            of sentence-transformers get a placeholder as model.
        settings: values, read as JSON if possible, as an object if they have the form
            ``module:Name`` (a class is instantiated without arguments), else as text.

    Raises:
        GradlabError: the loss cannot be found, imported or built.
    """
    if not is_own(text):
        try:
            loss_class(text)
        except GradlabError as error:
            raise GradlabError(f"{error} Any other loss is given as package.module:Name") from None
        return read_loss(text, settings)
    target, own = parse_call(text)
    if target.startswith(PREFIX):
        return model_loss(text, settings)
    imported, arguments = import_object(target), {**own, **settings}
    if inspect.isclass(imported) and issubclass(imported, Loss):
        texts = {name: str(value) for name, value in arguments.items()}
        return imported.build(**parse_hyperparameters(imported, texts))
    values = {name: _value(value) for name, value in arguments.items()}
    if inspect.isclass(imported):
        return _make(imported, values, target)
    if not callable(imported):
        raise GradlabError(
            f"{target} is {type(imported).__name__}, not a loss: it cannot be called"
        )
    if not inspect.isfunction(imported):
        if values:
            raise GradlabError(
                f"{target} is a finished loss object; only a class or function takes settings"
            )
        return imported
    count = _open_parameters(imported, values)
    if count == 0:
        return _make(imported, values, target)
    if count not in (2, 3):
        raise GradlabError(
            f"a loss takes anchors, positives and perhaps extra negatives, not {count} arguments "
            f"as {target} does; a maker of losses gets its settings: file.py:make(margin=0.3)"
        )
    if not values:
        return imported
    try:
        inspect.signature(imported).bind_partial(**values)
    except TypeError as error:
        raise GradlabError(f"{target}: {error}") from None
    loss: Any = functools.partial(imported, **values)
    loss.__name__ = _call_text(imported.__name__, values)
    return loss


def _call_text(name: str, values: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value}' for key, value in values.items())})"


def _signature(loss: Any) -> inspect.Signature:
    """Return the signature by which a loss gets its arguments: rows, then keywords."""
    rows = inspect.Parameter("rows", inspect.Parameter.VAR_POSITIONAL)
    names = [*sorted(context_names(loss)), "own_negatives"]
    kind = inspect.Parameter.KEYWORD_ONLY
    optional = (inspect.Parameter(name, kind, default=None) for name in names)
    return inspect.Signature([rows, *optional])


def _value(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    value = read_json(text)
    if not isinstance(value, str) or value != text or ":" not in text:
        return value
    imported = import_object(text)
    return imported() if inspect.isclass(imported) else imported


def _open_parameters(function: Any, values: Mapping[str, Any]) -> int:
    """Return the number of positional arguments without a value; 2 if any number is possible."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return 2
    return sum(
        parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
        and parameter.name not in values
        for parameter in parameters
    )


def _make(factory: Any, values: dict[str, Any], target: str) -> Any:
    # Losses of sentence-transformers and of gradlab.integrations, which are built in the same way.
    if factory.__module__.startswith("sentence_transformers.") or hasattr(
        factory, "compute_loss_from_embeddings"
    ):
        # The `__new__` of a deprecated class hides the signature of its `__init__`.
        signature = inspect.signature(factory.__init__ if inspect.isclass(factory) else factory)
        models = [name for name in ("model", "guide") if name in signature.parameters]
        values = {name: _placeholder_model() for name in models} | values
    try:
        return factory(**values)
    except Exception as error:
        raise GradlabError(
            f"{target}({', '.join(values)}) raised {type(error).__name__}: {first_line(error)}"
        ) from error


def _placeholder_model() -> Any:
    """Return a placeholder model for losses of sentence-transformers, which get embeddings only.

    Losses with a guide read its tokenizer when they are built.
    """
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    class Placeholder(torch.nn.Module):
        tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]  # of transformers
            tokenizer_object=Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
        )
        max_seq_length = 1

        def __getitem__(self, index: int) -> torch.nn.Module:
            return self

    return Placeholder()
