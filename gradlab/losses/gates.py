"""Gradient dissipation in the two forms that the exact simulator integrates, and a constant."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

Angles = np.ndarray


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
    """``GD = S/(S + e^A)``, ``S = Σ_k e^{cos θ_k/τ}``, ``A = positive_cosine(θ_pos)/τ``.

    Attributes:
        temperature: τ.
        positive_cosine: maps angles of the positive in [0, π] to the (margin-shifted) cosine.
    """

    temperature: float
    positive_cosine: Callable[[Angles], Angles]


@dataclasses.dataclass(frozen=True)
class ConstantGate:
    """A dissipation that depends on nothing."""

    value: float = 1.0


ExactGate = HardGate | SoftGate | ConstantGate
