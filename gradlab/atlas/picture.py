"""The atlas as a picture: one row a loss, one panel a number, families together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from gradlab.atlas.entries import SENTENCES, Entry
from gradlab.plotting.style import COLORS, TEXT_WIDTH, empty_figure, style

MARKS = {"hard gate": "s", "soft gate": "o", "gates of their own": "^", "no gate": "D"}
NEVER = 190.0  # where losses stand whose gate does not close
# name, title, limits, whether logarithmic, ticks
PANELS: tuple[tuple[str, str, tuple[float, float], bool, dict[float, str]], ...] = (
    ("half_open", "gate half open at", (25, 205), False, {45: "45°", 90: "90°", 135: "135°", NEVER: "never"}),
    (
        "effective_negatives",
        "effective negatives",
        (0.7, 200),
        True,
        {1: "1", 10: "10", SENTENCES - 1: "127"},
    ),
    ("ratio_both", "pull/push, both sides", (0.015, 6), True, {0.03: "0.03", 0.3: "0.3", 1: "1", 3: "3"}),
    ("hubness", "hubness (Gini)", (-0.05, 0.85), False, {0: "0", 0.4: "0.4", 0.8: "0.8"}),
)


def draw(entries: Sequence[Entry]) -> Figure:
    """Losses in rows by family and half-open angle, their numbers in panels; what is beyond a panel is an arrow at its edge."""
    order = sorted(
        entries,
        key=lambda e: (list(MARKS).index(e.family), math.inf if math.isnan(e.half_open) else e.half_open),
    )
    with style():
        figure = empty_figure((TEXT_WIDTH, 0.6 + 0.19 * len(order)))
        axes = np.atleast_1d(figure.subplots(1, len(PANELS), sharey=True))
        colors = dict(zip(MARKS, COLORS, strict=False))
        for axis, (name, title, limits, logarithmic, ticks) in zip(axes, PANELS, strict=True):
            if logarithmic:
                axis.set_xscale("log")
            axis.set_xlim(limits)
            axis.minorticks_off()
            axis.set_xticks(list(ticks), list(ticks.values()))
            axis.set_xlabel(title, fontsize=8)
            axis.grid(axis="y", color="0.92", lw=0.6)
            axis.tick_params(axis="y", length=0)
            if name == "ratio_both":
                axis.axvline(1, color="0.7", lw=0.6, zorder=0)
            for row, entry in enumerate(order):
                value = getattr(entry, name)
                if name == "half_open" and math.isnan(value):
                    value = NEVER
                beyond = math.isfinite(value) and value > limits[1]
                axis.plot(
                    [limits[1] if beyond else value], [row], ls="", ms=4.5, clip_on=False, zorder=3,
                    marker=">" if beyond else MARKS[entry.family], color=colors[entry.family],
                )  # fmt: skip
        axes[0].set_yticks(range(len(order)), [entry.name for entry in order], fontsize=7)
        axes[0].set_ylim(len(order) - 0.4, -0.6)
        present = [family for family in MARKS if any(entry.family == family for entry in order)]
        handles = [
            axes[0].plot([], [], ls="", ms=5, marker=MARKS[family], color=colors[family])[0]
            for family in present
        ]
        figure.legend(handles, present, loc="outside upper center", ncols=len(present), fontsize=8)
    return figure
