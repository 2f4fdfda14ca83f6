"""Heatmap of a simulated quantity over both mean angles (Figures 2, 4 and 10 of Li et al. 2024)."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from gradlab.errors import GradlabError
from gradlab.losses.temperature import OF_TRAINING
from gradlab.plotting.colours import COLORMAP, signed_colormap
from gradlab.plotting.style import (
    LABELS,
    NEGATIVE_AXIS,
    POSITIVE_AXIS,
    RANGES,
    SIGNED,
    draw_curve,
    figure_of,
    new_figure,
    pi_axis,
    wrapped,
)

ATTRACTION = 5e-3  # mean push below which a cell counts as attracting
TITLE_WIDTH = 48  # characters per line of a title above a heatmap

if TYPE_CHECKING:
    from gradlab.losses.base import Loss
    from gradlab.simulation.grid_and_result import SimulationResult


def draw_simulation(result: SimulationResult, ax: Axes | None = None) -> tuple[Figure, Axes]:
    """Draw a simulation as a heatmap, with μ_neg on the x axis and μ_pos on the y axis.

    The diagonal is dashed. Cells without a value (no batch passes) are grey; values outside the
    fixed range get its end colours. For a single mean angle to the positive, draw a curve with
    standard error.

    Args:
        result: a simulation over at least two mean angles to the negatives.
        ax: axis to draw on, or None for a new figure.

    Raises:
        GradlabError: the simulation has several mean angles to the positive, but one to negatives.
    """
    label = loss_label(result.loss)
    figure, ax = new_figure() if ax is None else (figure_of(ax), ax)
    if result.mu_pos.size > 1:
        mesh = draw_grid(ax, result.mu_pos, result.mu_neg, result.value, result.quantity)
        ax.set_title(textwrap.fill(label, TITLE_WIDTH))
        add_colorbar(figure, mesh, ax, result.quantity)
    else:
        _draw_row(ax, result, label)
    return figure, ax


def draw_grid(
    ax: Axes,
    mu_pos: np.ndarray,
    mu_neg: np.ndarray,
    value: np.ndarray,
    quantity: str,
    *,
    diagonal: bool = True,
) -> QuadMesh:
    """Draw ``value`` (P, Q) over ``mu_neg`` (Q,) and ``mu_pos`` (P,), in radians; label the axes.

    With ``diagonal``, draw the line μ_pos = μ_neg.

    Raises:
        GradlabError: the grid has a single row or column.
    """
    if min(value.shape) < 2:
        raise GradlabError("a heatmap needs at least 2 points on both axes")
    (low, high), colors = RANGES[quantity], COLORMAP
    if quantity in SIGNED and np.nanmin(value, initial=0.0) < -ATTRACTION:
        low, colors = -high, signed_colormap()
    ax.set_facecolor("0.8")
    look: Any = {"cmap": colors, "vmin": low, "vmax": high, "rasterized": True}
    mesh = ax.pcolormesh(mu_neg, mu_pos, value, shading="nearest", **look)
    if diagonal:
        _diagonal(ax)
    pi_axis(ax.xaxis)
    pi_axis(ax.yaxis)
    ax.set(xlabel=NEGATIVE_AXIS, ylabel=POSITIVE_AXIS)
    return mesh


def add_colorbar(figure: Figure, mesh: Any, ax: Any, quantity: str, **options: Any) -> None:
    """Add a colour bar with the quantity's label, pointed where values exceed the fixed range."""
    values = np.ma.compressed(np.ma.masked_invalid(mesh.get_array()))
    below, above = bool((values < mesh.norm.vmin).any()), bool((values > mesh.norm.vmax).any())
    ends = {(True, True): "both", (True, False): "min", (False, True): "max"}
    extend = "both" if quantity == "ratio" else ends.get((below, above), "neither")
    bar = figure.colorbar(mesh, ax=ax, extend=extend, **options)
    bar.set_label(wrapped(LABELS[quantity], bar.ax))
    assert bar.solids is not None
    bar.solids.set_rasterized(True)


def loss_label(loss: Loss, only: tuple[str, ...] | None = None) -> str:
    """Return the loss and its hyper-parameters (or ``only`` some) on a line, angles in degrees."""
    settings = []
    for field in dataclasses.fields(loss):
        value = getattr(loss, field.name)
        is_default = isinstance(value, str) and value == field.default
        is_named = not is_default if only is None else field.name in only
        if not is_named or field.name in OF_TRAINING:
            continue
        text = f"{value:.3g}" if isinstance(value, float) else str(value)
        if field.metadata.get("unit") == "radians":
            text = f"{math.degrees(value):.3g}°"
        settings.append(f"{field.name.replace('_', ' ')} {text}")
    return f"{loss.title} ({', '.join(settings)})" if settings else loss.title


def _draw_row(ax: Axes, result: SimulationResult, label: str) -> None:
    """Draw the curve of a single mean angle to the positive."""
    error = None if result.standard_error is None else result.standard_error[0]
    draw_curve(ax, np.degrees(result.mu_neg), result.value[0], error, 1, 0.2, label=label)
    ax.set_xlabel("mean angle to the negatives, degrees")
    ax.set_ylabel(wrapped(LABELS[result.quantity], ax))
    if result.quantity != "ratio":
        low = min(0.0, float(np.nanmin(result.value)))
        ax.set_ylim(1.05 * low - 0.03, max(1.05, ax.get_ylim()[1]))
    ax.set_title(f"positive at {math.degrees(result.mu_pos[0]):.3g}°")
    ax.legend()


def _diagonal(ax: Axes) -> None:
    """Draw the line μ_pos = μ_neg, if the axes meet there, with its equation along it."""
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    start, end = max(left, bottom), min(right, top)
    if start >= end:
        return
    # Visible on every colour of the map, as is the text.
    look: Any = {"color": "white", "path_effects": [withStroke(linewidth=2.0, foreground="black")]}
    ax.plot([start, end], [start, end], linestyle=(0, (4, 3)), linewidth=1.0, **look)
    ax.set(xlim=(left, right), ylim=(bottom, top))
    middle = (start + end) / 2
    ax.text(
        middle - 0.01 * (right - left), middle, "$\\mu_{\\mathrm{pos}} = \\mu_{\\mathrm{neg}}$",
        rotation=45, rotation_mode="anchor", transform_rotates_text=True,
        ha="center", va="bottom", fontsize=8, color="black",
        path_effects=[withStroke(linewidth=2.0, foreground="white")],
    )  # fmt: skip
