"""Gradient dissipation in the forms that the exact simulator integrates, and a constant."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from gradlab.arrays import Float

Angles = Float[np.ndarray, "*n"]


@dataclasses.dataclass(frozen=True)
class HardGate:
    """``GD = 1{max_k cos θ_k > x(θ_pos)}``: open while the hardest negative is too near.

    Attributes:
        threshold: maps angles of the positive in [0, π] to the cosine ``x``; -inf where always open.
        kinks: angles in [0, π] at which the threshold, or the opening that it implies, is not smooth.
        ceiling: cosine above which a negative does not count; 1 where all do.
    """

    threshold: Callable[[Angles], Angles]
    kinks: tuple[float, ...] = ()
    ceiling: float = 1.0


@dataclasses.dataclass(frozen=True)
class SoftGate:
    """``GD = S/(S + e^A)``, ``S = Σ_k e^{negative_logit(θ_k)}``, ``A = positive_logit(θ_pos)``.

    Attributes:
        negative_logit: maps angles of a negative in [0, π] to its logit; equal for equal settings, as what
            the simulator makes of it is kept.
        positive_logit: maps angles of the positive in [0, π] to its logit.
    """

    negative_logit: Callable[[Angles], Angles]
    positive_logit: Callable[[Angles], Angles]


@dataclasses.dataclass(frozen=True)
class SumGate:
    """``GD = Σ_k f(θ_k)``: each negative has a gate of its own, whatever the positive.

    Attributes:
        term: ``f``, of angles in [0, π].
        scale: radians within which it changes by about a factor of e.
        kinks: angles strictly between 0 and π at which it is not smooth.
    """

    term: Callable[[Angles], Angles]
    scale: float
    kinks: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class ConstantGate:
    """A dissipation that depends on nothing."""

    value: float = 1.0


@dataclasses.dataclass(frozen=True)
class CosineLogit:
    """``cos θ/τ``.

    Attributes:
        temperature: τ.
    """

    temperature: float

    def __call__(self, angle: Angles) -> Angles:
        logit: np.ndarray = np.cos(angle) / self.temperature
        return logit


@dataclasses.dataclass(frozen=True)
class FarLogit:
    """A logit of the negatives that are far enough; -inf for nearer ones, which are left out.

    Attributes:
        logit: of angles in [0, π].
        nearest: the smallest angle that counts.
    """

    logit: Callable[[Angles], Angles]
    nearest: float

    def __call__(self, angle: Angles) -> Angles:
        return np.where(angle < self.nearest, -np.inf, self.logit(np.maximum(angle, self.nearest)))


def without_near(gate: ExactGate, above: float) -> ExactGate | None:
    """A gate whose negatives with a cosine above a number in (-1, 1) are left out; None for a constant one, which notices whether any is left."""
    nearest = float(np.arccos(above))
    if isinstance(gate, ConstantGate):
        return None
    if isinstance(gate, SumGate):
        term = gate.term

        def far(angle: Angles) -> Angles:
            return np.where(angle < nearest, 0.0, term(angle))

        return dataclasses.replace(gate, term=far, kinks=(*gate.kinks, nearest))
    if isinstance(gate, SoftGate):
        return dataclasses.replace(gate, negative_logit=FarLogit(gate.negative_logit, nearest))
    ceiling = min(gate.ceiling, above)
    grid = np.linspace(0, np.pi, 2001)
    below = gate.threshold(grid) < ceiling
    kinks = []
    for left, right in zip(
        grid[:-1][below[:-1] != below[1:]], grid[1:][below[:-1] != below[1:]], strict=True
    ):
        for _ in range(60):
            middle = (left + right) / 2
            inside = bool(gate.threshold(np.array([middle]))[0] < ceiling) == bool(
                gate.threshold(np.array([left]))[0] < ceiling
            )
            left, right = (middle, right) if inside else (left, middle)
        kinks.append(float(right))
    return dataclasses.replace(gate, kinks=(*gate.kinks, *kinks), ceiling=ceiling)


ExactGate = HardGate | SoftGate | SumGate | ConstantGate
