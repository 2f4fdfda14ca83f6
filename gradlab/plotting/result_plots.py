"""Plots of results: the components of a batch, and the errors of a verification or an audit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradlab.arrays import to_numpy
from gradlab.decomposition.result import Decomposition
from gradlab.errors import GradlabError
from gradlab.losses.components import Components
from gradlab.plotting.colours import ATTRACTED, COLORMAP, COLORS, signed_colormap
from gradlab.plotting.style import (
    empty_figure,
    figure_of,
    first_color,
    in_print,
    is_column,
    new_figure,
    pi_axis,
)

_IDLE = "0.65"
_MARKS = ("o", "s", "D")
_SMALLEST = 1e-18  # position of a zero error on the logarithmic axis


def draw_components(
    components: Components | Decomposition, ax: Axes | None = None
) -> tuple[Figure, Any]:
    """Plot the relative push by the gap to the hardest negative, the ratio by angle, and weights.

    Each kind of negatives that has weight gets a panel: the other view, the same view, extra and
    own negatives. A given ``ax`` shows the relative push only.

    Raises:
        GradlabError: the components were computed from angles.
    """
    columns = components.to_frame()
    if "positive_angle" not in columns:
        raise GradlabError(
            "these components came from angles; draw those of embeddings, or gradlab.simulate"
        )
    if ax is not None:
        _push(ax, columns)
        return figure_of(ax), ax
    blocks = {
        "other view": components.other_view,
        "same view": components.same_view,
        "extra negatives": components.extra,
        "own negatives": components.own,
    }
    weights = {name: to_numpy(block) for name, block in blocks.items() if block is not None}
    visible = {name: matrix for name, matrix in weights.items() if np.any(matrix)}
    panels = max(3, 2 + len(visible))
    rows, count = {3: (1, 3), 4: (2, 2)}.get(panels, (2, 3))
    if is_column():
        rows, count = panels, 1
    figure = empty_figure((3.6 * count, (2.1 if is_column() else 3.3) * rows))
    axes = [figure.add_subplot(rows, count, place + 1) for place in range(panels)]
    _push(axes[0], columns)
    _ratio(axes[1], columns)
    for panel, (name, matrix) in zip(axes[2:], visible.items(), strict=False):
        _weights(figure, panel, matrix, name, components.side.removesuffix("s"))
    if not visible:
        _say(axes[2], "no negative has weight")
        axes[2].set_title("weights")
    if components.caption:
        caption = components.caption.replace("   (", "\n(") if is_column() else components.caption
        figure.suptitle(caption)
    return figure, axes


def draw_errors(checks: Any, ax: Axes | None = None) -> tuple[Figure, Axes]:
    """Plot ``found.errors()`` on a log axis; filled if the loss should be exact, crossed if wrong.

    Raises:
        GradlabError: no comparison completed.
    """
    errors = checks.errors()
    if not errors:
        raise GradlabError("there are no errors to draw: no comparison completed")
    rows = list(dict.fromkeys(name for name, *_ in errors))
    groups = list(dict.fromkeys(group for _, group, *_ in errors))
    wide = in_print(5.2)
    if ax is None:
        figure, ax = new_figure((wide, 1.1 + (0.18 if wide < 4 else 0.2) * len(rows)))
    else:
        figure = figure_of(ax)
    ax.set_xscale("log")
    for place, group in enumerate(groups):
        color, mark = COLORS[place], _MARKS[place]
        beside = 0.3 * (place - (len(groups) - 1) / 2)  # errors of one row do not cover each other
        look: Any = {"ls": "", "marker": mark, "ms": 3.5, "color": color}
        for row, _, error, exact, right in (
            error_of_group for error_of_group in errors if error_of_group[1] == group
        ):
            at = max(error, _SMALLEST), rows.index(row) + beside
            ax.plot(*at, markerfacecolor=color if exact else "none", **look)
            if not right:
                ax.plot(*at, ls="", marker="x", ms=9, color="black")
        ax.plot([], [], label=group, **look)
    ax.set_yticks(range(len(rows)), rows)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    low, high = np.log10(ax.get_xlim())  # whole decades, of which only the ends have labels
    ax.set_xlim(10 ** np.floor(low), 10 ** np.ceil(high))
    ax.xaxis.set_minor_formatter("")
    ax.set_xlabel("largest error")
    ax.grid(axis="y", color="0.93", lw=0.6)
    if len(groups) > 1:
        # Labels of the rows leave no room for it above the axis only.
        keys: Any = {"handletextpad": 0.2, "columnspacing": 1.0, "ncols": len(groups)}
        figure.legend(loc="outside upper center", **keys)
    return figure, ax


def _push(ax: Axes, columns: pd.DataFrame) -> None:
    gap = columns["positive_cosine"] - columns["hardest_negative_cosine"]
    push = columns["relative_push"]
    idle, attracted = np.isnan(push) | (push == 0), push < 0
    pushed = ~idle & ~attracted
    if pushed.any():
        look: Any = {"color": first_color(), "label": "pushed by negatives"}
        ax.scatter(gap[pushed], push[pushed], s=14, **look)
    if attracted.any():
        ax.scatter(
            gap[attracted], push[attracted], s=14, color=ATTRACTED, label="attracted by them"
        )
    if idle.any():
        zero = np.zeros(int(idle.sum()))
        ax.scatter(gap[idle], zero, s=14, color=_IDLE, marker="x", label="not pushed")
    if idle.any() or attracted.any():
        # Between pushes of 1 and -1, where its marks are not taken for anchors.
        ax.legend(loc="center" if attracted.any() else "best")
    ax.set_ylim(-1.08 if attracted.any() else -0.05, 1.08)
    ax.set(title="relative push", ylabel="push / largest push")
    ax.set_xlabel("cosine of the positive − of the hardest negative")


def _ratio(ax: Axes, columns: pd.DataFrame) -> None:
    angle, ratio = columns["positive_angle"], columns["ratio"]
    finite = np.isfinite(ratio)
    ax.set(title="ratio", xlabel="angle to the positive (radians)", ylabel="$R_i$")
    if not finite.any():
        _say(ax, "undefined: no negative acts")
        return
    ax.axhline(1, color=_IDLE, linewidth=1, zorder=0)
    ax.scatter(angle[finite], ratio[finite], s=14, color=first_color())
    ax.set_xlim(0, 1.05 * float(angle[finite].max()) or None)
    if ax.get_xlim()[1] > np.pi / 8:
        pi_axis(ax.xaxis)
        ax.set_xlabel("angle to the positive")
    _room(ax, ratio[finite])


def _room(ax: Axes, values: np.ndarray) -> None:
    """Widen the y axis of near-constant values, so that rounding does not look like a trend."""
    low, high = (
        float(values.min()) if len(values) else 0.0,
        float(values.max()) if len(values) else 0.0,
    )
    if high - low < 1e-6 * max(abs(low), abs(high)):
        margin = 0.5 * abs(high)
        ax.set_ylim(low - margin, high + margin)


def _weights(figure: Figure, ax: Axes, matrix: np.ndarray, name: str, row: str) -> None:
    limit, attracts = float(np.abs(matrix).max()), bool(matrix.min() < 0)
    colors: Any = signed_colormap() if attracts else COLORMAP
    look: Any = {"cmap": colors, "vmin": -limit if attracts else 0, "vmax": limit}
    image = ax.imshow(matrix, aspect="auto", interpolation="nearest", **look)
    ax.set(title=f"weights of the {name}", xlabel="negative j", ylabel=f"{row} i")
    ax.locator_params(integer=True)
    figure.colorbar(image, ax=ax, label="$W_{ij}$")


def _say(ax: Axes, text: str) -> None:
    """Write a reason on an axis without data."""
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes)
    ax.set(xticks=[], yticks=[])
