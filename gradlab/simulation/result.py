"""`SimulationResult`: arrays of a simulation with their settings."""

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
from gradlab.errors import GradlabError
from gradlab.files import read_arrays, versions, write_arrays
from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss
from gradlab.settings.objects import importing_nothing


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


def _registered_loss(text: str, settings: Mapping[str, Any]) -> Loss:
    """Return the registered loss that a file names."""
    with importing_nothing():
        return get_loss(text, **settings)
