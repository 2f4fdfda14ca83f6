"""Geometry of an anchor, its positive and a negative (or a weighted sum), with input checks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj, is_numpy_array

from gradlab.arrays import Array, Float, Real, Shaped
from gradlab.batch.check import NORM_TOLERANCE
from gradlab.batch.similarity import PairSimilarity
from gradlab.errors import GradlabError, listed

# Input types that `as_like` converts to an array; arrays broadcast.
Numbers = Real[Array, "*#n"] | float | Sequence[float]


@dataclasses.dataclass(frozen=True, eq=False)
class Triple:
    """Position of a positive and a negative relative to the anchor, which determines all bounds.

    In an orthonormal frame with the anchor and the tangent towards the positive as first axes, the
    positive is ``(cos θ, sin θ, 0)`` and the negative ``(radial, toward, aside)``. A unit negative
    at angle ``φ`` and dihedral angle ``α`` is ``(cos φ, sin φ cos α, sin φ sin α)``; a sum of
    negatives has another length. Fields broadcast.
    """

    positive_cosine: Float[Array, "*#n"]  #: ``cos θ`` of the anchor-positive angle
    #: ``sin θ``, stored because a cosine cannot represent small angles
    positive_sine: Float[Array, "*#n"]
    radial: Float[Array, "*#n"]  #: component of the negative along the anchor
    toward: Float[Array, "*#n"]  #: component along the tangent towards the positive
    aside: Float[Array, "*#n"]  #: length of the remaining component, >= 0

    @classmethod
    def from_angles(cls, theta_pos: Numbers, theta_neg: Numbers, alpha: Numbers) -> Triple:
        """Build from angles in radians, each in [0, π].

        Args:
            theta_pos: anchor-positive angle.
            theta_neg: anchor-negative angle.
            alpha: dihedral angle between the planes anchor-positive and anchor-negative.

        Raises:
            GradlabError: an angle is NaN or outside [0, π], or the shapes do not broadcast.
        """
        theta_pos, theta_neg, alpha = as_arrays(theta_pos, theta_neg, alpha)
        check_broadcast(theta_pos=theta_pos.shape, theta_neg=theta_neg.shape, alpha=alpha.shape)
        xp = array_namespace(theta_pos)
        for name, angle in (("theta_pos", theta_pos), ("theta_neg", theta_neg), ("alpha", alpha)):
            largest = xp.asarray(math.pi, dtype=angle.dtype, device=angle.device)
            if not bool(xp.all((angle >= 0) & (angle <= largest))):
                raise GradlabError(f"{name} must lie in [0, π] radians (got {extremes(angle)})")
        sine = xp.sin(theta_neg)
        return cls(
            xp.cos(theta_pos),
            xp.sin(theta_pos),
            xp.cos(theta_neg),
            sine * xp.cos(alpha),
            sine * xp.sin(alpha),
        )

    @classmethod
    def from_vectors(
        cls,
        anchor: Float[Array, "*#n d"],
        positive: Float[Array, "*#n d"],
        negative: Float[Array, "*_ d"],
        weight: Real[Array, "*#n k"] | Sequence[float] | None = None,
    ) -> Triple:
        """Build from unit vectors; accurate at angles from 1e-6 to π - 1e-6.

        A weighted sum is accurate to the rounding error of its largest terms.

        Args:
            anchor: (*n, d), unit rows.
            positive: (*n, d), unit rows.
            negative: unit rows, (*n, d); with ``weight``, (*n, k, d), or (k, d) for all anchors.
            weight: (*n, k), of any signs, for the sum ``Σ_j W_j n_j``; None for a single negative.

        Raises:
            GradlabError: wrong kind or shape, rows not of unit norm, or a non-finite weight.
        """
        return cls.from_unit_vectors(*check_vectors(anchor, positive, negative, weight))

    @classmethod
    def from_unit_vectors(
        cls,
        anchor: Float[Array, "*#n d"],
        positive: Float[Array, "*#n d"],
        negative: Float[Array, "*_ d"],
        weight: Float[Array, "*#n k"] | None = None,
    ) -> Triple:
        """`from_vectors` without its checks."""
        xp = array_namespace(anchor)
        pair = PairSimilarity.from_vectors(anchor, positive)
        pull = tangent(anchor, positive)
        length = xp.linalg.vector_norm(pull, axis=-1, keepdims=True)
        direction = pull / xp.where(length > 0, length, xp.ones_like(length))
        total, pushed = push(anchor, negative, weight)
        toward = xp.sum(pushed * direction, axis=-1)
        aside = xp.linalg.vector_norm(pushed - toward[..., None] * direction, axis=-1)
        return cls(pair.cosine, pair.sine, xp.sum(anchor * total, axis=-1), toward, aside)

    @property
    def theta_pos(self) -> Float[Array, "*#n"]:
        """Angle between anchor and positive, in radians."""
        return array_namespace(self.positive_sine).atan2(self.positive_sine, self.positive_cosine)

    @property
    def theta_neg(self) -> Float[Array, "*#n"]:
        """Angle between anchor and negative, in radians."""
        xp = array_namespace(self.toward)
        return xp.atan2(xp.hypot(self.toward, self.aside), self.radial)

    @property
    def alpha(self) -> Float[Array, "*#n"]:
        """Dihedral angle in radians, in [0, π]."""
        return array_namespace(self.toward).atan2(self.aside, self.toward)

    @property
    def cross_cosine(self) -> Float[Array, "*#n"]:
        """Dot product of positive and negative, ``e = cos θ radial + sin θ toward``."""
        return self.positive_cosine * self.radial + self.positive_sine * self.toward


def tangent(anchor: Float[Array, "*#n d"], vector: Float[Array, "*#n d"]) -> Float[Array, "*n d"]:
    """Project the unit ``vector`` onto the tangent plane at ``anchor``; accurate near ±anchor."""
    xp = array_namespace(anchor)
    cosine = xp.sum(anchor * vector, axis=-1, keepdims=True)
    # The difference of close vectors is exact; the projection removes only a second-order term.
    offset = xp.where(cosine >= 0, vector - anchor, vector + anchor)
    return offset - xp.sum(anchor * offset, axis=-1, keepdims=True) * anchor


def push(
    anchor: Float[Array, "*#n d"],
    negative: Float[Array, "*_ d"],
    weight: Float[Array, "*#n k"] | None,
) -> tuple[Float[Array, "*#n d"], Float[Array, "*#n d"]]:
    """Return the negative ``n``, or ``Σ_j W_j n_j``, and its projection onto the tangent plane."""
    if weight is None:
        return negative, tangent(anchor, negative)
    total = (
        weight @ negative if negative.ndim == 2 else (weight[..., None, :] @ negative)[..., 0, :]
    )
    xp = array_namespace(anchor)
    return total, total - xp.sum(anchor * total, axis=-1, keepdims=True) * anchor


def extremes(values: Float[Array, "..."]) -> str:
    """Return the range of the values as text for a message, such as ``"0.1 to 0.9"``."""
    xp = array_namespace(values)
    if math.prod(values.shape) == 0:
        return "none"
    low, high = float(xp.min(values)), float(xp.max(values))
    return f"{low:g} to {high:g}" if low < high else f"{low:g}"


def as_like(value: Any, like: Shaped[Array, "..."]) -> Float[Array, "..."]:
    """Convert ``value`` to a float array of ``like``'s kind; numbers take its dtype and device.

    Raises:
        GradlabError: numpy and torch are mixed, or ``value`` is not numeric.
    """
    xp = array_namespace(like)
    dtype = like.dtype if xp.isdtype(like.dtype, "real floating") else xp.float64
    if is_array_api_obj(value) and not isinstance(value, np.generic):
        if is_numpy_array(value) != is_numpy_array(like):
            raise GradlabError(
                "numpy arrays and torch tensors cannot be mixed; convert one to the other"
            )
        return value if xp.isdtype(value.dtype, "real floating") else xp.astype(value, dtype)
    try:
        return xp.asarray(value, dtype=dtype, device=like.device)
    except (TypeError, ValueError) as error:
        raise GradlabError(f"expected numbers, got {value!r}") from error


def as_arrays(*values: Any) -> list[Float[Array, "..."]]:
    """Convert values to one kind of array; numbers and lists take the first's dtype and device."""
    arrays = [
        value for value in values if is_array_api_obj(value) and not isinstance(value, np.generic)
    ]
    like = arrays[0] if arrays else np.zeros(())
    return [as_like(value, like) for value in values]


def check_vectors(
    anchor: Any, positive: Any, negative: Any, weight: Any
) -> tuple[
    Float[Array, "*#n d"], Float[Array, "*#n d"], Float[Array, "*_ d"], Float[Array, "*#n k"] | None
]:
    """Convert the vectors to arrays of one kind, dtype and device.

    Raises:
        GradlabError: shapes that do not fit, rows not of unit norm, or a weight that is not finite.
    """
    anchor, positive, negative = as_arrays(anchor, positive, negative)
    xp = array_namespace(anchor)
    for name, rows in (("anchor", anchor), ("positive", positive), ("negative", negative)):
        if rows.ndim == 0 or rows.shape[-1] != anchor.shape[-1] or math.prod(rows.shape) == 0:
            raise GradlabError(
                f"{name} must have shape (..., D) with the anchor's D; it is {tuple(rows.shape)} "
                f"and the anchor's is {tuple(anchor.shape)}"
            )
        if rows.dtype != anchor.dtype or rows.device != anchor.device:
            raise GradlabError(
                f"{name} ({rows.dtype} on {rows.device}) and anchor "
                f"({anchor.dtype} on {anchor.device}) must have one dtype and one device"
            )
        off = float(xp.max(xp.abs(xp.linalg.vector_norm(rows, axis=-1) - 1)))
        if not off <= NORM_TOLERANCE[str(rows.dtype)]:
            raise GradlabError(
                f"{name} must have unit rows (a norm is off by {off:.2g}); "
                "divide each row by its norm"
            )
    rows = {"rows of anchor": anchor.shape[:-1], "rows of positive": positive.shape[:-1]}
    if weight is None:
        check_broadcast(**rows, **{"rows of negative": negative.shape[:-1]})
        return anchor, positive, negative, None
    weight = xp.astype(as_like(weight, anchor), anchor.dtype)
    if negative.ndim < 2 or weight.ndim == 0 or weight.shape[-1] != negative.shape[-2]:
        raise GradlabError(
            "weight must have shape (..., K) for negatives (..., K, D); they are "
            f"{tuple(weight.shape)} and {tuple(negative.shape)}"
        )
    if not bool(xp.all(xp.isfinite(weight))):
        raise GradlabError("weight must be finite")
    check_broadcast(
        **rows, **{"negative sets": negative.shape[:-2], "rows of weight": weight.shape[:-1]}
    )
    return anchor, positive, negative, weight


def check_broadcast(**shapes: Sequence[int]) -> None:
    """Raise `GradlabError` unless arrays of these shapes broadcast."""
    try:
        np.broadcast_shapes(*map(tuple, shapes.values()))
    except ValueError:
        text = listed([f"{name} {tuple(shape)}" for name, shape in shapes.items() if len(shape)])
        raise GradlabError(
            f"shapes that do not fit together: {text}; give one shape, or single numbers"
        ) from None
