"""A loss of one's own as a `gradlab.Loss`: its value is called, its components are found from its gradients."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from array_api_compat import is_torch_array

from gradlab.arrays import Array, Float
from gradlab.batch.batch import Batch
from gradlab.decomposition.adapters import TwoViewLoss, apart, name_of, two_views
from gradlab.decomposition.checking import scalar_of
from gradlab.decomposition.core import decompose
from gradlab.decomposition.resolve import resolve_loss
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.losses.components import Components


def own_loss(loss: Any, settings: Mapping[str, Any]) -> Loss:
    """A loss that is none of gradlab's, as one; for the arguments and errors see `gradlab.get_loss`."""
    if not isinstance(loss, str):
        if settings:
            raise GradlabError(f"{name_of(loss)} is already an object; it takes no {', '.join(settings)}")
        return OwnLoss(loss, name_of(loss))
    found = resolve_loss(loss, settings)
    if isinstance(found, Loss):
        return found
    given = ", ".join(f"{name}={value}" for name, value in settings.items())
    return OwnLoss(found, f"{loss}({given})" if given else loss)


class OwnLoss(Loss):
    """A function of two views, a torch module, or another library's loss object, as a loss of the whole batch.

    Attributes:
        original: what was given.
        given_as: what to call it, from which `gradlab.get_loss` makes it again where it was given as a text.
    """

    original: Any
    given_as: str

    paper: ClassVar[str] = "none"
    formula: ClassVar[str] = "L is given as code"
    not_simulated: ClassVar[str] = "it is given as code"
    latex: ClassVar[Mapping[str, str]] = {}
    closed_form: ClassVar[bool] = False
    exact_in: ClassVar[frozenset[str]] = frozenset({"tangent"})
    exact_in_full: ClassVar[frozenset[str]] = exact_in
    exact_to: ClassVar[float] = 1e-6  # coefficients that are read from gradients carry their rounding

    def __init__(self, original: Any, given_as: str) -> None:
        # No settings of gradlab's kind, and so no fields.
        object.__setattr__(self, "original", original)
        object.__setattr__(self, "given_as", given_as)

    __eq__, __hash__ = object.__eq__, object.__hash__

    @property
    def name(self) -> str:  # type: ignore[override]  # of registered losses a name of the class
        """What to call it."""
        return self.given_as

    title = name

    def value_of(self, views: Batch) -> Float[Array, ""]:
        """What the loss returns, a scalar.

        Raises:
            GradlabError: it raises, returns no scalar, or one that gradient cannot flow from; negatives that are not from
                the batch.
        """
        self._check(views)
        given = [views.anchors, views.positives, views.extra_negatives]
        rows = [torch.as_tensor(one) for one in given if one is not None]
        own = {} if views.own_negatives is None else {"own_negatives": torch.as_tensor(views.own_negatives)}
        function = self._double if rows[0].dtype == torch.float64 else self._as_given
        value = scalar_of(functools.partial(function, **own), self.name, rows)
        return value if is_torch_array(views.anchors) else value.detach().numpy()

    def components_of(self, views: Batch) -> Components:
        """The components of the anchors, from gradients; errors as of `gradlab.decompose`."""
        found: Components = self._found(views, "anchors")
        return found

    def sides_of(self, views: Batch) -> tuple[Components, Components]:
        """The components of both sides, from gradients."""
        anchors, positives = self._found(views, "both")
        return dataclasses.replace(anchors, counterpart=positives), positives

    def __repr__(self) -> str:
        return self.given_as

    def __deepcopy__(self, memo: dict[int, Any]) -> OwnLoss:
        return OwnLoss(copy.deepcopy(self.original, memo), self.given_as)

    def _check(self, views: Batch) -> None:
        if not views.in_batch_negatives:
            raise GradlabError(
                f"{self.name} compares the sentences of a batch; it cannot do without in-batch negatives"
            )

    def _found(self, views: Batch, side: str) -> Any:
        self._check(views)
        given = [views.anchors, views.positives, views.extra_negatives, views.own_negatives]
        *rows, own = [one.cpu() if is_torch_array(one) else one for one in given]
        found = decompose(self._double, *rows, own_negatives=own, side=side)
        return tuple(one.components for one in found) if isinstance(found, tuple) else found.components

    @functools.cached_property
    def _as_given(self) -> TwoViewLoss:
        return two_views(self.original)[0]

    @functools.cached_property
    def _double(self) -> TwoViewLoss:
        """In double precision: of a module a copy, so that its own parameters stay."""
        function = two_views(apart(self.original))[0]

        @functools.wraps(function)
        def named(*rows: Any, **own: Any) -> Any:
            return function(*rows, **own)

        named.__name__ = self.given_as
        return named
