"""The coefficients of a loss, their canonical split into components, and what they leave unexplained."""

from __future__ import annotations

import dataclasses
from typing import Any

from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, divide, to_numpy
from gradlab.batch.batch import Batch
from gradlab.losses.components import Components, canonical


@dataclasses.dataclass(frozen=True, eq=False)
class CanonicalSplit:
    """The paradigm's components of a loss on one batch: ``T_i ∂L/∂h_i = GD_i Σ_j W_ij T_i (n_j - R_ij h_i')``.

    A gradient fixes only the coefficients ``∂L/∂S_ij``, ``∂L/∂Q_ij`` and ``a_i``; they are what is stored. The
    split into (GD, W, R) is a convention, here the canonical one: ``GD_i`` is the sum of anchor i's coefficients of
    negatives of both kinds, ``W_ij`` its share of each and ``R_i = a_i/GD_i``, so that each row of W sums to 1.
    A loss whose coefficients have mixed signs (a sum of cosines times signed weights) can have a GD near zero or
    below: then read the coefficients themselves.

    Of n sentences in d dimensions with m extra negatives; arrays are float64, numpy or torch as the input was.

    Attributes:
        loss: name of the loss.
        value: the loss on this batch.
        other_view_gradient: (n, n + m), ``∂L/∂S_ij`` of the other view's sentence j, then of the extra negatives;
            zero at j = i, which is the positive.
        same_view_gradient: ``∂L/∂Q_ij`` of the other anchor j, with ``Q_ij = h_i·h_j`` taken as anchor i's
            own entry: everything that moves when ``h_i`` does, whoever's negative it is; zero at j = i.
        own_gradient: (n, h), ``∂L/∂cos`` of the row's own negatives, or None.
        positive: ``a_i = -∂L/∂S_ii``, the attraction to the positive.
        tangent_gradient: ``T_i ∂L/∂h_i`` of the loss itself, by autograd.
        residual: the part of ``tangent_gradient`` that the coefficients do not reproduce.
        error: estimated absolute error of an anchor's coefficients.
        unreliable: anchors where the loss has no unique derivative, or none of the paradigm's form:
            the residual exceeds the tolerance, or two readings differ by more than 1%. Ties for the hardest negative
            do that (the coefficients are then those of the subgradient that the loss takes), a gate exactly at
            its threshold, and vectors that coincide under a distance.
        method: ``"lifted"`` (extra coordinates, exact) or ``"span"`` (least squares on the batch's vectors).
        rotation_change: relative change of value or gradient when both views are rotated together; zero up
            to rounding for a function of dot products.
        views: the batch; exchanged on the side of the positives, which then stand where the anchors do.
        side: ``"anchors"`` or ``"positives"``: whose gradient it is.
    """

    loss: str
    value: float
    other_view_gradient: Float[Array, "n k"]
    same_view_gradient: Float[Array, "n n"]
    positive: Float[Array, "n"]
    tangent_gradient: Float[Array, "n d"]
    residual: Float[Array, "n d"]
    error: Float[Array, "n"]
    unreliable: Bool[Array, "n"]
    method: str
    rotation_change: float
    views: Batch
    side: str = "anchors"
    own_gradient: Float[Array, "n h"] | None = None

    @property
    def coefficients(self) -> Float[Array, "n columns"]:
        """Coefficients of all negatives, (n, 2n + m + h), in the order of `weight`."""
        xp, n = array_namespace(self.positive), self.positive.shape[0]
        other, extra = self.other_view_gradient[:, :n], self.other_view_gradient[:, n:]
        own = [] if self.own_gradient is None else [self.own_gradient]
        return xp.concat([other, self.same_view_gradient, extra, *own], axis=1)

    @property
    def gradient_dissipation(self) -> Float[Array, "n"]:
        """``GD_i``: sum of the coefficients of all negatives, of both kinds."""
        return self.coefficients.sum(-1)

    @property
    def weight(self) -> Float[Array, "n columns"]:
        """``W_ij``, (n, 2n + m + h): the other view's sentences, the other anchors, then the extra and own negatives.

        Rows sum to 1; a row without any force on negatives (a closed gate) is zero.
        """
        coefficients = self.coefficients
        xp = array_namespace(coefficients)
        total = self.gradient_dissipation[:, None]
        idle = (coefficients == 0).all(-1)[:, None]
        return xp.where(idle, xp.zeros_like(coefficients), divide(coefficients, total))

    @property
    def other_view(self) -> Float[Array, "n n"]:
        """The columns of `weight` that stand for the other view."""
        return self.weight[:, : self.positive.shape[0]]

    @property
    def same_view(self) -> Float[Array, "n n"]:
        """The columns of `weight` that stand for the other anchors."""
        n = self.positive.shape[0]
        return self.weight[:, n : 2 * n]

    @property
    def extra(self) -> Float[Array, "n m"]:
        """The columns of `weight` that stand for the extra negatives."""
        n = self.positive.shape[0]
        return self.weight[:, 2 * n : n + self.other_view_gradient.shape[1]]

    @property
    def own(self) -> Float[Array, "n h"] | None:
        """The columns of `weight` that stand for the row's own negatives, or None."""
        start = self.positive.shape[0] + self.other_view_gradient.shape[1]
        return None if self.own_gradient is None else self.weight[:, start:]

    @property
    def components(self) -> Components:
        """The same as `gradlab.components` gives it, in the canonical split; a view without negatives of any row has no columns."""
        n = self.positive.shape[0]
        other, same = self.other_view_gradient[:, :n], self.same_view_gradient
        extra = self.other_view_gradient[:, n:]
        coefficients = {"other": other, "same": same, "extra": extra, "own": self.own_gradient}
        xp = array_namespace(self.positive)
        if not xp.any(same != 0):
            del coefficients["same"]
        elif not xp.any(other != 0):
            del coefficients["other"]
        return canonical(coefficients, self.positive, self.views, side=self.side)

    @property
    def ratio(self) -> Float[Array, "n"]:
        """``R_i = a_i/GD_i``; NaN where neither acts, infinite where only the positive does."""
        return divide(self.positive, self.gradient_dissipation)

    @property
    def relative_residual(self) -> float:
        """Norm of `residual` over the norm of `tangent_gradient`, over all anchors; 0 if both are."""
        norm = array_namespace(self.residual).linalg.vector_norm
        whole = float(norm(self.tangent_gradient))
        return float(norm(self.residual)) / whole if whole > 0 else 0.0

    @property
    def relative_error(self) -> float:
        """Largest estimated error over the largest coefficient of the batch; 0 if all are zero."""
        scale = max(float(abs(self.coefficients).max()), float(abs(self.positive).max()))
        return float(self.error.max()) / scale if scale > 0 else 0.0

    @property
    def hardest_share(self) -> Float[Array, "n"]:
        """Largest single share of the force on negatives, ``max_j |n_ij| / Σ_j |n_ij|``; NaN where none acts."""
        size = abs(self.coefficients)
        return divide(array_namespace(size).max(size, axis=-1), size.sum(-1))

    @property
    def same_view_share(self) -> Float[Array, "n"]:
        """Share of the other anchors in the force on negatives, ``Σ_j |∂L/∂Q_ij|`` over both kinds."""
        return divide(abs(self.same_view_gradient).sum(-1), abs(self.coefficients).sum(-1))

    def gradient(self) -> Float[Array, "n d"]:
        """``T_i g_i`` assembled from the components: `tangent_gradient` without `residual`."""
        return self.components.gradient()

    def columns(self) -> dict[str, Any]:
        """One row an anchor, as columns: numpy arrays of length n, by name."""
        views = self.views
        n = self.positive.shape[0]
        xp = array_namespace(self.positive)
        norm = xp.linalg.vector_norm
        columns = {
            "anchor": range(n),
            "positive_angle": views.positive.angle,
            "positive_cosine": views.positive.cosine,
            "hardest_negative_cosine": xp.max(views.negatives.cosine, axis=-1),
            "gradient_dissipation": self.gradient_dissipation,
            "ratio": self.ratio,
            "positive": self.positive,
            "hardest_share": self.hardest_share,
            "same_view_share": self.same_view_share,
            "error": self.error,
            "tangent_gradient_norm": norm(self.tangent_gradient, axis=-1),
            "residual_norm": norm(self.residual, axis=-1),
            "unreliable": self.unreliable,
        }
        return {name: to_numpy(column) for name, column in columns.items()}
