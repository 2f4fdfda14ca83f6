"""Figure 3: share of the hardest negative in the softmax weight, for six temperatures."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss
from gradlab.plotting.colours import COLORMAP
from gradlab.plotting.figure_tables import Table, Tables, select, stack
from gradlab.plotting.style import (
    NEGATIVE_AXIS,
    TEXT_WIDTH,
    add_key,
    draw_curve,
    empty_figure,
    key_line,
    pi_axis,
    style,
)
from gradlab.simulation import simulate

TEMPERATURES = (0.3, 0.1, 0.05, 0.03, 0.01, 0.005)
BATCHES = 1000
MU_POS = np.pi / 6  # Li et al. 2024, Section 3.1.2
PUBLISHED_MU_POS = 0.5  # value in the paper's published code
FEWEST = 10  # smallest number of passing batches for which a mean is drawn
ALWAYS_OPEN = 3.0  # margin that no difference of cosines reaches
FILLED, ALL_BATCHES = (0, (4, 2)), (0, (1, 1.5))  # line styles for filled cells and for all batches


def compute(as_published: bool = False) -> Tables:
    """Compute shares over batches that still have a gradient, and over all.

    With ``as_published``, μ_pos differs, and cells in which no batch passes are filled with 1.
    """
    tables = []
    for tau in TEMPERATURES:
        passing = get_loss("infonce", temperature=tau)
        if as_published:
            table = _simulated("passing", passing, tau, PUBLISHED_MU_POS)
            filled = np.isnan(table["share"])
            share = np.where(filled, 1.0, table["share"])
            tables.append(table | {"share": share, "filled": filled.astype(int)})
        else:
            # The baseline has the same softmax weight; with this margin its gate never closes.
            always_open = get_loss("baseline", temperature=tau, margin=ALWAYS_OPEN)
            tables += [_simulated("passing", passing, tau), _simulated("all", always_open, tau)]
    return {"": stack(tables)}


def color_of(temperature: float) -> tuple[float, ...]:
    """Return the colour of a temperature of `TEMPERATURES`; lower temperatures are darker."""
    place = TEMPERATURES.index(temperature) / (len(TEMPERATURES) - 1)
    return matplotlib.colormaps[COLORMAP](0.88 * (1 - place))


def draw_shares(table: Table, ax: Axes) -> None:
    """Draw the share against μ_neg, ± 2 standard errors: solid for passing batches, dotted for all.

    Cells with fewer than `FEWEST` passing batches are left out, or dashed if the table fills them.
    """
    for temperature in reversed(TEMPERATURES):
        color = color_of(temperature)
        rows = select(table, batches="passing", temperature=temperature)
        if "filled" in rows:
            ax.plot(rows["mu_neg"], rows["share"], color=color, linewidth=0.9, linestyle=FILLED)
            measured = rows["filled"] == 0
        else:
            measured = rows["pass_probability"] * BATCHES >= FEWEST
        share = np.where(measured, rows["share"], np.nan)
        look: Any = {"color": color, "linewidth": 1.7, "label": f"{temperature:g}", "zorder": 3}
        draw_curve(ax, rows["mu_neg"], share, rows["standard_error"], within=(0, 1), **look)
        rows = select(table, batches="all", temperature=temperature)
        look = {"color": color, "linewidth": 1.0, "linestyle": ALL_BATCHES}
        draw_curve(ax, rows["mu_neg"], rows["share"], rows["standard_error"], within=(0, 1), **look)
    ax.set(ylim=(0, 1.03), ylabel="share of the hardest\nnegative in the weight")


def draw_pass_probability(table: Table, ax: Axes) -> None:
    """Draw the share of batches with a dissipation of at least 0.01 against μ_neg."""
    for temperature in TEMPERATURES:
        rows = select(table, batches="passing", temperature=temperature)
        color = color_of(temperature)
        ax.plot(rows["mu_neg"], rows["pass_probability"], color=color, linewidth=1.6)
    ax.set(ylim=(-0.03, 1.03), ylabel="share of batches\nthat pass")


@style()
def draw(tables: Tables) -> tuple[Figure, list[Axes]]:
    """Draw the shares above the share of passing batches, with a key to colours and line styles."""
    (table,) = tables.values()
    figure = empty_figure((TEXT_WIDTH, 4.4))
    axes = list(figure.subplots(2, 1, sharex=True, height_ratios=(2.2, 1)))
    draw_shares(table, axes[0])
    draw_pass_probability(table, axes[1])
    for ax in axes:
        ax.set_xlim(table["mu_neg"].min(), table["mu_neg"].max())
        pi_axis(ax.xaxis)
        ax.set_xlabel(NEGATIVE_AXIS)
        ax.label_outer()
    handles, labels = axes[0].get_legend_handles_labels()
    all_batches = {"all batches": key_line("0.3", ALL_BATCHES, 1.0)}
    filled = {"filled with 1:\nno batch left": key_line("0.3", FILLED, 0.9)}
    keys = {
        **dict(zip(labels, handles, strict=True)),
        "": key_line(width=0),
        "batches that\nstill have a\ngradient": key_line("0.3", width=1.7),
        **(filled if "filled" in table else all_batches),
        "± 2 standard\nerrors": Patch(color="0.3", alpha=0.3, linewidth=0),
    }
    add_key(figure, keys, title="temperature τ", loc="outside right upper", alignment="left")
    return figure, axes


def facts(tables: Tables) -> dict[str, str]:
    """Return the largest share over all batches or, as published, filled cells, by temperature."""
    (table,) = tables.values()
    rows = {tau: select(table, temperature=tau) for tau in TEMPERATURES}
    if "filled" in table:
        filled = [f"{int(row['filled'].sum())} at τ = {tau:g}" for tau, row in rows.items()]
        return {"filled": ", ".join(filled)}
    peaks = {tau: select(row, batches="all")["share"].max() for tau, row in rows.items()}
    return {"peaks": ", ".join(f"{share:.2f} at τ = {tau:g}" for tau, share in peaks.items())}


def _simulated(batches: str, loss: Loss, temperature: float, mu_pos: float = MU_POS) -> Table:
    columns = simulate(loss, "hardest_share", mu_pos=mu_pos, batches=BATCHES).columns()
    columns["share"] = columns.pop("value")
    names = ("mu_neg", "share", "standard_error", "pass_probability")
    place = {"batches": batches, "temperature": temperature}
    return place | {name: columns[name] for name in names}
