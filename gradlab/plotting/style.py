"""One look for every figure."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from gradlab.files import atomic_path

# One perceptually uniform map; one fixed range a quantity, so that figures can be laid side by side.
COLORMAP = "viridis"
RANGES = {"gradient_dissipation": (0.0, 1.0), "hardest_share": (0.0, 1.0), "ratio": (0.0, 3.0)}
LABELS = {
    "gradient_dissipation": "mean gradient dissipation",
    "hardest_share": "share of the hardest negative in the weight",
    "ratio": "ratio (pull / push)",
}
POSITIVE_AXIS = "mean anchor-positive angle $\\mu_{\\mathrm{pos}}$"
NEGATIVE_AXIS = "mean anchor-negative angle $\\mu_{\\mathrm{neg}}$"

# Okabe and Ito's colour-blind safe palette, dark colours first.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# What a point on the sphere is: colour and marker, so that grey prints tell them apart.
ANCHOR, POSITIVE, NEGATIVE = "#000000", "#009E73", "#D55E00"
# Lines and words that must be seen on every colour of the map.
LINE_ON_MAP: Any = {"color": "white", "path_effects": [withStroke(linewidth=2.0, foreground="black")]}
WORD_ON_MAP: Any = {"color": "black", "path_effects": [withStroke(linewidth=2.0, foreground="white")]}

TEXT_WIDTH = 7.0  # inches: a page of print, a notebook's cell

SETTINGS: Any = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "hatch.linewidth": 0.6,
    "axes.prop_cycle": cycler(color=COLORS),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.constrained_layout.use": True,
    "figure.dpi": 110,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,  # real fonts, which publishers ask for and readers can search
    "svg.fonttype": "path",  # looks the same without our fonts
    "svg.hashsalt": "gradlab",  # the same picture is the same file
}


@contextlib.contextmanager
def style() -> Iterator[None]:
    """The look of gradlab's figures, for the duration of the block."""
    # Not matplotlib.rc_context, which would also undo what a notebook's backend sets when the first figure loads it.
    before = {name: matplotlib.rcParams[name] for name in SETTINGS}
    matplotlib.rcParams.update(SETTINGS)
    try:
        yield
    finally:
        matplotlib.rcParams.update(before)


def use() -> None:
    """The look of gradlab's figures for all figures from here on, as in a notebook."""
    matplotlib.rcParams.update(SETTINGS)


def empty_figure(size: tuple[float, float]) -> Figure:
    """A figure of ``size`` inches; through pyplot only in a notebook, or where pyplot is already in use.

    Outside pyplot a figure needs no display, opens no window and is freed like any other object.
    """
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None and "ipykernel" in sys.modules:
        import matplotlib.pyplot as pyplot  # a notebook shows only figures that pyplot knows
    if pyplot is not None:
        return pyplot.figure(figsize=size)
    figure = Figure(figsize=size)
    FigureCanvasAgg(figure)
    return figure


def new_figure(size: tuple[float, float] = (4.6, 3.6)) -> tuple[Figure, Axes]:
    """A figure with one axis."""
    figure = empty_figure(size)
    return figure, figure.add_subplot()


def figure_of(ax: Axes) -> Figure:
    """The figure that an axis belongs to."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def pi_axis(axis: Any) -> None:
    """Label an axis in radians by fractions of π."""
    low, high = axis.get_view_interval()
    step = next(s for s in (1 / 8, 1 / 4, 1 / 2, 1, 2, 4) if (high - low) / (np.pi * s) <= 5)
    ticks = np.arange(np.ceil(low / np.pi / step - 1e-9), high / np.pi / step + 1e-9) * step
    axis.set_ticks(ticks * np.pi, [pi_label(tick) for tick in ticks])


def pi_label(multiple: float) -> str:
    """``0.75`` -> ``3π/4``."""
    if multiple == 0:
        return "0"
    fraction = Fraction(multiple).limit_denominator(1000)
    top, bottom = fraction.numerator, fraction.denominator
    sign, top = ("−" if top < 0 else ""), abs(top)
    return f"{sign}{'' if top == 1 else top}π{'' if bottom == 1 else f'/{bottom}'}"


def panel_letter(ax: Axes, letter: str) -> None:
    """``(a)`` before the title of a panel."""
    ax.set_title(f"({letter}) {ax.get_title()}")


def save(figure: Figure, path: Path) -> Path:
    """Write a figure atomically, in the format of its suffix, without the date it was drawn."""
    metadata: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix, {})
    with atomic_path(path) as temporary, style(), _quiet_fonts():
        figure.savefig(temporary, metadata=metadata)
    return path


def close(figure: Figure) -> None:
    """Let go of a figure that nobody is to look at, which pyplot would keep."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(figure)


@contextlib.contextmanager
def _quiet_fonts() -> Iterator[None]:
    """Without fontTools' remarks on the dates of matplotlib's own fonts."""
    log = logging.getLogger("fontTools")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
