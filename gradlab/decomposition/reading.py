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
from gradlab.batch.batch import Batch
from gradlab.decomposition.checking import ROUNDING, CheckedLoss, lift, vectors
from gradlab.errors import GradlabError
from gradlab.losses.components import project

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
        coefficients: columns are the anchors, the positives and the extra negatives.
        error: estimated absolute error of an anchor's coefficients.
        residual: tangent gradient that they do not reproduce.
        diverges: whether the coefficients grow as δ shrinks: a derivative that is infinite.
    """

    coefficients: Float[Tensor, "n columns"]
    error: Float[Tensor, "n"]
    residual: Float[Tensor, "n d"]
    diverges: Bool[Tensor, "n"]

    @property
    def scale(self) -> Float[Tensor, "n"]:
        """Largest coefficient of each anchor in absolute value."""
        return self.coefficients.abs().amax(dim=1)

    @property
    def badness(self) -> Float[Tensor, "n"]:
        """Error and residual of each anchor."""
        badness: Tensor = self.error + self.residual.norm(dim=1)
        return badness

    def or_better(self, other: Reading) -> Reading:
        """The other reading for the anchors that it serves better."""
        better = other.badness < self.badness
        pairs = {
            field.name: (getattr(self, field.name), getattr(other, field.name))
            for field in dataclasses.fields(self)
        }
        return Reading(
            **{
                name: torch.where(better[:, None] if mine.ndim == 2 else better, theirs, mine)
                for name, (mine, theirs) in pairs.items()
            }
        )


def read_lifted(
    loss: CheckedLoss, batch: Batch, turned: Batch, tangent_gradient: Float[Tensor, "n d"]
) -> Reading:
    """Read the coefficients in the extra coordinates, anchor by anchor at the δ that serves it best.

    Each δ is tried with both signs (what an additive constant leaves in the coordinate, such as the ``eps`` of
    ``torch.nn.functional.pairwise_distance``, cancels), and doubled on the turned batch: the error is of order δ², so
    that the difference estimates it, rounding included, and extrapolation removes it. The first δ suffices for
    nearly every loss; further ones are tried for anchors where the two readings disagree, as after a gate has flipped
    between them, or where the coefficients do not reproduce the gradient of the loss itself.

    Args:
        loss: the loss.
        batch: where.
        turned: the same batch, rotated.
        tangent_gradient: the gradient to reproduce.
    """

    d = batch.anchors.shape[1]

    def symmetric(where: Batch, delta: float) -> Float[Tensor, "n columns"]:
        plus = loss(lift(where, delta)).gradient[:, d:]
        minus = loss(lift(where, -delta)).gradient[:, d:]
        return _without_own((plus - minus) / (2 * delta))

    best: Reading | None = None
    for delta in DELTAS:
        near, far = symmetric(batch, delta), symmetric(turned, 2 * delta)
        error = (near - far).abs().amax(dim=1) / 3
        # Where the readings are far apart (a flipped gate) the error is not of order δ², and nothing is extrapolated.
        smooth = error < 0.01 * near.abs().amax(dim=1)
        extrapolated = torch.where(smooth[:, None], near + (near - far) / 3, near)
        # A tie may divide the same sum in another way; a sum that depends on δ has no limit.
        diverges = near.abs().sum(dim=1) > DIVERGENCE * far.abs().sum(dim=1)
        reading = _compare(batch, extrapolated, error, diverges, tangent_gradient)
        best = reading if best is None else best.or_better(reading)
        if bool((best.badness <= GOOD * best.scale).all()):
            break
    assert best is not None
    return best


def read_span(batch: Batch, tangent_gradient: Float[Tensor, "n d"]) -> Reading:
    """Least squares of the tangent gradient on the 2N + M vectors themselves.

    Raises:
        GradlabError: no fewer vectors than dimensions (they span everything, and any gradient would be explained), or
            vectors so dependent that the coefficients are not determined.
    """
    every = vectors(batch)
    d, m = batch.anchors.shape[1], len(every) - 2 * len(batch.anchors)
    if len(every) >= d:
        raise GradlabError(
            f"that takes fewer vectors than dimensions, but there are {len(every)} vectors (both views"
            f"{', extra negatives' if m else ''}) in {d} dimensions; give at most {max(0, d - m - 1) // 2} sentences"
        )
    left, singular, right = torch.linalg.svd(every, full_matrices=False)
    condition = float(singular[0] / singular[-1]) if float(singular[-1]) > 0 else float("inf")
    if not condition < WORST_CONDITION:
        raise GradlabError(
            f"the batch's vectors are linearly dependent (condition number {condition:.1g}), so that a gradient "
            "does not determine its coefficients; give a batch without near-duplicates"
        )
    coefficients = (tangent_gradient @ right.T / singular) @ left.T
    # What rounding alone may have made is not a coefficient.
    rounding = ROUNDINGS * torch.finfo(every.dtype).eps * condition * coefficients.abs().amax(1, keepdim=True)
    coefficients = torch.where(coefficients.abs() > rounding, coefficients, 0)
    never = torch.zeros_like(rounding[:, 0], dtype=torch.bool)
    return _compare(batch, _without_own(coefficients), rounding[:, 0], never, tangent_gradient)


def _without_own(coefficients: Float[Tensor, "n columns"]) -> Float[Tensor, "n columns"]:
    """Zero for each anchor's coefficient on itself, which is radial."""
    rows = torch.arange(len(coefficients), device=coefficients.device)
    coefficients = coefficients.clone()
    coefficients[rows, rows] = 0
    return coefficients


def _compare(
    batch: Batch,
    coefficients: Float[Tensor, "n columns"],
    error: Float[Tensor, "n"],
    diverges: Bool[Tensor, "n"],
    tangent_gradient: Float[Tensor, "n d"],
) -> Reading:
    residual = tangent_gradient - project(coefficients @ vectors(batch), batch.anchors)
    return Reading(coefficients, error, residual, diverges)


def unexplained_anchors(
    reading: Reading, tangent: Float[Tensor, "n d"], tolerance: float
) -> Bool[Tensor, "n"]:
    """Anchors whose residual is more than ``tolerance`` of their gradient, and more than rounding makes."""
    size = tangent.norm(dim=1)
    residual = reading.residual.norm(dim=1)
    beyond_rounding: Tensor = residual > ROUNDING * reading.scale
    beyond_tolerance: Tensor = residual > tolerance * size.clamp(min=tolerance * float(size.max()))
    return beyond_rounding & beyond_tolerance


def majority(flags: Bool[Tensor, "n"], reading: Reading) -> bool:
    """Whether more than half of the anchors on which anything acts are flagged."""
    active = (reading.scale > 0) | (reading.residual.norm(dim=1) > 0)
    return bool(2 * (flags & active).sum() > active.sum())
