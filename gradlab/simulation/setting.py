"""`Setting`: the grid of mean angles, the spreads and the number of negatives of a simulation."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from gradlab.arrays import Float
from gradlab.errors import GradlabError, check_whole
from gradlab.settings import Settings, setting

POSITIVE_RANGE = (np.pi / 20, np.pi / 2)  # Li et al. 2024, Section 3.1
NEGATIVE_RANGE = (np.pi / 20, np.pi)
POINTS = 100  # on each axis, where not given


@dataclasses.dataclass(frozen=True, eq=False)
class Setting(Settings):
    """One angle ``θ_pos ~ N(μ_pos, σ_pos²)`` and K angles ``θ_neg ~ N(μ_neg, σ_neg²)``, in radians.

    Drawn angles can fall outside [0, π]; the cosine folds them back. An anchor can have H own
    negatives with angles ``θ_own ~ N(μ_own, σ_own²)``.
    """

    mu_pos: Float[np.ndarray, "p"]  #: mean angles to the positive
    mu_neg: Float[np.ndarray, "q"]  #: mean angles to the negatives
    sigma_pos: float = setting(0.05, "spread of the positive's angle", rule="non-negative")
    sigma_neg: float = setting(0.10, "spread of the negatives' angles", rule="non-negative")
    negatives: int = setting(127, "K, the number of negatives of an anchor", at_least=1)
    own_negatives: int = setting(0, "H, the number of its own ones", at_least=0)
    mu_own: float | None = None  #: mean angle to the own negatives; None for that of the others
    sigma_own: float | None = setting(
        None, "spread of their angles; None for that of the others", rule="non-negative"
    )
    #: count, mean angles (one, or one per grid column) and spread of each kind of negatives
    kinds: list[tuple[int, Float[np.ndarray, "q"], float]] = dataclasses.field(
        default_factory=list, init=False, repr=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.own_negatives and (self.mu_own is not None or self.sigma_own is not None):
            raise GradlabError(
                "mu_own and sigma_own belong to own_negatives; say how many there are"
            )
        if self.mu_own is not None:
            if np.ndim(self.mu_own):
                raise GradlabError(f"mu_own must be one angle, not {self.mu_own!r}")
            self._fix(mu_own=float(_axis("mu_own", self.mu_own)[0]))
        self.kinds.append((self.negatives, self.mu_neg, self.sigma_neg))
        if self.own_negatives:
            mu = self.mu_neg if self.mu_own is None else np.array([self.mu_own])
            sigma = self.sigma_neg if self.sigma_own is None else self.sigma_own
            self.kinds.append((self.own_negatives, mu, sigma))

    @classmethod
    def create(
        cls,
        mu_pos: Any = None,
        mu_neg: Any = None,
        grid: int | tuple[int, int] | None = None,
        **settings: Any,
    ) -> Setting:
        """Return a setting; mean angles not given cover the paper's range with ``grid`` points.

        Raises:
            GradlabError: the grid has fewer than 2 points, a mean angle is outside [0, π], a spread
                is negative, there are no negatives, or angles of own negatives are given without
                the number of these.
        """
        points = grid if isinstance(grid, tuple) else (grid, grid)
        if len(points) != 2:
            raise GradlabError(
                f"grid must be one number, or one for each of the two axes, not {grid!r}"
            )
        return cls(
            _even(POSITIVE_RANGE, points[0]) if mu_pos is None else _axis("mu_pos", mu_pos),
            _even(NEGATIVE_RANGE, points[1]) if mu_neg is None else _axis("mu_neg", mu_neg),
            **settings,
        )

    @property
    def columns(self) -> int:
        """Number of negatives of an anchor, K + H."""
        return self.negatives + self.own_negatives

    def means(self, mu_neg: float) -> Float[np.ndarray, "k"]:
        """Return the mean angle to each of an anchor's negatives, (K + H,), own negatives last."""
        return self._per_negative(mu_neg, self.mu_own)

    @property
    def spreads(self) -> Float[np.ndarray, "k"]:
        """Spread of the angle to each negative, (K + H,), own negatives last."""
        return self._per_negative(self.sigma_neg, self.sigma_own)

    def _per_negative(self, in_batch: float, own: float | None) -> Float[np.ndarray, "k"]:
        return np.repeat(
            [in_batch, in_batch if own is None else own], [self.negatives, self.own_negatives]
        )


def _even(limits: tuple[float, float], points: int | None) -> Float[np.ndarray, "a"]:
    """Return points from one limit to the other, `POINTS` if their number is None."""
    if points is None:
        return np.linspace(*limits, POINTS)
    check_whole("grid", points, 2)
    return np.linspace(*limits, int(points))


def _axis(name: str, values: Any) -> Float[np.ndarray, "a"]:
    try:
        axis = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        axis = np.empty(0)
    if axis.ndim != 1 or axis.size == 0:
        description = f"an array of shape {axis.shape}" if axis.size else repr(values)
        raise GradlabError(f"{name} must be a number or a list of angles, not {description}")
    if not bool(np.all((axis >= 0) & (axis <= np.pi))):
        raise GradlabError(f"{name} must be angles in radians between 0 and π")
    return axis
