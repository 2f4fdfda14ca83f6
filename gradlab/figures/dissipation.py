"""Figures 2 and 10: mean gradient dissipation over both mean angles."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradlab.losses.registry import get_loss
from gradlab.plotting.heatmap import add_colorbar, draw_grid, loss_label
from gradlab.plotting.style import TEXT_WIDTH, empty_figure, style
from gradlab.plotting.tables import Tables, grid_of, grid_table
from gradlab.simulation import simulate

QUANTITY = "gradient_dissipation"
FIGURE_2 = ("arccon", "met")
FIGURE_10 = ("infonce", "mpt", "mat", "baseline")
SHAPING = ("temperature", "margin")  # the hyper-parameters on which a dissipation may depend


def compute(names: tuple[str, ...] = FIGURE_2) -> Tables:
    """Mean dissipation of each loss at its published settings, by the exact engine."""
    tables = {}
    for name in names:
        result = simulate(name)
        tables[name] = grid_table(result.mu_pos, result.mu_neg, {QUANTITY: result.value})
    return tables


def draw(tables: Tables) -> tuple[Figure, list[Axes]]:
    """A heatmap for each loss, two in a row, one colour bar."""
    rows = -(-len(tables) // 2)
    with style():
        figure = empty_figure((TEXT_WIDTH, 0.3 + 2.75 * rows))
        grid = figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False)
        axes = list(grid.ravel())
        for ax, (name, table) in zip(axes, tables.items(), strict=True):
            mesh = draw_grid(ax, *grid_of(table, QUANTITY), QUANTITY)
            ax.set_title(loss_label(get_loss(name), only=("margin",) if name == "baseline" else SHAPING))
            ax.label_outer()
        add_colorbar(figure, mesh, axes, QUANTITY, shrink=0.8 if rows > 1 else 1.0, pad=0.02)
    return figure, axes


def crossing(tables: Tables, name: str, mu_pos: float = np.pi / 6) -> float:
    """μ_neg at which the mean dissipation falls below 1/2, for the nearest μ_pos of the grid, by interpolation."""
    pos, neg, value = grid_of(tables[name], QUANTITY)
    row = value[np.argmin(abs(pos - mu_pos))]
    index = int(np.argmax(row < 0.5))
    return float(np.interp(-0.5, -row[index - 1 : index + 1], neg[index - 1 : index + 1]))


def facts(tables: Tables) -> dict[str, str]:
    """Where each gate is half open at μ_pos = π/6."""
    half = [f"{get_loss(name).title} {crossing(tables, name) / np.pi:.3f}π" for name in tables]
    return {"half": ", ".join(half)}
