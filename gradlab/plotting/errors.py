"""Errors of a verification or an audit, a row each."""

from __future__ import annotations

from typing import Protocol

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradlab.errors import GradlabError
from gradlab.plotting.style import COLORS, figure_of, new_figure

_MARKS = ("o", "s", "D")
_SMALLEST = 1e-18  # where an error of 0 stands on the logarithmic axis


class Compared(Protocol):
    """What two computations of a gradient were compared on."""

    def errors(self) -> list[tuple[str, str, float, bool, bool]]: ...


def draw_errors(found: Compared, ax: Axes | None = None) -> tuple[Figure, Axes]:
    """The errors on a logarithmic axis: filled where a loss is to be exact, with a cross where it is not and should be.

    Raises:
        GradlabError: nothing was compared.
    """
    errors = found.errors()
    if not errors:
        raise GradlabError("there are no errors to draw: no comparison completed")
    rows = list(dict.fromkeys(name for name, *_ in errors))
    groups = list(dict.fromkeys(group for _, group, *_ in errors))
    figure, ax = new_figure((5.2, 1.1 + 0.2 * len(rows))) if ax is None else (figure_of(ax), ax)
    ax.set_xscale("log")
    for place, group in enumerate(groups):
        color, mark = COLORS[place], _MARKS[place]
        for row, _, error, exact, right in (one for one in errors if one[1] == group):
            face = color if exact else "none"
            at = max(error, _SMALLEST)
            ax.plot(at, rows.index(row), ls="", marker=mark, ms=5, color=color, markerfacecolor=face)
            if not right:
                ax.plot(at, rows.index(row), ls="", marker="x", ms=11, color="black")
        ax.plot([], [], ls="", marker=mark, ms=5, color=color, label=group)
    ax.set_yticks(range(len(rows)), rows)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlabel("largest error")
    if len(groups) > 1:
        ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=len(groups))
    return figure, ax
