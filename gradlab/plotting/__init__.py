"""One style, and the plots that more than one figure is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradlab.plotting.tables import Table, read_table, rounded, select, stack

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


def __getattr__(name: str) -> Any:
    """What draws, once it is asked for: code that only computes tables does not load matplotlib."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gradlab.plotting import style

    return getattr(style, name.removeprefix("plot_"))
