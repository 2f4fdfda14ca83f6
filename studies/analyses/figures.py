"""Figures of the analyses: every function draws a table on an axis and returns ``(fig, ax)``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradlab.plotting import COLORS, TEXT_WIDTH, Table, figure_of, new_figure
from gradlab.plotting import plot_style as style
from studies.analyses.encoders import LONGEST, NEAR, LengthBias
from studies.analyses.runs import branch_distance
from studies.output import panels

MARKERS = ("o", "^", "s", "D", "v", "P", "X")


def _drawing(draw: Callable[..., None]) -> Callable[..., tuple[Figure, Axes]]:
    """``draw(ax, ...)`` as a function that makes an axis unless it gets one, and adds a legend."""

    @functools.wraps(draw)
    def drawn(*content: Any, ax: Axes | None = None, **options: Any) -> tuple[Figure, Axes]:
        with style():
            ax = ax or new_figure()[1]
            draw(ax, *content, **options)
            if ax.get_legend() is None and ax.get_legend_handles_labels()[0]:
                ax.legend()
        return figure_of(ax), ax

    return drawn


@_drawing
def draw_finite_steps(
    ax: Axes, momenta: Sequence[float] = (0.5, 0.75, 0.85, 0.95), last: int = 60
) -> None:
    """``S_k`` against k, and its limits ``1/(1 - η)``, dashed."""
    k = np.arange(last + 1)
    for momentum, color in zip(momenta, COLORS, strict=False):
        ax.plot(k, branch_distance(momentum, k), color=color, label=f"η = {momentum:g}")
        ax.axhline(1 / (1 - momentum), color=color, linewidth=0.8, linestyle="--")
    ax.set(xlabel="steps $k$", ylabel="distance of the average, $S_k$ (steps)")


@_drawing
def draw_distances(ax: Axes, table: Table) -> None:
    """Traceable distance over a run: measured, by the formula, and its part in the queue."""
    step = table["step"]
    ax.plot(step, table["measured"], color=COLORS[0], label="measured")
    ax.plot(step, table["oldest"], color=COLORS[2], label="of this: age of the oldest negative")
    ax.plot(step, table["formula"], color="black", linewidth=0.9, linestyle="--", label="formula")
    ax.set(xlabel="step", ylabel="maximum traceable distance (steps)")
    ax.set_ylim(bottom=0)


@_drawing
def draw_excess(ax: Axes, biases: Mapping[str, LengthBias]) -> None:
    """How far encoders overrate similarity, by difference in length; flat without length bias."""
    ax.axhline(0, color="0.6", linewidth=0.8)
    for (name, bias), color, marker in zip(biases.items(), COLORS, MARKERS, strict=False):
        look: Any = {"color": color, "marker": marker, "markersize": 3.5}
        ax.plot(bias.curve["difference"], bias.curve["excess"], label=name, **look)
    ax.axvline(NEAR + 0.5, color="0.6", linewidth=0.8, linestyle=":")
    ticks = np.arange(0, LONGEST + 1, 5)
    ax.set_xticks(ticks, [f"{tick}" if tick < LONGEST else f"≥ {LONGEST}" for tick in ticks])
    ax.set_xlabel("difference in length (words)")
    ax.set_ylabel("rank by cosine less rank by gold\n(share of the pairs)")


@_drawing
def draw_correlations(ax: Axes, biases: Mapping[str, LengthBias]) -> None:
    """Spearman's correlation of each set's pairs of similar length (full) and others (hollow)."""
    width = 0.7 / len(biases)
    dot: Any = {"marker": "o", "linestyle": "none", "markersize": 4.5}
    for number, ((name, bias), color) in enumerate(zip(biases.items(), COLORS, strict=False)):
        table = bias.correlations
        place = np.arange(len(table["set"])) + (number - (len(biases) - 1) / 2) * width
        ax.vlines(place, table["near"], table["far"], color=color, linewidth=1)
        ax.plot(place, table["near"], color=color, label=name, **dot)
        ax.plot(place, table["far"], color=color, markerfacecolor="white", **dot)
    ax.set_xticks(np.arange(len(table["set"])), table["set"])
    ax.set_ylabel("Spearman's correlation")
    ax.plot([], [], color="0.4", label=f"lengths differ by at most {NEAR}", **dot)
    ax.plot([], [], color="0.4", markerfacecolor="white", label="by more", **dot)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def draw_length_bias(biases: Mapping[str, LengthBias]) -> tuple[Figure, list[Axes]]:
    """Both panels."""
    figure, axes = row_of(2, 3.2)
    draw_correlations(biases, ax=axes[0])
    draw_excess(biases, ax=axes[1])
    return figure, axes


@_drawing
def draw_spectra(ax: Axes, spectra: Mapping[str, Table], last: int | None = None) -> None:
    """Singular values over the largest, against their rank."""
    for (name, table), color in zip(spectra.items(), COLORS, strict=False):
        ax.plot(table["rank"][:last], table["relative"][:last], color=color, label=name)
    ax.set(yscale="log", xlabel="rank", ylabel="singular value over the largest")


@_drawing
def draw_paths(ax: Axes, paths: Mapping[str, Table]) -> None:
    """Alignment against uniformity while runs go, from the hollow point to the full one."""
    for (name, table), color in zip(paths.items(), COLORS, strict=False):
        x, y = table["uniformity"], table["alignment"]
        ax.plot(x, y, color=color, linewidth=1.2, marker=".", markersize=3, label=name)
        ax.plot(x[:1], y[:1], "o", color=color, markersize=5, markerfacecolor="white")
        ax.plot(x[-1:], y[-1:], "o", color=color, markersize=5)
    ax.set(xlabel="uniformity", ylabel="alignment")


def row_of(count: int, height: float | None = None) -> tuple[Figure, list[Axes]]:
    """A figure with as many axes side by side."""
    with style():
        width = min(TEXT_WIDTH, 3.5 * count)
        return panels(height or (3.0 if count > 1 else 3.4), 1, count, width=width)


def columns_as_text(table: Table) -> str:
    """A table for people: aligned columns, four decimals."""
    return pd.DataFrame(table).to_string(index=False, float_format="{:.4f}".format, na_rep="")
