"""Figure 4: ratios that depend on the angles, and the mean angles that occur in training."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from gradlab.losses.mpt import TripletLoss
from gradlab.losses.registry import get_loss
from gradlab.plotting.figure_tables import Table, Tables, grid_of, grid_table
from gradlab.plotting.heatmap import add_colorbar, draw_grid, loss_label
from gradlab.plotting.style import NEGATIVE_AXIS, TEXT_WIDTH, add_key, empty_figure, key_line, style
from gradlab.simulation import simulate

LOSSES = ("arccon", "met", "mat")
LINES: dict[float, Any] = {1.0: "solid", 2.0: (0, (4, 2))}  # ratio of a contour line -> line style
CLOSED = 0.01  # dissipation below which a gate counts as closed


def compute(as_published: bool = False) -> Tables:
    """Compute each ratio at θ = μ, and the mean dissipation around; as published also at θ = μ."""
    tables = {}
    for name in LOSSES:
        gate = get_loss(name)
        spreads: dict[str, Any] = {}
        if as_published:
            spreads = {"sigma_pos": 0.0, "sigma_neg": 0.0}
            if isinstance(gate, TripletLoss):
                # In some cells the gap is the margin up to rounding; the published gate is closed.
                gate = get_loss(gate, margin=gate.margin * (1 - 1e-12))
        ratio, dissipation = simulate(name, "ratio"), simulate(gate, **spreads)
        values = {"ratio": ratio.value, "gradient_dissipation": dissipation.value}
        tables[name] = grid_table(ratio.mu_pos, ratio.mu_neg, values)
    return tables


def occurs(table: Table) -> np.ndarray:
    """Return whether a cell occurs in training, (P, Q): its gate is open, and μ_pos <= μ_neg."""
    mu_pos, mu_neg, dissipation = grid_of(table, "gradient_dissipation")
    return (dissipation >= CLOSED) & (mu_pos[:, None] <= mu_neg + 1e-9)


def draw_ratio(table: Table, ax: Axes) -> None:
    """Draw a heatmap of a ratio with contours at 1 and 2, hatched where training does not go."""
    mu_pos, mu_neg, ratio = grid_of(table, "ratio")
    draw_grid(ax, mu_pos, mu_neg, ratio, "ratio", diagonal=False)
    away = (~occurs(table)).astype(float)
    # A veil with hatching leaves the ratio visible, and is recognisable in grey print.
    veil = ax.contourf(mu_neg, mu_pos, away, levels=(0.5, 1.5), colors=["white"], alpha=0.45)
    veil.set_rasterized(True)
    hatch = ax.contourf(mu_neg, mu_pos, away, levels=(0.5, 1.5), colors="none", hatches=["////"])
    hatch.set(edgecolor="0.3", linewidth=0)
    for level, line in LINES.items():
        look: Any = {"linewidths": 1.1, "linestyles": [line], "colors": "black"}
        contour = ax.contour(mu_neg, mu_pos, ratio, levels=[level], **look)
        contour.set_path_effects([withStroke(linewidth=2.2, foreground="white")])


@style()
def draw(tables: Tables) -> tuple[Figure, list[Axes]]:
    """Draw the three ratios side by side."""
    figure = empty_figure((TEXT_WIDTH, 3.1))
    axes = list(figure.subplots(1, len(tables), sharey=True))
    for ax, (name, table) in zip(axes, tables.items(), strict=True):
        draw_ratio(table, ax)
        below = NEGATIVE_AXIS if ax is axes[len(axes) // 2] else ""
        ax.set(title=loss_label(get_loss(name), only=("margin",)), xlabel=below)
        ax.label_outer()
    add_colorbar(figure, axes[-1].collections[0], axes, "ratio", pad=0.02)
    away = r"not in training: left of $\mu_{\mathrm{pos}} = \mu_{\mathrm{neg}}$, or gate closed"
    hatched = Patch(facecolor="white", edgecolor="0.3", hatch="////", linewidth=0.4)
    lines = {f"ratio {level:g}": key_line("black", line, 1.1) for level, line in LINES.items()}
    add_key(figure, lines | {away: hatched}, loc="outside lower center", ncols=3)
    return figure, axes


def facts(tables: Tables) -> dict[str, str]:
    """Return the share of occurring cells with a ratio in [1, 2], and the range of the ratio."""
    sentences = []
    for name, table in tables.items():
        ratio = grid_of(table, "ratio")[2][occurs(table)]
        share, ends = np.mean((ratio >= 1) & (ratio <= 2)), (ratio.min(), ratio.max())
        sentences.append(
            f"{get_loss(name).title} {share:.0%} (from {ends[0]:.2f} to {ends[1]:.2f})"
        )
    return {"shares": ", ".join(sentences)}
