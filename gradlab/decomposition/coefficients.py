"""Second step of `decompose`: coefficients from gradients, by extra coordinates or least squares.

For a loss of dot products the gradient of anchor i is

    ∂L/∂h_i = Σ_j ∂L/∂S_ij h_j' + Σ_{j≠i} ∂L/∂Q_ij h_j + (a multiple of h_i),

but with more vectors than dimensions, the sum does not determine its coefficients. Lifting does:
every vector gets an extra coordinate, in which it alone has the entry δ, and its other entries
shrink by √(1-δ²). In the coordinate of h_j', the anchor's gradient is then δ ∂L/∂S_ij, without
other contributions. All dot products of different vectors shrink by 1-δ², so the coefficients are
those of a point δ² away.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from gradlab.arrays import Bool, Float
from gradlab.decomposition.checked_loss import ROUNDING, CheckedLoss, Rows, lift
from gradlab.errors import GradlabError
from gradlab.losses.components import project

Gradient = Float[Tensor, "n d"]
Coefficients = Float[Tensor, "n columns"]
PerAnchor = Float[Tensor, "n"]
# Sizes δ of the extra coordinate. With the first, δ² is lost in rounding: dot products do not
# change and no gate flips. It suffices if the arithmetic of the loss keeps exact zeros. The larger
# ones are for losses that do not (matrix inverses, float16), because their rounding errors are
# divided by δ.
DELTAS = (2.0**-40, 2.0**-24, 2.0**-12)
# Error and residual relative to the largest coefficient below which no larger δ is tried.
GOOD = 1e-10
# Halving δ doubles a coefficient of order 1/δ and keeps a finite one, also at ties.
DIVERGENCE = 1.5
# Least squares with a larger condition number would lose half of the digits.
WORST_CONDITION = 1e8
# Generous bound on the rounding error of a gradient, in units of the machine epsilon.
ROUNDINGS = 32


@dataclasses.dataclass(frozen=True)
class Reading:
    """Coefficients of each anchor's gradient on all vectors of the batch, in the tangent space.

    Attributes:
        coefficients: one column per vector of the batch; 0 for the anchor itself, which is radial.
        error: estimated absolute error of an anchor's coefficients.
        residual: tangent gradient that the coefficients do not reproduce.
        diverges: whether the coefficients grow as δ shrinks, because a derivative is infinite.
    """

    coefficients: Coefficients
    error: PerAnchor
    residual: Gradient
    diverges: Bool[Tensor, "n"]

    @property
    def scale(self) -> PerAnchor:
        """Largest coefficient of each anchor in absolute value."""
        return self.coefficients.abs().amax(dim=1)

    @property
    def uncertainty(self) -> PerAnchor:
        """Error plus norm of the residual of each anchor."""
        uncertainty: Tensor = self.error + self.residual.norm(dim=1)
        return uncertainty

    def or_better(self, reading: Reading) -> Reading:
        """Return this reading with the other one for the anchors whose `uncertainty` it lowers."""
        better = reading.uncertainty < self.uncertainty
        return Reading(
            *(
                torch.where(better[:, None] if current.ndim == 2 else better, candidate, current)
                for current, candidate in zip(
                    vars(self).values(), vars(reading).values(), strict=True
                )
            )
        )

    def unexplained(self, tangent: Gradient, tolerance: float) -> Bool[Tensor, "n"]:
        """Return where residuals exceed ``tolerance`` of anchors' gradients and rounding, (n,)."""
        size, residual = tangent.norm(dim=1), self.residual.norm(dim=1)
        least = tolerance * size.clamp(min=tolerance * float(size.max()))
        beyond: Tensor = (residual > ROUNDING * self.scale) & (residual > least)
        return beyond

    def majority(self, flags: Bool[Tensor, "n"]) -> bool:
        """Return whether ``flags`` holds for more than half of the anchors with a gradient."""
        active = (self.scale > 0) | (self.residual.norm(dim=1) > 0)
        return bool(2 * (flags & active).sum() > active.sum())


def read_lifted(loss: CheckedLoss, turned: Rows, tangent: Gradient) -> Reading:
    """Read the coefficients in the extra coordinates, with the best δ for each anchor.

    Each δ is used with both signs, so that additive constants cancel, such as the ``eps`` of
    ``torch.nn.functional.pairwise_distance``. A second reading uses 2δ on the turned batch. The
    error is of order δ²: the difference of the readings estimates it, with rounding, and
    extrapolation removes it. Larger δ are tried if the two readings of an anchor disagree, as after
    a flipped gate, or if the coefficients do not reproduce the gradient of the loss.
    """
    rows, d = loss.rows, loss.rows.shape[1]

    def central_difference(where: Rows, delta: float) -> Coefficients:
        plus, minus = (loss(lift(where, sign * delta)).gradient[:, d:] for sign in (1, -1))
        coefficients: Tensor = (plus - minus) / (2 * delta)
        coefficients.diagonal().zero_()  # an anchor's coefficient on itself is radial
        return coefficients

    best: Reading | None = None
    for delta in DELTAS:
        fine, coarse = central_difference(rows, delta), central_difference(turned, 2 * delta)
        error = (fine - coarse).abs().amax(dim=1) / 3
        # Readings far apart, as after a flipped gate, have no errors of order δ²: no extrapolation.
        smooth = error < 0.01 * fine.abs().amax(dim=1)
        extrapolated = torch.where(smooth[:, None], fine + (fine - coarse) / 3, fine)
        # Compare sums: ties can divide a sum differently; one that depends on δ has no limit.
        diverges = fine.abs().sum(dim=1) > DIVERGENCE * coarse.abs().sum(dim=1)
        reading = Reading(extrapolated, error, _residual(tangent, extrapolated, rows), diverges)
        best = reading if best is None else best.or_better(reading)
        if bool((best.uncertainty <= GOOD * best.scale).all()):
            break
    assert best is not None
    return best


def read_span(rows: Rows, tangent: Gradient) -> Reading:
    """Read the coefficients by least squares of the tangent gradient on the 2N + M vectors.

    At least as many vectors as dimensions would explain any gradient.
    """
    d, m = rows.shape[1], len(rows) - 2 * len(tangent)
    if len(rows) >= d:
        raise GradlabError(
            f"that takes fewer vectors than dimensions, but there are {len(rows)} vectors "
            f"(both views{', extra negatives' if m else ''}) in {d} dimensions; "
            f"give at most {max(0, d - m - 1) // 2} sentences"
        )
    left, singular, right = torch.linalg.svd(rows, full_matrices=False)
    condition = float(singular[0] / singular[-1]) if float(singular[-1]) > 0 else float("inf")
    if not condition < WORST_CONDITION:
        raise GradlabError(
            f"the batch's vectors are linearly dependent (condition number {condition:.1g}), "
            "so that a gradient does not determine its coefficients; "
            "give a batch without near-duplicates"
        )
    coefficients = (tangent @ right.T / singular) @ left.T
    # Coefficients within rounding are set to zero.
    rounding = ROUNDINGS * torch.finfo(rows.dtype).eps * condition * coefficients.abs().amax(1)
    coefficients = torch.where(coefficients.abs() > rounding[:, None], coefficients, 0)
    coefficients.diagonal().zero_()
    nowhere = torch.zeros_like(rounding, dtype=torch.bool)
    return Reading(coefficients, rounding, _residual(tangent, coefficients, rows), nowhere)


def _residual(tangent: Gradient, coefficients: Coefficients, rows: Rows) -> Gradient:
    residual: Tensor = tangent - project(coefficients @ rows, rows[: len(tangent)])
    return residual
