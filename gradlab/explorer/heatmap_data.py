"""Heatmaps for the page, simulated by the library and stored with one byte per cell."""

from __future__ import annotations

import base64
import dataclasses
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradlab.explorer.compiler import numbers_of, replace_numbers
from gradlab.losses.base import Loss
from gradlab.losses.pair_loss import PairLoss
from gradlab.progress_bars import progress_bar
from gradlab.quantities import OF_CURVES
from gradlab.seeds import random_generator
from gradlab.simulation import simulate
from gradlab.simulation.grid_and_result import MU_NEG_RANGE, MU_POS_RANGE, AngleGrid

ROWS, COLUMNS = 36, 48
# The value of a cell is low + (high - low) · byte/250, above high, below low, or missing.
LEVELS, ABOVE, BELOW, MISSING = 250, 251, 252, 255
# Ratios can be infinite, and SigLIP's dissipation is a sum over negatives; one scale for all values
# would leave no digits.
LARGEST = 15.0
BATCHES = 200  # Monte Carlo batches for hardest shares
FEW = 8  # batches for a loss that is given as code, which is called once per batch
QUANTITIES = OF_CURVES
TEMPERATURES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)
POSITIVE_SPREADS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2)
SPREADS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
NEGATIVES = (1, 3, 7, 15, 31, 63, 127, 255, 511)
MARGINS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5)  # factors of the loss's own margin


@dataclasses.dataclass(frozen=True)
class Slider:
    """A quantity that changes from frame to frame."""

    name: str  # name on the page
    values: tuple[float, ...]  # values in order
    own: float  # the loss's own value, or that of the papers' setting
    angle: bool = False  # whether the values are angles in radians
    # Of each value the loss, and options of `simulate`.
    simulated: Sequence[tuple[Loss, dict[str, Any]]] = ()


def heatmaps(losses: Mapping[str, Loss], progress: bool | None = None) -> dict[str, Any]:
    """Return all heatmaps of some losses, ready for the page.

    Args:
        losses: losses by their names on the page.
        progress: show a bar if it takes over two seconds; None does so on a terminal.
    """
    jobs = [
        (name, quantity, slider)
        for name, loss in losses.items()
        if loss.closed_form
        for quantity in QUANTITIES
        if isinstance(loss, PairLoss) or (quantity == QUANTITIES[0] and loss.row_loss() is not None)
        for slider in sliders(loss, quantity)
    ]
    series: dict[str, dict[str, dict[str, Any]]] = {}
    for name, quantity, slider in progress_bar(jobs, progress, unit="slider", desc="heatmaps"):
        settings: Any = {"grid": (ROWS, COLUMNS), "batches": BATCHES, "progress": False}
        frames = [
            simulate(changed, quantity, **settings, **options)
            for changed, options in slider.simulated
        ]
        series.setdefault(name, {}).setdefault(quantity, {})[slider.name] = pack(
            quantity, slider, frames
        )
    for name, loss in losses.items():
        if not loss.closed_form:
            series[name] = _still_frames(loss, progress)
    words = (
        "Spreads 0.05 (positive) and 0.10 rad, 127 negatives and the loss's own settings unless a "
        "slider says otherwise. Cells are rounded "
        f"to the stated ±; shares are means over {BATCHES} batches, and everything of a loss that "
        f"is given as code over {FEW}."
    )
    return {
        "rows": ROWS,
        "columns": COLUMNS,
        "upwards": list(MU_POS_RANGE),
        "across": list(MU_NEG_RANGE),
        "series": series,
        "words": words,
    }


def sliders(loss: Loss, quantity: str) -> list[Slider]:
    """Return the sliders that a loss has and a quantity depends on."""
    sliders, numbers = [], numbers_of(loss)
    for name in ("temperature", "margin"):
        path = next((path for path in numbers if path.split(".")[-1] == name), None)
        if path is not None:
            own = numbers[path]
            choices = TEMPERATURES if name == "temperature" else [own * share for share in MARGINS]
            values = tuple(sorted({*choices, own}))
            angle = metadata_at(loss, path).get("unit") == "radians"
            changed: Any = [(_with_number(loss, path, value), {}) for value in values]
            sliders.append(Slider(name, values, own, angle, changed))
    options = [("spread", "sigma_neg", SPREADS, 0.1), ("negatives", "negatives", NEGATIVES, 127)]
    # Other quantities depend on the negatives, or on mean angles.
    if quantity == "relative_push":
        options.insert(1, ("positive_spread", "sigma_pos", POSITIVE_SPREADS, 0.05))
    for name, option, values, default in options:
        angle = option.startswith("sigma")
        sliders.append(Slider(name, values, default, angle, [(loss, {option: x}) for x in values]))
    return sliders


def metadata_at(loss: Any, path: str) -> Mapping[str, Any]:
    """Return the metadata of the field at a path; empty if it is not a numeric field of a loss."""
    *outer, last = path.split(".")
    for name in outer:
        value = getattr(loss, name, None)
        loss = getattr(value, "source", value)
    if not isinstance(getattr(loss, last, None), (int, float)):
        return {}
    return next((field.metadata for field in dataclasses.fields(loss) if field.name == last), {})


def pack(quantity: str, slider: Slider, frames: Sequence[Any]) -> dict[str, Any]:
    """Pack the frames of a slider: quantised, as differences along rows, deflated, in base64.

    Of values beyond ±`LARGEST`, a cell says no more than that.
    """
    errors = [frame.standard_error for frame in frames if frame.standard_error is not None]
    error = max((float(x) for x in np.ravel(errors) if math.isfinite(x)), default=0.0)
    values = np.stack([frame.value for frame in frames])
    finite = values[~np.isnan(values)].clip(-LARGEST, LARGEST)
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if quantity != "ratio":
        low, high = min(0.0, low), max(1.0, high)
    high = max(high, low + 1e-9)
    # The rounding error is at most (high - low)/500.
    levels = np.rint(LEVELS * (np.nan_to_num(values.clip(low, high), nan=low) - low) / (high - low))
    outside = [values > high, values < low, np.isnan(values)]
    cells = np.select(outside, [ABOVE, BELOW, MISSING], levels).astype(np.uint8)
    differences = np.diff(cells, axis=2, prepend=np.zeros((*cells.shape[:2], 1), np.uint8))
    return {
        "values": list(slider.values),
        "start": slider.values.index(slider.own),
        "angle": slider.angle,
        "low": low,
        "high": high,
        "tolerance": (high - low) / LEVELS / 2,
        "error": error,
        "cells": base64.b64encode(zlib.compress(differences.tobytes(), 9)).decode(),
    }


def _with_number(loss: Loss, path: str, value: float) -> Loss:
    return replace_numbers(loss, lambda at, old: value if at == path else old)


def _still_frames(loss: Loss, progress: bool | None) -> dict[str, dict[str, Any]]:
    """Return one frame of each quantity of a loss that is given as code, by quantity and slider."""
    from gradlab.simulation.sampled import sampled  # loads torch

    angle_grid = AngleGrid.create(points_per_axis=(ROWS, COLUMNS))
    rng = random_generator(0)
    estimates = sampled(loss, angle_grid, batches=FEW, generator=rng, progress=progress)
    fixed_slider = Slider("still", (0.0,), 0.0)
    return {name: {"still": pack(name, fixed_slider, [estimates[name]])} for name in QUANTITIES}
