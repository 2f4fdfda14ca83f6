"""Components of a loss on embeddings, and the same gradient by autograd.

Convention (both functions, by default): the gradient of ``Σ_i L_i`` (of the one batch loss, for losses of
the whole batch) with respect to the *normalised anchors only*, the other view and all negatives held
fixed, projected on the tangent space at each anchor. Without the projection some losses differ by a
multiple of ``h_i``, which normalisation removes.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from array_api_compat import is_torch_array

from gradlab.arrays import Array, detach, reciprocal
from gradlab.errors import GradlabError
from gradlab.geometry.similarity import Negatives, PairSimilarity
from gradlab.geometry.views import Views, check_views, unit_rows
from gradlab.losses.base import Loss, PairLoss
from gradlab.losses.components import Components, project
from gradlab.losses.registry import get_loss

if TYPE_CHECKING:
    import torch


def components(
    loss: str | Loss,
    anchors: Array,
    positives: Array,
    extra_negatives: Array | None = None,
    *,
    normalize: bool = False,
    in_batch_negatives: bool = True,
) -> Components:
    """Gradient dissipation, weight and ratio of a loss on two views, in closed form.

    Args:
        loss: a loss, or its name for the published settings.
        anchors: (N, D) unit rows ``h_i``, numpy or torch; results have the same kind, dtype and device.
        positives: (N, D) unit rows ``h_i'``.
        extra_negatives: (M, D) unit rows, negatives of every anchor, or None.
        normalize: divide rows by their norms first.
        in_batch_negatives: False takes negatives from ``extra_negatives`` only.

    Returns:
        `Components`: ``gradient_dissipation`` (N,), ``weight`` (N, K), ``ratio`` (N,) and ``gradient()``
        (N, D). K = N + M: column j < N stands for sentence j of the view that ``negative_view`` names (zero
        at j = i), column N + k for extra negative k; without in-batch negatives K = M.

    Raises:
        GradlabError: unknown loss; views of wrong kind or shape, with NaN, zero rows, rows that are not
            unit-norm, or without any negative.
    """
    views = check_views(
        anchors, positives, extra_negatives, normalize=normalize, in_batch_negatives=in_batch_negatives
    )
    return get_loss(loss).components_of(views)


def autograd_gradient(
    loss: str | Loss,
    anchors: Array,
    positives: Array,
    extra_negatives: Array | None = None,
    *,
    tangent: bool = True,
    normalize: bool = False,
    in_batch_negatives: bool = True,
) -> Array:
    """The gradient that `components` states in closed form, by automatic differentiation of the value.

    Args:
        loss: a loss, or its name.
        anchors: (N, D) unit rows, numpy or torch.
        positives: (N, D) unit rows.
        extra_negatives: (M, D) unit rows or None.
        tangent: True projects on the tangent space at each anchor; False differentiates in the similarity
            form, every cosine taken as the plain dot product of its two vectors.
        normalize: divide rows by their norms first.
        in_batch_negatives: False takes negatives from ``extra_negatives`` only.

    Returns:
        (N, D), of the same kind, dtype and device as ``anchors``.

    Raises:
        GradlabError: as `components`.
    """
    import torch

    views = check_views(
        anchors, positives, extra_negatives, normalize=normalize, in_batch_negatives=in_batch_negatives
    )
    tensors = _as_torch(views)
    rows = tensors.anchors.detach().requires_grad_()
    kind = Views if tangent else DotProductViews
    differentiated = kind(rows, tensors.positives, tensors.extra_negatives, in_batch_negatives)
    with torch.enable_grad():
        total = get_loss(loss).value_of(differentiated).sum()
        (gradient,) = torch.autograd.grad(total, rows)
    if tangent:
        gradient = project(gradient, rows.detach())
    return gradient if is_torch_array(anchors) else gradient.numpy()


def raw_gradient(loss: str | Loss, anchors: Array, positives: Array, scale: Array) -> Array:
    """``|z_i| ∂L/∂z_i`` of ``loss(z/|z|)`` at ``z_i = scale_i h_i``, (N, D): what an encoder receives.

    Args:
        loss: a loss, or its name.
        anchors: (N, D) unit rows.
        positives: (N, D) unit rows.
        scale: (N,) norms of the raw embeddings.

    Raises:
        GradlabError: an unknown loss; views that are no unit rows of one shape.
    """
    import torch

    views = _as_torch(check_views(anchors, positives))
    lengths = torch.as_tensor(scale, dtype=views.anchors.dtype, device=views.anchors.device)[:, None]
    raw = (views.anchors.detach() * lengths).requires_grad_()
    with torch.enable_grad():
        total = get_loss(loss).value_of(Views(unit_rows(raw), views.positives)).sum()
        (gradient,) = torch.autograd.grad(total, raw)
    gradient = gradient * lengths
    return gradient if is_torch_array(anchors) else gradient.numpy()


def autograd_split(
    loss: str | PairLoss, positive: PairSimilarity, negatives: Negatives
) -> tuple[torch.Tensor, torch.Tensor]:
    """What autograd fixes of a pair loss: its derivatives with respect to the cosines.

    Args:
        loss: a pair loss, or its name.
        positive: similarities (...,), torch.
        negatives: similarities (..., K), torch.

    Returns:
        ``n = ∂L/∂cos θ_ij'`` (..., K), which equals ``GD W``, and ``a = -∂L/∂cos θ_ii'`` (...,), which
        equals ``GD Σ_j W R``; relatively accurate at every angle strictly between 0 and π, NaN where a pair
        coincides or is opposite.

    Raises:
        GradlabError: a loss that is not a function of pair similarities.
    """
    import torch

    pair_loss = get_loss(loss)
    if not isinstance(pair_loss, PairLoss):
        raise GradlabError(f"{pair_loss.name} is not a function of pair similarities; use autograd_gradient")
    shift_positive = torch.zeros_like(positive.chord, requires_grad=True)
    shift_negatives = torch.zeros_like(negatives.cosine, requires_grad=True)
    with torch.enable_grad():
        value = pair_loss.value(positive.shifted(shift_positive), negatives.shifted(shift_negatives))
        by_positive, by_negatives = torch.autograd.grad(value.sum(), (shift_positive, shift_negatives))
    return by_negatives, -by_positive


@dataclasses.dataclass(frozen=True)
class DotProductViews(Views):
    """Views whose cosines differentiate as plain dot products, their values still measured by chords."""

    @functools.cached_property
    def positive(self) -> PairSimilarity:
        """Anchor i to its positive, (N,)."""
        return _as_dot_product(self.anchors, self.positives)

    @functools.cached_property
    def other_view(self) -> Negatives:
        """Anchor i to the other view and the extra negatives, (N, K)."""
        return self._flat(super().other_view, self.negative_vectors)

    @functools.cached_property
    def same_view(self) -> Negatives:
        """Anchor i to the other anchors, (N, N)."""
        return self._flat(super().same_view, self.anchors)

    @functools.cached_property
    def same_view_fixed(self) -> Negatives:
        """Anchor i to the other anchors held fixed, (N, N)."""
        return self._flat(super().same_view_fixed, detach(self.anchors))

    def _flat(self, negatives: Negatives, vectors: Array) -> Negatives:
        return Negatives(negatives.cosine, lambda index: _as_dot_product(self.anchors, vectors[index]))


@dataclasses.dataclass(frozen=True)
class _DotProduct(PairSimilarity):
    """Chords as measured, derivatives as of a dot product.

    Cosine and 1 - cosine move with it even between identical or opposite vectors, where the chord itself
    has no derivative with respect to the cosine (it gets the subgradient 0).
    """

    measured: PairSimilarity
    increment: Array

    @property
    def cosine(self) -> Array:
        return self.measured.cosine + self.increment

    @property
    def one_minus_cosine(self) -> Array:
        return self.measured.one_minus_cosine - self.increment


def _as_dot_product(first: Any, second: Any) -> PairSimilarity:
    measured = PairSimilarity.from_vectors(first.detach(), second.detach())
    product = (first * second).sum(-1)
    increment = product - product.detach()
    return _DotProduct(
        measured.chord - increment * reciprocal(measured.chord),
        measured.antichord + increment * reciprocal(measured.antichord),
        measured,
        increment,
    )


def _as_torch(views: Views) -> Views:
    """The same views as torch tensors (numpy arrays share their memory)."""
    if is_torch_array(views.anchors):
        return views
    import torch

    extra = None if views.extra_negatives is None else torch.from_numpy(views.extra_negatives)
    return Views(
        torch.from_numpy(views.anchors), torch.from_numpy(views.positives), extra, views.in_batch_negatives
    )
