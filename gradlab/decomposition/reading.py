"""Second step: the coefficients of the paradigm read from gradients, by extra coordinates or by least squares.

For a loss of dot products the gradient of anchor i is

    ∂L/∂h_i = Σ_j ∂L/∂S_ij h_j' + Σ_{j≠i} ∂L/∂Q_ij h_j + (a multiple of h_i),

but with more vectors than dimensions the sum does not tell its coefficients. Lifting does: give every
vector a coordinate of its own, in which it alone is δ, and shrink the rest by √(1-δ²). The anchor's
gradient in the coordinate of h_j' is then δ ∂L/∂S_ij, and nothing else contributes to it. All dot
products of different vectors shrink by 1-δ², so that the coefficients are those of a point δ² away.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from gradlab.arrays import Bool, Float
from gradlab.decomposition.checking import ROUNDING, CheckedLoss, Rows, lift
from gradlab.errors import GradlabError
from gradlab.losses.components import project

Gradient = Float[Tensor, "n d"]
Coefficients = Float[Tensor, "n columns"]
Each = Float[Tensor, "n"]
# Size of the extra coordinate. At the first, δ² is lost in rounding: dot products do not move at all and no gate
# can flip. It serves every loss whose arithmetic keeps exact zeros exact. The larger ones serve losses that
# do not (matrix inverses, float16): there rounding errors are divided by δ.
DELTAS = (2.0**-40, 2.0**-24, 2.0**-12)
# An anchor whose error and residual, relative to its largest coefficient, are below this is not tried again.
GOOD = 1e-10
# Halving δ doubles a coefficient that is 1/δ; smooth ones and ties stay.
DIVERGENCE = 1.5
# Least squares whose condition number exceeds this would lose half of the digits.
WORST_CONDITION = 1e8
# Roundings that the gradient of a loss has gone through, generously.
ROUNDINGS = 32


@dataclasses.dataclass(frozen=True)
class Reading:
    """Coefficients of each anchor's gradient on all vectors of the batch, in the tangent space.

    Attributes:
        coefficients: columns are the anchors, the positives and the extra negatives; 0 for the anchor itself, which is radial.
        error: estimated absolute error of an anchor's coefficients.
        residual: tangent gradient that they do not reproduce.
        diverges: whether the coefficients grow as δ shrinks: a derivative that is infinite.
    """

    coefficients: Coefficients
    error: Each
    residual: Gradient
    diverges: Bool[Tensor, "n"]

    @classmethod
    def of(
        cls,
        rows: Rows,
        tangent: Gradient,
        coefficients: Coefficients,
        error: Each,
        diverges: Bool[Tensor, "n"],
    ) -> Reading:
        """With the residual of the ``tangent`` gradient at these rows."""
        residual = tangent - project(coefficients @ rows, rows[: len(tangent)])
        return cls(coefficients, error, residual, diverges)

    @property
    def scale(self) -> Each:
        """Largest coefficient of each anchor in absolute value."""
        return self.coefficients.abs().amax(dim=1)

    @property
    def badness(self) -> Each:
        """Error and residual of each anchor."""
        badness: Tensor = self.error + self.residual.norm(dim=1)
        return badness

    def or_better(self, other: Reading) -> Reading:
        """The other reading for the anchors that it serves better."""
        better = other.badness < self.badness
        return Reading(
            *(
                torch.where(better[:, None] if mine.ndim == 2 else better, theirs, mine)
                for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True)
            )
        )

    def unexplained(self, tangent: Gradient, tolerance: float) -> Bool[Tensor, "n"]:
        """Anchors whose residual is more than ``tolerance`` of their gradient, and more than rounding makes."""
        size, residual = tangent.norm(dim=1), self.residual.norm(dim=1)
        beyond: Tensor = residual > ROUNDING * self.scale
        return beyond.logical_and_(residual > tolerance * size.clamp(min=tolerance * float(size.max())))

    def majority(self, flags: Bool[Tensor, "n"]) -> bool:
        """Whether more than half of the anchors on which anything acts are flagged."""
        active = (self.scale > 0) | (self.residual.norm(dim=1) > 0)
        return bool(2 * (flags & active).sum() > active.sum())


def read_lifted(loss: CheckedLoss, rows: Rows, turned: Rows, tangent: Gradient) -> Reading:
    """Read the coefficients in the extra coordinates, anchor by anchor at the δ that serves it best.

    Each δ is tried with both signs (what an additive constant leaves in the coordinate, such as the ``eps`` of
    ``torch.nn.functional.pairwise_distance``, cancels), and doubled on the turned batch: the error is of order δ², so
    that the difference estimates it, rounding included, and extrapolation removes it. The first δ suffices for
    nearly every loss; further ones are tried for anchors where the two readings disagree, as after a gate has flipped
    between them, or where the coefficients do not reproduce the gradient of the loss itself.
    """
    d = rows.shape[1]

    def symmetric(where: Rows, delta: float) -> Coefficients:
        plus, minus = (loss(lift(where, sign * delta)).gradient[:, d:] for sign in (1, -1))
        found: Tensor = (plus - minus) / (2 * delta)
        found.diagonal().zero_()  # an anchor's coefficient on itself is radial
        return found

    best: Reading | None = None
    for delta in DELTAS:
        near, far = symmetric(rows, delta), symmetric(turned, 2 * delta)
        error = (near - far).abs().amax(dim=1) / 3
        # Where the readings are far apart (a flipped gate) the error is not of order δ², and nothing is extrapolated.
        smooth = error < 0.01 * near.abs().amax(dim=1)
        extrapolated = torch.where(smooth[:, None], near + (near - far) / 3, near)
        # A tie may divide the same sum in another way; a sum that depends on δ has no limit.
        diverges = near.abs().sum(dim=1) > DIVERGENCE * far.abs().sum(dim=1)
        reading = Reading.of(rows, tangent, extrapolated, error, diverges)
        best = reading if best is None else best.or_better(reading)
        if bool((best.badness <= GOOD * best.scale).all()):
            break
    assert best is not None
    return best


def read_span(rows: Rows, tangent: Gradient) -> Reading:
    """Least squares of the tangent gradient on the 2N + M vectors themselves.

    Raises:
        GradlabError: no fewer vectors than dimensions (they span everything, and any gradient would be explained), or
            vectors so dependent that the coefficients are not determined.
    """
    d, m = rows.shape[1], len(rows) - 2 * len(tangent)
    if len(rows) >= d:
        raise GradlabError(
            f"that takes fewer vectors than dimensions, but there are {len(rows)} vectors (both views"
            f"{', extra negatives' if m else ''}) in {d} dimensions; give at most {max(0, d - m - 1) // 2} sentences"
        )
    left, singular, right = torch.linalg.svd(rows, full_matrices=False)
    condition = float(singular[0] / singular[-1]) if float(singular[-1]) > 0 else float("inf")
    if not condition < WORST_CONDITION:
        raise GradlabError(
            f"the batch's vectors are linearly dependent (condition number {condition:.1g}), so that a gradient "
            "does not determine its coefficients; give a batch without near-duplicates"
        )
    coefficients = (tangent @ right.T / singular) @ left.T
    # What rounding alone may have made is not a coefficient.
    rounding = ROUNDINGS * torch.finfo(rows.dtype).eps * condition * coefficients.abs().amax(1)
    coefficients = torch.where(coefficients.abs() > rounding[:, None], coefficients, 0)
    coefficients.diagonal().zero_()
    return Reading.of(rows, tangent, coefficients, rounding, torch.zeros_like(rounding, dtype=torch.bool))
