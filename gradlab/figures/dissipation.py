"""Figures 2 and 10: mean gradient dissipation over both mean angles."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradlab.losses.registry import get_loss
from gradlab.plotting.figure_tables import Tables, grid_of, grid_table
from gradlab.plotting.heatmap import add_colorbar, draw_grid, loss_label
from gradlab.plotting.style import TEXT_WIDTH, empty_figure, style
from gradlab.simulation import simulate

QUANTITY = "gradient_dissipation"
FIGURE_2 = ("arccon", "met")
FIGURE_10 = ("infonce", "mpt", "mat", "baseline")


def compute(names: tuple[str, ...] = FIGURE_2) -> Tables:
    """Compute the mean dissipation of each loss at its published settings, by the exact engine."""
    simulations = [simulate(name) for name in names]
    grids = [
        grid_table(simulation.mu_pos, simulation.mu_neg, {QUANTITY: simulation.value})
        for simulation in simulations
    ]
    return dict(zip(names, grids, strict=True))


@style()
def draw(tables: Tables) -> tuple[Figure, list[Axes]]:
    """Draw a heatmap for each loss, two per row, with one colour bar."""
    rows = -(-len(tables) // 2)
    figure = empty_figure((TEXT_WIDTH, 0.3 + 2.75 * rows))
    axes = list(figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False).ravel())
    for ax, (name, table) in zip(axes, tables.items(), strict=True):
        mesh = draw_grid(ax, *grid_of(table, QUANTITY), QUANTITY)
        shaping = ("margin",) if name == "baseline" else ("temperature", "margin")
        ax.set_title(loss_label(get_loss(name), only=shaping))
        ax.label_outer()
    add_colorbar(figure, mesh, axes, QUANTITY, shrink=0.8 if rows > 1 else 1.0, pad=0.02)
    return figure, axes


def facts(tables: Tables) -> dict[str, str]:
    """Return the μ_neg at which each gate is half open at μ_pos = π/6, by interpolation."""
    half = []
    for name, table in tables.items():
        pos, neg, value = grid_of(table, QUANTITY)
        row = value[np.argmin(abs(pos - np.pi / 6))]
        index = int(np.argmax(row < 0.5))
        at = np.interp(-0.5, -row[index - 1 : index + 1], neg[index - 1 : index + 1])
        half.append(f"{get_loss(name).title} {at / np.pi:.3f}π")
    return {"half": ", ".join(half)}
