"""What the pictures of several studies share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradlab.plotting import TEXT_WIDTH, close, empty_figure, plot_style, save


def panels(
    height: float, rows: int = 1, columns: int = 1, width: float = TEXT_WIDTH, **layout: Any
) -> tuple[Figure, list[Axes]]:
    """A figure of a size in inches, and its axes, row by row."""
    figure = empty_figure((width, height))
    return figure, list(figure.subplots(rows, columns, squeeze=False, **layout).ravel())


def write_picture(path: Path, draw: Callable[..., Figure], *content: Any) -> Path:
    """Draw in gradlab's style, and write the picture."""
    with plot_style():
        figure = draw(*content)
    save(figure, path)
    close(figure)
    return path


def bars(mean: Any, low: Any, high: Any) -> np.ndarray:
    """Error bars (2, n) from means to the ends of their intervals, 0 where there is none."""
    return np.nan_to_num(np.array([mean - low, high - mean], dtype=float))


def mark_untrained(
    ax: Axes, score: float, label: str = "untrained encoder", along: str = "x", zorder: float = 0
) -> None:
    """A dashed line at the score of the untrained encoder, parallel to the x or the y axis."""
    line = ax.axhline if along == "x" else ax.axvline
    line(score, color="0.4", lw=0.9, ls="--", label=label, zorder=zorder)


def figure_legend(figure: Figure, ax: Axes, place: Any, **look: Any) -> None:
    """A legend of one panel for the whole figure."""
    figure.legend(*ax.get_legend_handles_labels(), loc=place, **look)
