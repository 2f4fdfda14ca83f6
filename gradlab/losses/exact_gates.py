"""Forms of the gradient dissipation that the exact simulator can integrate."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from gradlab.arrays import Float

Angles = Float[np.ndarray, "*n"]


@dataclasses.dataclass(frozen=True)
class HardGate:
    """``GD = 1{max_k cos θ_k > x(θ_pos)}``: open while the hardest negative is too close."""

    # Maps the positive's angle in [0, π] to the cosine x; -inf keeps the gate open.
    threshold: Callable[[Angles], Angles]
    # Angles in [0, π] where the threshold, or the probability of an open gate, is not smooth.
    kinks: tuple[float, ...] = ()
    ceiling: float = 1.0  # negatives with a cosine above it are left out


@dataclasses.dataclass(frozen=True)
class SoftGate:
    """``GD = S/(S + e^A)``, a softmax of logits of angles in [0, π].

    Here, ``S = Σ_k e^{negative_logit(θ_k)}`` and ``A = positive_logit(θ_pos)``.
    """

    # Must compare equal for equal settings: the simulator caches results by it.
    negative_logit: Callable[[Angles], Angles]
    positive_logit: Callable[[Angles], Angles]


@dataclasses.dataclass(frozen=True)
class SumGate:
    """``GD = Σ_k f(θ_k)``: each negative has its own gate, independent of the positive."""

    term: Callable[[Angles], Angles]  # f, of angles in [0, π]
    scale: float  # radians over which f changes by about a factor of e
    kinks: tuple[float, ...] = ()  # angles strictly between 0 and π at which f is not smooth


@dataclasses.dataclass(frozen=True)
class ConstantGate:
    """A constant dissipation."""

    value: float = 1.0


@dataclasses.dataclass(frozen=True)
class CosineLogit:
    """The logit ``cos θ/τ`` of an angle in radians."""

    temperature: float

    def __call__(self, angle: Angles) -> Angles:
        logit: np.ndarray = np.cos(angle) / self.temperature
        return logit


@dataclasses.dataclass(frozen=True)
class OfFar:
    """A function of angles, constant below the angle ``nearest``, where negatives are left out."""

    function: Callable[[Angles], Angles]
    nearest: float  # smallest angle that counts, in radians
    left_out: float  # value below it

    def __call__(self, angle: Angles) -> Angles:
        return np.where(
            angle < self.nearest, self.left_out, self.function(np.maximum(angle, self.nearest))
        )


def without_near(gate: ExactGate, above: float) -> ExactGate | None:
    """Leave negatives with cosines above ``above`` out; None for a constant: no form fits it."""
    if above >= 1:
        return gate
    if above <= -1:
        return ConstantGate(0.0)
    nearest = float(np.arccos(above))
    if isinstance(gate, ConstantGate):
        return None
    if isinstance(gate, SumGate):
        return dataclasses.replace(
            gate, term=OfFar(gate.term, nearest, 0.0), kinks=(*gate.kinks, nearest)
        )
    if isinstance(gate, SoftGate):
        return dataclasses.replace(
            gate, negative_logit=OfFar(gate.negative_logit, nearest, -np.inf)
        )
    ceiling = min(gate.ceiling, above)
    grid = np.linspace(0, np.pi, 2001)
    below = gate.threshold(grid) < ceiling
    (edges,) = np.nonzero(below[:-1] != below[1:])
    left, right = grid[edges], grid[edges + 1]
    for _ in range(60):  # bisection: the threshold at the left end stays on its side of the ceiling
        middle = (left + right) / 2
        inside = (gate.threshold(middle) < ceiling) == below[edges]
        left, right = np.where(inside, middle, left), np.where(inside, right, middle)
    return dataclasses.replace(gate, kinks=(*gate.kinks, *right.tolist()), ceiling=ceiling)


ExactGate = HardGate | SoftGate | SumGate | ConstantGate
