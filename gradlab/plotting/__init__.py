"""The common style of figures, and plots and tables that several figures share."""

from gradlab.plotting.style import (
    COLORS,
    TEXT_WIDTH,
    close,
    empty_figure,
    figure_of,
    is_column,
    new_figure,
    panel_letter,
    save,
)
from gradlab.plotting.style import style as plot_style
from gradlab.plotting.tables import Table, read_table, rounded, select, stack

__all__ = [
    "COLORS",
    "TEXT_WIDTH",
    "Table",
    "close",
    "empty_figure",
    "figure_of",
    "is_column",
    "new_figure",
    "panel_letter",
    "plot_style",
    "read_table",
    "rounded",
    "save",
    "select",
    "stack",
]
