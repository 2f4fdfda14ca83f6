"""`decompose`: check a loss, read its coefficients, and say plainly where they do not exist."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from array_api_compat import array_namespace, is_numpy_array

from gradlab.arrays import Array, Bool, Float, Shaped, detach
from gradlab.decomposition.adapters import held_parameters, two_views
from gradlab.decomposition.checked_loss import ROUNDING, CheckedLoss, LossInput, ValueAndGradient
from gradlab.decomposition.coefficients import Reading, lift, read_lifted, read_span
from gradlab.decomposition.result import Decomposition
from gradlab.errors import GradlabError
from gradlab.geometry.check import check_views
from gradlab.geometry.views import Views, unit_rows
from gradlab.gradient.paradigm import check_side
from gradlab.losses.components import project
from gradlab.losses.registry import takes_loss

if TYPE_CHECKING:
    from torch import Tensor

TOLERANCE = 1e-4
# Two calls on the same batch may differ by this much relative (threads adding in another order), not more.
REPEAT_TOLERANCE = 1e-9
# Dimensions of the subspace that is rotated to see whether a loss depends on more than dot products.
TURNED = 256
# Two readings of an anchor's coefficients that differ by more than this, relatively, are not of one derivative.
UNRELIABLE = 0.01


@takes_loss
def decompose(
    loss_fn: Callable[..., Any] | str,
    anchors: Float[Array, "n d"],
    positives: Float[Array, "n d"],
    extra_negatives: Float[Array, "m d"] | None = None,
    *,
    normalize: bool = False,
    tolerance: float = TOLERANCE,
    allow_residual: bool = False,
    side: str = "anchors",
) -> Any:
    """Gradient dissipation, weights and ratio of any differentiable loss on two views, from gradients alone.

    The paradigm is the gradient with respect to the anchors, the other view held fixed, in the tangent space of the
    unit sphere; ``side="positives"`` is the same with the views exchanged: what the loss does to the other view. Any loss that depends on its input through dot
    products (cosines, Euclidean distances, angles) is decomposed exactly, also for more sentences than dimensions: every
    vector is given a tiny coordinate of its own, in which the anchor's gradient is the wanted coefficient. Gates keep
    their state, stop-gradient surrogates are read as they are, and at a tie for the hardest negative the result is
    the subgradient that the loss itself takes.

    The coefficients are those of the number that ``loss_fn`` returns: if it averages over N anchors they are 1/N of
    one anchor's. A gradlab loss is the exception, taken as the sum over anchors that ``gradlab.components`` describes.

    Args:
        loss_fn: ``loss_fn(anchors, positives) -> scalar`` on torch tensors, called in float64 with unit rows; also the name
            of a gradlab loss, a gradlab loss, or a loss object of sentence-transformers or
            pytorch-metric-learning, called by the conventions of `two_views`. It may normalise its input.
            With ``extra_negatives`` it is called with them as a third argument.
        anchors: unit rows ``h_i``, numpy or torch, at least 2.
        positives: unit rows ``h_i'``.
        extra_negatives: unit rows or None, such as a queue's or explicit hard negatives.
        normalize: divide all rows by their norms first.
        tolerance: largest relative change under rotation of a function of dot products, and largest residual, relative
            to its gradient, of an anchor that counts as explained.
        allow_residual: for a loss that is no function of dot products, return the least-squares projection of its
            gradient on the batch's vectors, with the rest as ``residual``, instead of refusing (needs 2N + M < D).
        side: the view whose gradient it is: ``"anchors"``, ``"positives"`` or ``"both"``.

    Returns:
        `Decomposition`, float64, numpy or torch as the input; for both sides a pair. On the side of the positives they
        stand where the anchors do: its ``views`` are exchanged.

    Raises:
        GradlabError: bad input; a loss that raises, is not a differentiable scalar, changes its input, differs from
            call to call, ignores a view, or whose gradient is not finite here; and, unless ``allow_residual``, a loss that is
            no function of dot products.

    Example:
        >>> import torch, gradlab
        >>> from torch.nn.functional import normalize
        >>> generator = torch.Generator().manual_seed(0)
        >>> h, other = normalize(torch.randn(2, 8, 4, dtype=torch.float64, generator=generator), dim=-1)
        >>> def triplet(anchors, positives):
        ...     s = anchors @ positives.T
        ...     hardest = s.masked_fill(torch.eye(len(s), dtype=torch.bool), -2).amax(1)
        ...     return (hardest - s.diagonal() + 0.2).relu().sum()
        >>> found = gradlab.decompose(triplet, h, other)
        >>> found.ratio.nanmean().item()
        1.0
    """
    check_side(side)
    views = _prepare(anchors, positives, extra_negatives, normalize)
    function, name = two_views(loss_fn)

    def of(one: str) -> Decomposition:
        seen, given = (views, function) if one == "anchors" else (views.exchanged(), _exchanged(function))
        loss = CheckedLoss(given, name, side=one)
        return _decompose(loss, loss_fn, seen, tolerance, allow_residual)

    return (of("anchors"), of("positives")) if side == "both" else of(side)


def _exchanged(function: Callable[..., Any]) -> Callable[..., Any]:
    def exchanged(first: Any, second: Any, *extra: Any) -> Any:
        return function(second, first, *extra)

    return exchanged


def _decompose(
    loss: CheckedLoss, loss_fn: Any, views: Views, tolerance: float, allow_residual: bool
) -> Decomposition:
    """Of the rows that stand as the anchors of ``views`` and come first in ``loss``."""
    batch, name = _torch_batch(views), loss.name
    with loss.progress:
        here = loss(batch)
        _check_repeats(loss, batch, here)
        _check_uses_positives(loss, batch, here)
        turned_batch, turned = _turn(loss, batch)
        tangent = project(here.gradient, batch.anchors)
        obstacle = ""
        if not here.agrees_with(turned, tolerance):
            obstacle = (
                "is not a function of dot products: rotating both views together, which changes no dot product, "
                f"changes its value or gradient by {here.difference(turned):.2g} relative"
                + held_parameters(loss_fn, batch.dimension)
            )
            if not allow_residual:
                raise GradlabError(
                    f"{name} {obstacle}; allow_residual=True gives its projection on the paradigm"
                )
        else:
            obstacle = _obstacle_to_lifting(loss, batch, here, tolerance)
        if obstacle:
            reading, method = _span(name, obstacle, batch, tangent), "span"
        else:
            reading, method = read_lifted(loss, batch, turned_batch, tangent), "lifted"
    unexplained = _unexplained(reading, tangent, tolerance)
    if not allow_residual and _majority(unexplained, reading):
        raise GradlabError(
            f"{name} {obstacle or 'has a gradient that is no combination of the vectors of its batch'} "
            f"(what the paradigm cannot express is {_relative(reading.residual, tangent):.2g} of the tangent gradient); "
            "allow_residual=True gives the part that it can"
        )
    if _majority(reading.diverges, reading):
        raise GradlabError(
            f"{name} has infinite coefficients on this batch, as distances have between vectors that coincide; "
            "give a batch without identical rows, and two views that differ"
        )
    unreliable = unexplained | (reading.error > UNRELIABLE * reading.scale)
    found = _assemble(views, name, here, tangent, reading, unreliable, method, here.difference(turned))
    return dataclasses.replace(found, side=loss.side)


def _prepare(anchors: Any, positives: Any, extra_negatives: Any, normalize: bool) -> Views:
    """Checked views in float64, rows unit to the last digit."""
    views = check_views(anchors, positives, extra_negatives, normalize=normalize)
    xp = array_namespace(views.anchors)

    def double(rows: Float[Array, "n d"]) -> Float[Array, "n d"]:
        return unit_rows(xp.astype(detach(rows), xp.float64))

    extra = None if views.extra_negatives is None else double(views.extra_negatives)
    return Views(double(views.anchors), double(views.positives), extra)


def _torch_batch(views: Views) -> LossInput:
    import torch

    anchors, positives = torch.as_tensor(views.anchors), torch.as_tensor(views.positives)
    extra = anchors[:0] if views.extra_negatives is None else torch.as_tensor(views.extra_negatives)
    return LossInput(anchors, positives, extra)


def _check_repeats(loss: CheckedLoss, batch: LossInput, here: ValueAndGradient) -> None:
    change = here.difference(loss(batch))
    if change > REPEAT_TOLERANCE:
        raise GradlabError(
            f"{loss.name} differs by {change:.2g} relative between two calls on the same batch: it is random or keeps "
            "a state; switch dropout off (.eval()), fix its seed inside, or rebuild its state in every call"
        )


def _check_uses_positives(loss: CheckedLoss, batch: LossInput, here: ValueAndGradient) -> None:
    """A loss whose gates are all closed may well not notice other positives; any other loss must."""
    other = _random_rows(batch.positives, seed=1)
    there = loss(LossInput(batch.anchors, other, batch.extra_negatives))
    if here.difference(there) == 0 and bool(here.gradient.any()):
        raise GradlabError(
            f"{loss.name} does not depend on the {loss.fixed}: others give the same "
            "value and gradient; give a loss of two views, the alignment term included"
        )


def _turn(loss: CheckedLoss, batch: LossInput) -> tuple[LossInput, ValueAndGradient]:
    """Both views rotated together, and the loss there, its gradient rotated back.

    The rotation turns a random subspace of at most `TURNED` dimensions: it changes every coordinate, and
    costs two thin matrix products where a rotation of all dimensions would take an orthogonal D x D matrix.
    """
    import torch

    d, k = batch.dimension, min(batch.dimension, TURNED)
    basis = torch.linalg.qr(_random_rows(batch.anchors.new_empty(d, k), seed=2)).Q
    rotation = torch.linalg.qr(_random_rows(batch.anchors.new_empty(k, k), seed=3)).Q
    change = (rotation - torch.eye(k, dtype=rotation.dtype, device=rotation.device)) @ basis.T

    def turn(rows: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        turned: Tensor = rows + rows @ basis @ change
        turned /= turned.norm(dim=1, keepdim=True)
        return turned

    turned = batch.map(turn)
    there = loss(turned)
    back = there.gradient + there.gradient @ change.T @ basis.T
    return turned, ValueAndGradient(there.value, back)


def _random_rows(like: Float[Tensor, "n d"], seed: int) -> Float[Tensor, "n d"]:
    """Random unit rows from a generator of their own: the caller's random state stays."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(like.shape, generator=generator, dtype=like.dtype).to(like.device)
    rows /= rows.norm(dim=1, keepdim=True)
    return rows


def _obstacle_to_lifting(
    loss: CheckedLoss, batch: LossInput, here: ValueAndGradient, tolerance: float
) -> str:
    """Why the loss cannot be read in more coordinates than its batch has, or an empty string."""
    try:
        padded = loss(lift(batch, 0.0))
    except GradlabError as error:
        return f"works in {batch.dimension} dimensions only ({error})"
    padded = ValueAndGradient(padded.value, padded.gradient[:, : batch.dimension])
    if here.agrees_with(padded, tolerance):
        return ""
    return (
        "depends on the number of dimensions (an average over coordinates?): appending zeros to every vector "
        f"changes its value or gradient by {here.difference(padded):.2g} relative"
    )


def _span(name: str, obstacle: str, batch: LossInput, tangent: Float[Tensor, "n d"]) -> Reading:
    try:
        return read_span(batch, tangent)
    except GradlabError as error:
        raise GradlabError(
            f"{name} {obstacle}; it can only be decomposed by least squares, and {error}"
        ) from error


def _unexplained(reading: Reading, tangent: Float[Tensor, "n d"], tolerance: float) -> Bool[Tensor, "n"]:
    """Anchors whose residual is more than ``tolerance`` of their gradient, and more than rounding makes."""
    size = tangent.norm(dim=1)
    residual = reading.residual.norm(dim=1)
    beyond_rounding: Tensor = residual > ROUNDING * reading.scale
    beyond_tolerance: Tensor = residual > tolerance * size.clamp(min=tolerance * float(size.max()))
    return beyond_rounding & beyond_tolerance


def _majority(flags: Bool[Tensor, "n"], reading: Reading) -> bool:
    """Whether more than half of the anchors on which anything acts are flagged."""
    active = (reading.scale > 0) | (reading.residual.norm(dim=1) > 0)
    return bool(2 * (flags & active).sum() > active.sum())


def _relative(part: Float[Tensor, "n d"], whole: Float[Tensor, "n d"]) -> float:
    return float(part.norm() / whole.norm())


def _assemble(
    views: Views,
    name: str,
    here: ValueAndGradient,
    tangent: Float[Tensor, "n d"],
    reading: Reading,
    unreliable: Bool[Tensor, "n"],
    method: str,
    rotation_change: float,
) -> Decomposition:
    n = len(tangent)
    same, other = reading.coefficients[:, :n], reading.coefficients[:, n:].clone()
    positive = 0 - other.diagonal()  # not -x, which would make zeros negative
    other.diagonal().zero_()

    def as_given(array: Shaped[Tensor, "*n"]) -> Shaped[Array, "*n"]:
        return array.numpy() if is_numpy_array(views.anchors) else array

    return Decomposition(
        loss=name,
        value=here.value,
        other_view_gradient=as_given(other),
        same_view_gradient=as_given(same.clone()),
        positive=as_given(positive),
        tangent_gradient=as_given(tangent),
        residual=as_given(reading.residual),
        error=as_given(reading.error),
        unreliable=as_given(unreliable),
        method=method,
        rotation_change=rotation_change,
        views=views,
    )
