"""The common style of figures, and plots and tables that several figures share."""

from gradlab.plotting.colours import COLORS
from gradlab.plotting.figure_tables import Table, read_table, rounded, select, stack
from gradlab.plotting.style import (
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
