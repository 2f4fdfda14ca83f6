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
    """

    threshold: Callable[[Angles], Angles]
    kinks: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class SoftGate:
    """``GD = S/(S + e^A)``, ``S = Σ_k e^{negative_logit(θ_k)}``, ``A = positive_logit(θ_pos)``.

    Attributes:
        negative_logit: maps angles of a negative in [0, π] to its logit; equal for equal settings, as what
            the simulator makes of it is kept.
        positive_logit: maps angles of the positive in [0, π] to its logit.
        scale: radians within which both change by about 1.
        lowest: bound of the positive's logits from below, up to angles that are never drawn.
        highest: bound of all logits from above, likewise.
        kinks: angles strictly between 0 and π at which a logit is not smooth.
        ends_are_singular: whether a logit may be infinite, or not smooth, at 0 and π.
    """

    negative_logit: Callable[[Angles], Angles]
    positive_logit: Callable[[Angles], Angles]
    scale: float
    lowest: float = -75.0  # what a logarithm of a distance reaches in float64
    highest: float = 75.0
    kinks: tuple[float, ...] = ()
    ends_are_singular: bool = False


@dataclasses.dataclass(frozen=True)
class SumGate:
    """``GD = Σ_k f(θ_k)``: each negative has a gate of its own, whatever the positive.

    Attributes:
        term: ``f``, of angles in [0, π].
        scale: radians within which it changes by about a factor of e.
    """

    term: Callable[[Angles], Angles]
    scale: float


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
        """The logit."""
        logit: np.ndarray = np.cos(angle) / self.temperature
        return logit


def angular_scale(logit: Callable[[Angles], Angles]) -> float:
    """Radians within which a logit changes by 1 where it is steepest, more than 0.05 away from 0 and π."""
    angles = np.linspace(0.05, np.pi - 0.05, 1000)
    return float(1 / np.abs(np.gradient(logit(angles), angles)).max())


ExactGate = HardGate | SoftGate | SumGate | ConstantGate
