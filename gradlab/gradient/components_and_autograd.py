"""Components of a loss on embeddings, and the same gradient by autograd.

By default, all functions return the gradient of ``Σ_i L_i`` (of the single value, for losses of the
whole batch) with respect to the *normalised anchors only*, projected on the tangent space at each
anchor. The other view and all negatives are held fixed. Without the projection, some losses differ
by a multiple of ``h_i``, which normalisation removes. ``side="positives"`` differentiates the other
view and holds the anchors fixed.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal, overload

from array_api_compat import is_torch_array

from gradlab.arrays import (
    Array,
    Float,
    reciprocal,
    recording_gradients,
    unit_rows,
    without_autocast,
)
from gradlab.batch.batch import Batch
from gradlab.batch.comparison import Comparison
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.errors import GradlabError, check_known
from gradlab.losses.base import Loss
from gradlab.losses.components import Components, displaced_push, project
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.registry import get_loss, takes_loss

# Gradient of one side, or of both.
SideGradients = Float[Array, "n d"] | tuple[Float[Array, "n d"], Float[Array, "n d"]]
SIDES = ("anchors", "positives", "both")
METHODS = ("closed", "autograd")


@overload
def components(
    loss: str | Loss,
    anchors: Float[Array, "n d"],
    positives: Float[Array, "n d"],
    extra_negatives: Float[Array, "m d"] | None = None,
    *,
    side: Literal["both"],
    **options: Any,
) -> tuple[Components, Components]: ...
@overload
def components(
    loss: str | Loss,
    anchors: Float[Array, "n d"],
    positives: Float[Array, "n d"],
    extra_negatives: Float[Array, "m d"] | None = None,
    *,
    side: str = "anchors",
    **options: Any,
) -> Components: ...
@takes_loss
def components(
    loss: str | Loss,
    anchors: Float[Array, "n d"],
    positives: Float[Array, "n d"],
    extra_negatives: Float[Array, "m d"] | None = None,
    *,
    normalize: bool = False,
    in_batch_negatives: bool = True,
    side: str = "anchors",
    method: str = "closed",
    **context: Any,
) -> Components | tuple[Components, Components]:
    """Compute gradient dissipation, weight and ratio of a loss on two views.

    Args:
        loss: a loss, or its name for the published settings.
        anchors: unit rows ``h_i``, numpy or torch. Results have the same kind, dtype and device,
            except float32 for half precision, and float64 on the CPU for a loss given as code.
        positives: unit rows ``h_i'``.
        extra_negatives, normalize, in_batch_negatives: see `gradlab.batch.check.check_batch`.
        side: the view to differentiate: ``"anchors"``, ``"positives"`` or ``"both"``. Positives are
            pulled to their anchors, and pushed as negatives of other anchors.
        method: ``"closed"`` uses the formulas of the loss. ``"autograd"`` reads the components from
            gradients in float64, as `gradlab.decompose` does, in the canonical split: an anchor's
            weights sum to 1, and the pull of further positives counts as negative weight.
        **context: other arguments of `check_batch`: ``own_negatives``, and what some losses need.

    Returns:
        `Components`, or a pair for both sides: ``gradient_dissipation`` (N,), ``weight`` (N, K),
        ``ratio`` (N,) and ``gradient()`` (N, D). The K columns are the other view, the own view,
        the extra negatives and the own negatives, without absent kinds. Usually K = N + M + H:
        column j < N is sentence j of the view ``negative_view`` (zero at j = i), column N + k is
        extra negative k. Without in-batch negatives, K = M + H. Anchors have the split that the
        loss declares, positives the canonical one.

    Raises:
        GradlabError: loss, side or method is unknown; views have the wrong kind or shape, NaN, zero
            rows, rows without unit norm, or no negatives; with autograd, `gradlab.decompose`
            refuses the loss, or the batch has no in-batch negatives.

    Example:
        >>> import numpy as np
        >>> anchors, positives = np.eye(3), np.roll(np.eye(3), 1, axis=1)
        >>> first, second = components("infonce", anchors, positives, side="both")
        >>> first.ratio.round(3), second.ratio.round(3)
        (array([1., 1., 1.]), array([1., 1., 1.]))
    """
    check_side(side)
    if method not in METHODS:
        check_known("method", method, METHODS)
    arguments = {"normalize": normalize, "in_batch_negatives": in_batch_negatives, **context}
    resolved_loss = get_loss(loss)
    with without_autocast(anchors):
        views = resolved_loss.batch(anchors, positives, extra_negatives, **arguments)
        # The components of a loss that is code come from gradients by either method.
        is_code = not (resolved_loss.closed_form or resolved_loss.is_combinator)
        computed = (
            resolved_loss if method == "closed" or is_code else _as_code(resolved_loss, views)
        )
        if side == "anchors":
            of_anchors = computed.components_of(views)
            if computed is not resolved_loss:
                of_anchors = _with_left_out(of_anchors, resolved_loss.components_of(views))
            return with_relative_push(of_anchors, computed, views)
        sides = computed.sides_of(views)
        if computed is not resolved_loss:
            closed = resolved_loss.sides_of(views)
            sides = _with_left_out(sides[0], closed[0]), _with_left_out(sides[1], closed[1])
        of_positives = with_relative_push(sides[1], computed, views)
        if side == "positives":
            return of_positives
        of_anchors = dataclasses.replace(sides[0], counterpart=None)
        of_anchors = with_relative_push(of_anchors, computed, views)
        return dataclasses.replace(of_anchors, counterpart=of_positives), of_positives


def with_relative_push(components: Components, loss: Loss, batch: Batch) -> Components:
    """Return components whose `Components.relative_push` is computed when it is first read."""
    displaced = functools.cache(
        functools.partial(displaced_push, loss, batch, side=components.side)
    )
    counterpart = components.counterpart
    if counterpart is not None:
        counterpart = with_relative_push(counterpart, loss, batch)
    return dataclasses.replace(components, displaced_push=displaced, counterpart=counterpart)


def check_side(side: str) -> None:
    """Raise `GradlabError` unless ``side`` is one of `SIDES`."""
    if side not in SIDES:
        check_known("side", side, SIDES)


@takes_loss
def autograd_gradient(
    loss: str | Loss,
    anchors: Float[Array, "n d"],
    positives: Float[Array, "n d"],
    extra_negatives: Float[Array, "m d"] | None = None,
    *,
    tangent: bool = True,
    normalize: bool = False,
    in_batch_negatives: bool = True,
    side: str = "anchors",
    **context: Any,
) -> SideGradients:
    """Return the gradient of `components` by automatic differentiation of the value.

    Args:
        tangent: True projects on the tangent space at each anchor; False differentiates every
            cosine as the plain dot product of its two vectors.
        loss, anchors, positives, extra_negatives, side, context: as in `components`.
        normalize, in_batch_negatives: as in `components`.

    Returns:
        (n, d), kind, dtype and device of ``anchors`` (float32 for half precision); a pair for both.

    Raises:
        GradlabError: as in `components`.
    """
    arguments = {"normalize": normalize, "in_batch_negatives": in_batch_negatives, **context}
    resolved_loss = get_loss(loss)
    with without_autocast(anchors):
        views = resolved_loss.batch(anchors, positives, extra_negatives, **arguments)
        return differentiate(resolved_loss, views, side, "tangent" if tangent else "similarity")


def differentiate(
    loss: Loss, views: Batch, side: str, convention: str, scale: Float[Array, "n"] | None = None
) -> SideGradients:
    """Return the gradient of the summed value with respect to a side, (n, d); a pair for both.

    Args:
        convention: ``"tangent"`` or ``"similarity"``, see `autograd_gradient`; ``"raw"`` is
            ``|z_i| ∂L/∂z_i`` of ``loss(z/|z|)`` at ``z_i = scale_i h_i``, the gradient that an
            encoder receives times the norm.
        scale: norms of the raw embeddings of a side, for ``"raw"``.
    """
    import torch

    check_side(side)
    if convention == "similarity":
        views = dataclasses.replace(views, comparison=_DotProducts())
    with recording_gradients():
        recorded = views.recordable()
        kind = {"dtype": recorded.anchors.dtype, "device": recorded.anchors.device}
        lengths = torch.as_tensor(scale, **kind)[:, None] if convention == "raw" else 1.0
        names = ("anchors", "positives") if side == "both" else (side,)
        unit = {name: getattr(recorded, name).detach() for name in names}
        leaves = {name: (rows * lengths).requires_grad_() for name, rows in unit.items()}
        replacements: Any = leaves
        if convention == "raw":
            replacements = {name: unit_rows(leaf) for name, leaf in leaves.items()}
        total = loss.value_of(dataclasses.replace(recorded, **replacements)).sum()
        raw_gradients = tuple(torch.zeros_like(leaf) for leaf in leaves.values())
        if total.requires_grad:  # False if the loss holds the side fixed
            ends = list(leaves.values())
            raw_gradients = torch.autograd.grad(
                total, ends, allow_unused=True, materialize_grads=True
            )
    # Before torch 2.5, the zeros of an unused leaf require gradients.
    gradients: list[Any] = [gradient.detach() * lengths for gradient in raw_gradients]
    if convention == "tangent":
        gradients = [project(*pair) for pair in zip(gradients, unit.values(), strict=True)]
    if not is_torch_array(views.anchors):
        gradients = [gradient.numpy() for gradient in gradients]
    return tuple(gradients) if side == "both" else gradients[0]


def autograd_split(
    loss: str | PairLoss, positive: PairSimilarity, negatives: Negatives
) -> tuple[Float[Array, "*n k"], Float[Array, "*n"]]:
    """Return the derivatives of a pair loss with respect to the cosines, by autograd.

    Args:
        loss: a pair loss, or its name.
        positive, negatives: similarities, torch.

    Returns:
        ``n = ∂L/∂cos θ_ij'``, (n, k), which equals ``GD W``, and ``a = -∂L/∂cos θ_ii'``, (n,),
        which equals ``GD Σ_j W R``. Both are relatively accurate at angles strictly between 0 and
        π, and NaN at 0 and π.

    Raises:
        GradlabError: the loss is not a function of pair similarities.
    """
    import torch

    pair_loss = get_loss(loss)
    if not isinstance(pair_loss, PairLoss):
        raise GradlabError(
            f"{pair_loss.name} is not a function of pair similarities; use autograd_gradient"
        )
    with recording_gradients():
        shift_positive = torch.zeros_like(positive.chord, requires_grad=True)
        shift_negatives = torch.zeros_like(negatives.cosine, requires_grad=True)
        value = pair_loss.value(
            positive.shifted(shift_positive), negatives.shifted(shift_negatives)
        )
        shifts = shift_positive, shift_negatives
        by_positive, by_negatives = torch.autograd.grad(value.sum(), shifts)
    return by_negatives, -by_positive


def _with_left_out(from_gradients: Components, closed: Components) -> Components:
    """Return components from gradients, which cannot tell a left-out pair from one without push."""
    return dataclasses.replace(from_gradients, left_out=closed.left_out)


def _as_code(loss: Loss, views: Batch) -> Loss:
    """Return a loss as code, with the values of ``loss`` on batches in the context of ``views``."""
    in_torch = views.in_torch()

    def value(anchors: Any, positives: Any, extra: Any = None, *, own_negatives: Any = None) -> Any:
        rows = {"extra_negatives": extra, "own_negatives": own_negatives}
        return loss.value_of(
            dataclasses.replace(in_torch, anchors=anchors, positives=positives, **rows)
        ).sum()

    value.__name__ = str(loss)
    return get_loss(value)  # type: ignore[arg-type]  # any function of two views, as its docstring says


class _DotProducts(Comparison):
    """Comparison whose cosines, measured by chords, differentiate as plain dot products."""

    def pair(self, first: Float[Array, "*n d"], second: Float[Array, "*n d"]) -> PairSimilarity:
        measured = PairSimilarity.from_vectors(first.detach(), second.detach())
        product = (first * second).sum(-1)
        increment = product - product.detach()
        return _DotProduct(
            measured.chord - increment * reciprocal(measured.chord),
            measured.antichord + increment * reciprocal(measured.antichord),
            measured,
            increment,
        )


@dataclasses.dataclass(frozen=True)
class _DotProduct(PairSimilarity):
    """Similarity with measured chords and the derivatives of a dot product.

    Cosine and 1 - cosine have these derivatives even between identical or opposite vectors, where
    the chord has no derivative with respect to the cosine and gets the subgradient 0.
    """

    measured: PairSimilarity
    increment: Float[Array, "*n"]

    @property
    def cosine(self) -> Float[Array, "*n"]:
        return self.measured.cosine + self.increment

    @property
    def one_minus_cosine(self) -> Float[Array, "*n"]:
        return self.measured.one_minus_cosine - self.increment
