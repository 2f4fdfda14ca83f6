"""Pages, tables and pictures, as several studies write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradlab.files import write_csv
from gradlab.plotting import (
    COLORS,
    TEXT_WIDTH,
    close,
    empty_figure,
    plot_style,
    save,
)
from gradlab.templates import render as fill
from studies.statistics import six


def render(study: str, template: str, filters: Mapping[str, Any], **content: Any) -> str:
    """Return a page from a template of a study, in which no two blank lines follow one another."""
    text = fill(f"studies.{study}", template, filters, **content)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def write_table(path: Path, table: pd.DataFrame) -> Path:
    """Write a table as a CSV file, with six significant digits."""
    return write_csv(path, dict(table.map(six)))


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
    ax: Axes, score: float, label: str = "untrained encoder", zorder: float = 0
) -> None:
    """A dashed line at the score of the untrained encoder."""
    ax.axhline(score, color="0.4", lw=0.9, ls="--", label=label, zorder=zorder)


# Points from which a difference is drawn on an axis of its own, beside which others would vanish.
LARGE = 10
# Corrected p value below which a difference is significant.
SIGNIFICANT = 0.05


def draw_differences(table: pd.DataFrame, title: str) -> Figure:
    """Differences with their intervals, large ones above and others below, each on its axis.

    ``table`` has ``label``, ``estimate``, ``low``, ``high``, ``holm`` and perhaps ``margin``.
    """
    is_large = table.estimate.abs() >= LARGE
    groups = [group for group in (table[is_large], table[~is_large]) if len(group)]
    counts = [len(group) for group in groups]
    height = 1.1 + 0.45 * len(groups) + 0.19 * sum(counts)
    figure, axes = panels(height, len(groups), height_ratios=counts)
    for axis, group in zip(axes, groups, strict=True):
        _differences(axis, group)
    figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    axes[-1].set_xlabel("difference in points, with its 95% interval")
    figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _differences(axis: Axes, table: pd.DataFrame) -> None:
    places = np.arange(len(table))
    if "margin" in table and table.margin.notna().any():
        margins = table.margin.fillna(0)
        look: Any = {"color": "0.88", "height": 0.8, "zorder": 0}
        axis.barh(places, 2 * margins, left=-margins, label="too small to matter", **look)
    for chosen, face, words in (
        (table.holm < SIGNIFICANT, COLORS[0], "significant"),
        (table.holm >= SIGNIFICANT, "white", "not significant"),
    ):
        rows = table[chosen]
        error = bars(rows.estimate, rows.low, rows.high)
        look = {"fmt": "o", "color": COLORS[0], "mfc": face, "ms": 4.5, "capsize": 2}
        axis.errorbar(rows.estimate, places[chosen], xerr=error, label=words, **look)
    axis.axvline(0, color="0.5", lw=0.8)
    axis.set_yticks(places, list(table.label), fontsize=8)
    axis.set_ylim(len(table) - 0.4, -0.6)
