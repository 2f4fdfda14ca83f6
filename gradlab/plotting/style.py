"""The common style of all figures."""

from __future__ import annotations

import contextlib
import functools
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from fractions import Fraction
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gradlab.errors import check_known
from gradlab.files import atomic_path
from gradlab.quantities import QUANTITIES

# One fixed range per quantity, so that figures can be compared.
RANGES = {
    "relative_push": (0.0, 1.0),
    "gradient_dissipation": (0.0, 1.0),
    "hardest_share": (0.0, 1.0),
    "ratio": (0.0, 3.0),
}
LABELS = {name: quantity.label for name, quantity in QUANTITIES.items()}
# Quantities that can be negative (attraction), in colours that no value from 0 to 1 has.
SIGNED = ("relative_push", "gradient_dissipation", "total_push")
POSITIVE_AXIS = "mean anchor-positive angle $\\mu_{\\mathrm{pos}}$"
NEGATIVE_AXIS = "mean anchor-negative angle $\\mu_{\\mathrm{neg}}$"

TEXT_WIDTH = 7.0  # width in inches of a printed page or a notebook cell


def _settings(name: str) -> Any:
    file = Path(__file__).with_name(f"{name}.mplstyle")
    return dict(matplotlib.rc_params_from_file(file, use_default_template=False))


SETTINGS: Any = _settings("screen")
PAPER: Any = SETTINGS | _settings("paper")
# Settings for writing files in print stay after drawing: matplotlib reads them when it saves.
_FILES = ("pdf.fonttype", "ps.fonttype", "savefig.dpi")
# Widths in inches of a column and of a page's text in the ACL template, the narrowest in use.
WIDTHS = {"column": 3.03, "page": 6.3}
# Width of the figures that are now drawn for print, "fit" if it follows from their panels.
_printed: ContextVar[str | None] = ContextVar("printed", default=None)


@contextlib.contextmanager
def style(name: str | None = None, width: str | None = None) -> Iterator[None]:
    """Apply the style of gradlab's figures within the block.

    Args:
        name: ``"screen"``, or ``"paper"`` for print: figures as wide as a column or page, fonts of
            7 to 8.5 points embedded in PDF files, and lines that differ in greyscale; None keeps
            the outer style.
        width: ``"column"`` or ``"page"``, for print; None for a page if there are several panels,
            and else a column.

    Raises:
        GradlabError: an unknown style or width.
    """
    if name not in (None, "screen", "paper"):
        check_known("style", name, ("screen", "paper"))
    if width is not None and width not in WIDTHS:
        check_known("width", width, WIDTHS)
    outer = _printed.get()
    printed = {None: outer, "screen": None, "paper": width or "fit"}[name]
    settings = PAPER if printed else SETTINGS
    # matplotlib.rc_context would also undo what a notebook's backend sets when a figure loads it.
    untouched = _FILES if printed else ()
    before = {key: matplotlib.rcParams[key] for key in settings if key not in untouched}
    matplotlib.rcParams.update(settings)
    _printed.set(printed)
    try:
        yield
    finally:
        _printed.set(outer)
        matplotlib.rcParams.update(before)


def use() -> None:
    """Apply the style of gradlab's figures to all following figures, as in a notebook."""
    matplotlib.rcParams.update(SETTINGS)


def is_column() -> bool:
    """Return whether figures are now drawn for one printed column, which stacks their panels."""
    return _printed.get() == "column"


def in_print(wide: float) -> float:
    """Return the width in inches that a figure ``wide`` inches wide on the screen gets now."""
    width = _printed.get()
    if not width:
        return wide
    return WIDTHS.get(width) or WIDTHS["page" if wide > 5.5 else "column"]


def first_color() -> Any:
    """Return the first colour of the current style; ``"C0"`` would be that of a later one."""
    return matplotlib.rcParams["axes.prop_cycle"].by_key()["color"][0]


def wrapped(label: str, ax: Axes) -> str:
    """Return a label in two lines if one is longer than an axis of this height holds."""
    height = ax.get_position().height * figure_of(ax).get_size_inches()[1]
    letters = int(height / (0.5 * matplotlib.rcParams["axes.labelsize"] / 72))
    return textwrap.fill(label, max(12, letters // 2 + 6)) if len(label) > letters else label


def empty_figure(size: tuple[float, float]) -> Figure:
    """Return a figure of ``size`` inches, scaled to the width of a column or page in print.

    Made by pyplot in a notebook or if pyplot is loaded. Other figures need no display, and are
    freed as usual.
    """
    wide = in_print(size[0])
    size = wide, size[1] * wide / size[0]
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None and "ipykernel" in sys.modules:
        import matplotlib.pyplot as pyplot  # a notebook shows only figures that pyplot knows
    if pyplot is not None:
        return pyplot.figure(figsize=size)
    figure = Figure(figsize=size)
    FigureCanvasAgg(figure)
    return figure


def new_figure(size: tuple[float, float] = (4.6, 3.6)) -> tuple[Figure, Axes]:
    """Return a figure with one axis."""
    figure = empty_figure(size)
    return figure, figure.add_subplot()


def figure_of(ax: Axes) -> Figure:
    """Return the figure of an axis."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def key_line(color: str = "black", style: Any = "-", width: float = 1.6, **look: Any) -> Line2D:
    """Return a line for use in a legend only."""
    return Line2D([], [], color=color, linestyle=style, linewidth=width, **look)


def add_key(on: Any, artists: Mapping[str, Any], **options: Any) -> None:
    """Add a legend to a figure or an axis, with artists by label."""
    on.legend(list(artists.values()), list(artists), **options)


def draw_curve(
    ax: Axes,
    x: np.ndarray,
    y: np.ndarray,
    error: np.ndarray | None,
    errors: float = 2,
    alpha: float = 0.3,
    within: Any = (-np.inf, np.inf),
    **look: Any,
) -> None:
    """Draw a line, and around it a band of so many standard ``errors``, clipped to ``within``."""
    (line,) = ax.plot(x, y, **look)
    if error is not None:
        low, high = np.clip(y - errors * error, *within), np.clip(y + errors * error, *within)
        ax.fill_between(x, low, high, color=line.get_color(), alpha=alpha, linewidth=0)


def pi_axis(axis: Any) -> None:
    """Label an axis in radians with fractions of π."""
    low, high = axis.get_view_interval()
    step = next(s for s in (1 / 8, 1 / 4, 1 / 2, 1, 2, 4) if (high - low) / (np.pi * s) <= 5)
    ticks = np.arange(np.ceil(low / np.pi / step - 1e-9), high / np.pi / step + 1e-9) * step
    axis.set_ticks(ticks * np.pi, [pi_label(tick) for tick in ticks])


@functools.cache
def pi_label(multiple: float) -> str:
    """Return a multiple of π as text, such as ``3π/4`` for 0.75."""
    if multiple == 0:
        return "0"
    fraction = Fraction(multiple).limit_denominator(1000)
    top, bottom = fraction.numerator, fraction.denominator
    sign, top = ("−" if top < 0 else ""), abs(top)
    return f"{sign}{'' if top == 1 else top}π{'' if bottom == 1 else f'/{bottom}'}"


def panel_letter(ax: Axes, letter: str) -> None:
    """Put ``(a)`` or another letter before the title of a panel."""
    ax.set_title(f"({letter}) {ax.get_title()}")


def save(figure: Figure, path: Path) -> Path:
    """Write a figure atomically, in the format of its suffix and without a date."""
    date = {".svg": "Date", ".pdf": "CreationDate"}.get(path.suffix)
    with style(), atomic_path(path) as temporary:
        figure.savefig(temporary, metadata={date: None} if date else {})
    return path


def close(figure: Figure) -> None:
    """Close a figure, which pyplot would otherwise keep."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(figure)
