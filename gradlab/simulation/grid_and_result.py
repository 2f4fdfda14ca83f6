"""What a simulation is asked, and what it returns: `AngleGrid` and `SimulationResult`."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gradlab.arrays import Float
from gradlab.drawable import Drawable, span
from gradlab.errors import GradlabError, check_whole
from gradlab.files import read_arrays, versions, write_arrays
from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss
from gradlab.settings import Settings, setting
from gradlab.settings.objects import importing_nothing

MU_POS_RANGE = (np.pi / 20, np.pi / 2)  # Li et al. 2024, Section 3.1
MU_NEG_RANGE = (np.pi / 20, np.pi)
POINTS = 100  # on each axis, where not given


@dataclasses.dataclass(frozen=True, eq=False)
class AngleGrid(Settings):
    """The grid of mean angles of a simulation, with their spreads and the number of negatives.

    One angle ``θ_pos ~ N(μ_pos, σ_pos²)`` and K angles ``θ_neg ~ N(μ_neg, σ_neg²)``, in radians.

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
            self._fix(mu_own=float(_checked_angles("mu_own", self.mu_own)[0]))
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
        points_per_axis: int | tuple[int, int] | None = None,
        **settings: Any,
    ) -> AngleGrid:
        """Return a grid; mean angles that are None are evenly spaced over the paper's ranges.

        These are `MU_POS_RANGE` and `MU_NEG_RANGE`.

        Raises:
            GradlabError: the grid is no number or two, or has fewer than 2 points; a mean angle is
                outside [0, π], a spread is negative, there are no negatives, or angles of own
                negatives are given without the number of these.
        """
        is_tuple = isinstance(points_per_axis, tuple)
        counts: Any = points_per_axis if is_tuple else (points_per_axis, points_per_axis)
        if len(counts) != 2:
            raise GradlabError(
                f"grid must be one number, or one for each of the two axes, not {counts!r}"
            )
        count_pos, count_neg = counts
        if mu_pos is None:
            mu_pos = _evenly_spaced(MU_POS_RANGE, count_pos)
        if mu_neg is None:
            mu_neg = _evenly_spaced(MU_NEG_RANGE, count_neg)
        return cls(_checked_angles("mu_pos", mu_pos), _checked_angles("mu_neg", mu_neg), **settings)

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


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SimulationResult(Drawable):
    """A quantity of a loss over a grid of mean angles.

    `plot` draws a heatmap over both mean angles, or a curve for a single angle to the positive.

    Attributes:
        loss: the loss, with its hyper-parameters.
        quantity: ``"relative_push"``, ``"gradient_dissipation"``, ``"hardest_share"`` or
            ``"ratio"``.
        engine: ``"exact"`` or ``"monte_carlo"``.
        mu_pos: mean angles to the positive, radians.
        mu_neg: mean angles to the negatives, radians.
        value: the quantity; NaN where it does not exist.
        standard_error: standard error of the value; None from the exact engine.
        pass_probability: for the hardest share, the probability of GD >= 0.01; else None.
        settings: spreads and number of negatives; for Monte Carlo also batches, seed and device.
    """

    loss: Loss
    quantity: str
    engine: str
    mu_pos: Float[np.ndarray, "p"]
    mu_neg: Float[np.ndarray, "q"]
    value: Float[np.ndarray, "p q"]
    standard_error: Float[np.ndarray, "p q"] | None
    pass_probability: Float[np.ndarray, "p q"] | None
    settings: Mapping[str, Any]

    artist = "gradlab.plotting.heatmap:draw_simulation"

    def __repr__(self) -> str:
        """Return a short summary; the numbers are in `value` and `to_frame`."""
        rows, columns = self.value.shape
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        attracting = self.value < 0 if self.quantity != "ratio" else np.zeros((1, 1), dtype=bool)
        attraction = (
            f"\n  negatives attract the anchor in {100 * attracting.mean():.2g}% of the cells"
            if attracting.any()
            else ""
        )
        return (
            f"SimulationResult: {self.quantity} of {self.loss}, "
            f"{self.engine.replace('_', ' ')} engine, {settings}\n"
            f"  mu_pos  {rows} angles, {self.mu_pos[0]:.3g} to {self.mu_pos[-1]:.3g} rad\n"
            f"  mu_neg  {columns} angles, {self.mu_neg[0]:.3g} to {self.mu_neg[-1]:.3g} rad\n"
            f"  value   {span(self.value)}{attraction}"
        )

    def columns(self) -> dict[str, Float[np.ndarray, "cells"]]:
        """Return a tidy table, one row per cell: angles in radians, standard error NaN if exact."""
        error = np.array(np.nan) if self.standard_error is None else self.standard_error
        table = {"mu_pos": self.mu_pos[:, None], "mu_neg": self.mu_neg}
        table |= {"value": self.value, "standard_error": error}
        if self.pass_probability is not None:
            table["pass_probability"] = self.pass_probability
        shape = self.value.shape
        return {name: np.broadcast_to(column, shape).ravel() for name, column in table.items()}

    def manifest(self) -> dict[str, Any]:
        """Return settings as JSON values: the loss as text, ends and number of the angles."""
        axes = {
            name: {"first": axis[0], "last": axis[-1], "points": axis.size}
            for name, axis in (("mu_pos", self.mu_pos), ("mu_neg", self.mu_neg))
        }
        identity = {"loss": str(self.loss), "quantity": self.quantity, "engine": self.engine}
        return identity | axes | dict(self.settings) | {"versions": versions("numpy", "scipy")}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write arrays and settings to one ``.npz`` file atomically; a missing suffix is added.

        Raises:
            GradlabError: the folder cannot be written to, or no text rebuilds the loss.
        """
        try:
            get_loss(str(self.loss))
        except GradlabError:
            raise GradlabError(
                f"{self.loss} is given as an object and could not be read back; "
                "give it as 'file.py:Name'"
            ) from None
        path = Path(path)
        if path.suffix != ".npz":
            path = path.with_name(f"{path.name}.npz")
        names = ("mu_pos", "mu_neg", "value", "standard_error", "pass_probability")
        arrays = {name: getattr(self, name) for name in names}
        present = {name: array for name, array in arrays.items() if array is not None}
        return write_arrays(path, {"manifest": json.dumps(self.manifest()), **present})

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, loss: str | Loss | None = None
    ) -> SimulationResult:
        """Read a file that `save` wrote; nothing that the file names is imported or run.

        Args:
            path: the file.
            loss: the loss, if it is code of your own, which the file only names.

        Raises:
            GradlabError: the file is not a saved simulation, or its loss is code and not given.
        """
        arrays = read_arrays(path)
        given_loss = None if loss is None else get_loss(loss)
        try:
            manifest = json.loads(str(arrays.pop("manifest")))
            # Files of earlier versions store the hyper-parameters of the loss separately.
            own = {"loss", "hyperparameters", "quantity", "engine", "mu_pos", "mu_neg", "versions"}
            return cls(
                loss=given_loss
                or _registered_loss(manifest["loss"], manifest.get("hyperparameters", {})),
                quantity=manifest["quantity"],
                engine=manifest["engine"],
                settings={key: value for key, value in manifest.items() if key not in own},
                standard_error=arrays.pop("standard_error", None),
                pass_probability=arrays.pop("pass_probability", None),
                **arrays,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise GradlabError(
                f"{str(path)!r} is not a saved simulation ({error}); use SimulationResult.save"
            ) from error


def _evenly_spaced(limits: tuple[float, float], points: int | None) -> Float[np.ndarray, "a"]:
    """Return points from one limit to the other, `POINTS` if their number is None."""
    if points is None:
        return np.linspace(*limits, POINTS)
    check_whole("grid", points, 2)
    return np.linspace(*limits, int(points))


def _checked_angles(name: str, values: Any) -> Float[np.ndarray, "a"]:
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


def _registered_loss(text: str, settings: Mapping[str, Any]) -> Loss:
    """Return the registered loss that a file names."""
    with importing_nothing():
        return get_loss(text, **settings)
