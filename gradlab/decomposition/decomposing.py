"""`decompose`: what are gradient dissipation, weights and ratio of any differentiable loss?

A loss is checked, and its coefficients are read; `Decomposition` compares them with known losses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from array_api_compat import array_namespace, is_numpy_array, is_torch_array
from torch import Tensor

from gradlab.arrays import Array, Float, detach, largest_size, unit_rows
from gradlab.batch.batch import Batch
from gradlab.batch.check import check_batch
from gradlab.decomposition.batch_arguments import (
    check_context,
    check_needed,
    context_names,
    context_of,
)
from gradlab.decomposition.checked_loss import (
    CheckedLoss,
    check_repeats,
    in_turned_axes,
    obstacle_to_lifting,
)
from gradlab.decomposition.coefficients import Gradient, Reading, read_lifted, read_span
from gradlab.decomposition.displaced_push import displaced_pushes
from gradlab.decomposition.result import Decomposition
from gradlab.decomposition.two_view_losses import (
    held_parameters,
    held_rows,
    two_views,
)
from gradlab.errors import GradlabError, listed
from gradlab.gradient.components_and_autograd import check_side
from gradlab.losses.base import Loss
from gradlab.losses.components import project
from gradlab.losses.registry import get_loss, takes_loss

TOLERANCE = 1e-4
# Relative difference of two readings of an anchor's coefficients that makes them unreliable.
UNRELIABLE = 0.01


@takes_loss
def decompose(
    loss_fn: Callable[..., Any] | str,
    anchors: Float[Array, "n d"],
    positives: Float[Array, "n d"],
    extra_negatives: Float[Array, "m d"] | None = None,
    *,
    own_negatives: Float[Array, "n h d"] | None = None,
    normalize: bool = False,
    tolerance: float = TOLERANCE,
    allow_residual: bool = False,
    side: str = "anchors",
    **context: Any,
) -> Any:
    """Find gradient dissipation, weights and ratio of any differentiable loss on two views.

    They are read from the gradient of the anchors with the other view held fixed, in the tangent
    space of the unit sphere; ``side="positives"`` exchanges the views. A loss that depends on its
    input through dot products (cosines, Euclidean distances, angles) is decomposed exactly, even
    with more sentences than dimensions: every vector gets a tiny extra coordinate, in which the
    anchor's gradient is the coefficient. Gates keep their state, and stop-gradient surrogates their
    gradient. At a tie for the hardest negative, the result is the subgradient of the loss itself.

    The coefficients are those of the number that ``loss_fn`` returns: a mean over N anchors has 1/N
    of those of a sum. A gradlab loss is summed over the anchors, as in ``gradlab.components``.

    Args:
        loss_fn: ``loss_fn(anchors, positives) -> scalar`` on torch tensors, called in float64 with
            unit rows; also a gradlab loss or its name, or a loss object of sentence-transformers or
            pytorch-metric-learning, called by the conventions of `two_views`. It may normalise its
            input. ``extra_negatives`` are the third argument, ``own_negatives`` a keyword.
        anchors: unit rows ``h_i``, numpy or torch, at least 2.
        positives: unit rows ``h_i'``.
        extra_negatives: unit rows (m, d) or None, such as a queue or explicit hard negatives.
        own_negatives: unit rows (n, h, d) or None: h negatives for each anchor alone.
        normalize: divide all rows by their norms first.
        tolerance: largest relative change under rotation of a function of dot products, and largest
            relative residual of an anchor that counts as explained.
        allow_residual: for a loss that is not a function of dot products, return the least-squares
            projection of its gradient on the vectors of the batch, and the rest as ``residual``;
            needs 2N + M < D.
        side: the view whose gradient is decomposed: ``"anchors"``, ``"positives"`` or ``"both"``.
        **context: ``labels``, ``teacher`` and the other arguments of
            `gradlab.batch.check.check_batch`, for a loss whose signature has them by these names.

    Returns:
        `Decomposition`, float64, numpy or torch as the input; a pair for both sides. For the
        positives its ``views`` are exchanged, so that they take the place of the anchors.

    Raises:
        GradlabError: the input is bad; the loss raises, is not a differentiable scalar, changes its
            input, differs between calls, ignores the anchors, or lets an own negative push a row
            other than its anchor; its gradient is not finite; or, unless ``allow_residual``, it is
            not a function of dot products.

    Example:
        >>> import torch, gradlab
        >>> from torch.nn.functional import normalize
        >>> generator = torch.Generator().manual_seed(0)
        >>> rows = torch.randn(2, 8, 4, dtype=torch.float64, generator=generator)
        >>> h, other = normalize(rows, dim=-1)
        >>> def triplet(anchors, positives):
        ...     s = anchors @ positives.T
        ...     hardest = s.masked_fill(torch.eye(len(s), dtype=torch.bool), -2).amax(1)
        ...     return (hardest - s.diagonal() + 0.2).relu().sum()
        >>> found = gradlab.decompose(triplet, h, other)
        >>> found.ratio.nanmean().item()
        1.0
    """
    check_side(side)
    batch = check_batch(
        *(anchors, positives, extra_negatives),
        own_negatives=own_negatives,
        normalize=normalize,
        **context,
    )
    xp = array_namespace(batch.anchors)
    # Normalised to the last digit.
    batch = batch.mapped(lambda _, rows: unit_rows(xp.astype(detach(rows), xp.float64)))
    function, name = two_views(loss_fn)
    loss = get_loss(loss_fn) if isinstance(loss_fn, str | Loss) else None
    if loss is None:
        check_context(name, context, names := context_names(loss_fn))
        check_needed(loss_fn, name, batch)
    else:
        loss.check_arguments(context)
        names = frozenset(context)
    arguments = context_of(batch.in_torch(), names)
    closed = loss.sides_of(batch) if loss is not None and loss.closed_form else ()
    left_out = {components.side: components.left_out for components in closed}

    def of(view: str) -> Decomposition:
        rows_of_side = batch if view == "anchors" else batch.exchanged()
        checked = CheckedLoss(function, name, view, rows_of_side, batch.own_negatives, arguments)
        with checked.progress:
            decomposition = _decompose(checked, loss_fn, tolerance, allow_residual)
        return dataclasses.replace(decomposition, left_out=left_out.get(view, {}))

    return (of("anchors"), of("positives")) if side == "both" else of(side)


def displaced_pushes_of(
    function: Callable[..., Any],
    name: str,
    batch: Batch,
    side: str,
    count: int,
    context: Mapping[str, Any],
) -> list[Float[Array, "count"]]:
    """Return the push of a two-view loss on ``count`` rows with their own positives at each angle.

    ``batch`` has unit rows; arguments as of `CheckedLoss`.
    """
    rows = batch.mapped(lambda _, rows: unit_rows(_in_double(rows)))
    batch_of_side = rows if side == "anchors" else rows.exchanged()
    loss = CheckedLoss(function, name, side, batch_of_side, rows.own_negatives, context)
    pushes = displaced_pushes(loss, count)
    return pushes if is_torch_array(batch.anchors) else [push.numpy() for push in pushes]


def _in_double(rows: Float[Array, "*_ d"]) -> Float[Tensor, "*_ d"]:
    return torch.as_tensor(detach(rows)).to(dtype=torch.float64, device="cpu")


def _decompose(
    loss: CheckedLoss, loss_fn: Any, tolerance: float, allow_residual: bool
) -> Decomposition:
    """Decompose the gradient of the first view."""
    evaluated = loss(loss.rows)
    check_repeats(loss, evaluated)
    turned_rows, turned = in_turned_axes(loss)
    change = evaluated.difference(turned)
    if evaluated.agrees_with(turned, tolerance):
        obstacle = obstacle_to_lifting(loss, evaluated, tolerance)
    else:
        obstacle = _dependence(loss, loss_fn, change)
        if not allow_residual:
            raise GradlabError(
                f"{loss.name} {obstacle}; allow_residual=True gives its projection on the paradigm"
            )
    tangent = project(evaluated.gradient, loss.rows[: loss.sentences])
    if obstacle:
        reading = _read_span(loss, tangent, obstacle)
    else:
        reading = read_lifted(loss, turned_rows, tangent)
    unexplained = reading.unexplained(tangent, tolerance)
    if not allow_residual and reading.majority(unexplained):
        why = obstacle or "has a gradient that is not a combination of the vectors of its batch"
        outside = float(reading.residual.norm() / tangent.norm())
        raise GradlabError(
            f"{loss.name} {why} (the paradigm cannot express {outside:.2g} of the tangent "
            "gradient); allow_residual=True gives the part that it can"
        )
    arrays = _by_kind(loss, reading, tolerance) | {
        "tangent_gradient": tangent,
        "residual": reading.residual,
        "error": reading.error,
        "unreliable": unexplained | (reading.error > UNRELIABLE * reading.scale),
    }
    if is_numpy_array(loss.batch.anchors):
        arrays = {kind: None if array is None else array.numpy() for kind, array in arrays.items()}
    return Decomposition(
        loss=loss.name,
        value=evaluated.value,
        method="span" if obstacle else "lifted",
        rotation_change=change,
        views=loss.batch,
        side=loss.side,
        own_negatives=loss.own,
        displaced_push=None if obstacle else _displaced(loss),
        **arrays,
    )


def _dependence(loss: CheckedLoss, loss_fn: Any, change: float) -> str:
    """Return in words that a loss is no function of dot products, and what it may depend on."""
    dependence = (
        "is not a function of dot products: rotating both views together, which changes no dot "
        f"product, changes its value or gradient by {change:.2g} relative"
    )
    dimensions = loss.rows.shape[1]
    if parameters := held_parameters(loss_fn, dimensions):
        names = ", ".join(parameters[:3])
        dependence += f" (it holds parameters of the embeddings' size: {names})"
    if rows := held_rows(loss_fn, dimensions):
        dependence += (
            f"; it compares the batch with {listed(rows[:3])}: give these rows as "
            "extra_negatives=, to a loss of (anchors, positives, extra_negatives)"
        )
    return dependence


def _read_span(loss: CheckedLoss, tangent: Gradient, obstacle: str) -> Reading:
    """Read the coefficients by least squares; GradlabError names the obstacle to the other way."""
    try:
        return read_span(loss.rows, tangent)
    except GradlabError as error:
        raise GradlabError(
            f"{loss.name} {obstacle}; it can only be decomposed by least squares, and {error}"
        ) from error


def _by_kind(
    loss: CheckedLoss, reading: Reading, tolerance: float
) -> dict[str, Float[Tensor, "n _"] | Float[Tensor, "n"] | None]:
    """Return the coefficients of each kind of columns, and the pull, as `Decomposition` has them.

    Raises:
        GradlabError: they are infinite, or own negatives push rows of others.
    """
    if reading.majority(reading.diverges):
        raise GradlabError(
            f"{loss.name} has infinite coefficients on this batch, "
            "as distances have between vectors that coincide; "
            "give a batch without identical rows, and two views that differ"
        )
    n = loss.sentences
    of_same, of_other, *of_further = (block.T for block in loss.split(reading.coefficients.T))
    by_own = None
    if loss.own is not None:
        of_own = of_further.pop().reshape(n, n, -1).clone()
        by_own = _own_part(loss, of_own, tolerance * reading.scale)
    of_other = torch.cat([of_other, *of_further], dim=1)
    pull = 0 - of_other.diagonal()  # not -x, which would make zeros negative
    of_other.diagonal().zero_()
    return {
        "other_view_gradient": of_other,
        "same_view_gradient": of_same.clone(),
        "own_gradient": by_own,
        "pull": pull,
    }


def _displaced(loss: CheckedLoss) -> Callable[..., Float[Array, "_"]]:
    """Return a function that computes the displaced push once, when it is asked."""

    @cache
    def displaced(count: int | None = None) -> Float[Array, "_"]:
        pushes = displaced_pushes(loss, loss.sentences if count is None else count)
        push: Tensor = largest_size(pushes)
        return push.numpy() if is_numpy_array(loss.batch.anchors) else push

    return displaced


def _own_part(
    loss: CheckedLoss, coefficients: Float[Tensor, "n n h"], least: Float[Tensor, "n"]
) -> Float[Tensor, "n h"] | None:
    """Return the coefficients of the anchors' own negatives, (n, h); None for positives.

    Those of other rows, also in ``coefficients``, must not exceed ``least``.
    """
    of_anchors, pushed = None, "positives by own negatives"
    if loss.side == "anchors":
        of_anchors = coefficients.diagonal(dim1=0, dim2=1).T.clone()
        pushed = "an anchor by the own negatives of others"
        coefficients.diagonal(dim1=0, dim2=1).zero_()
    if bool((coefficients.abs().amax(dim=(1, 2)) > least).any()):
        raise GradlabError(
            f"{loss.name} pushes {pushed}; give what pushes other rows as extra_negatives"
        )
    return of_anchors
