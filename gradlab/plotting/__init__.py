"""One style, and the plots that more than one figure is made of."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradlab.plotting.style import (
        COLORS,
        TEXT_WIDTH,
        close,
        empty_figure,
        figure_of,
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
    "new_figure",
    "panel_letter",
    "plot_style",
    "read_table",
    "rounded",
    "save",
    "select",
    "stack",
]

# What only computes loads no matplotlib.
_TABLES = ("Table", "read_table", "rounded", "select", "stack")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{'tables' if name in _TABLES else 'style'}")
    return getattr(module, name.removeprefix("plot_"))
