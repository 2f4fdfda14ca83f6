"""The atlas as a picture: one row per loss, grouped by family, and one panel per number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradlab.atlas.entries import POSITIVE, SENTENCES, Curve, Entry, curve
from gradlab.atlas.models import KINDS, ModelEntry
from gradlab.errors import check_known
from gradlab.losses.published_models import published_models
from gradlab.losses.registry import by_text
from gradlab.plotting.colours import COLORS
from gradlab.plotting.style import (
    LABELS,
    TEXT_WIDTH,
    draw_curve,
    empty_figure,
    figure_of,
    in_print,
    is_column,
    new_figure,
    wrapped,
)
from gradlab.plotting.style import style as look
from gradlab.quantities import OF_CURVES

MARKS = {"hard gate": "s", "soft gate": "o", "gates of their own": "^", "no gate": "D"}
NEVER = 190.0  # position of losses whose gate does not close
# Title, scale, limits and ticks of the panel of each number.
PANELS: dict[str, tuple[str, str, tuple[float, float], tuple[float, ...]]] = {
    "half_open": ("gate half open at", "linear", (25, 205), (45, 90, 135, NEVER)),
    "effective_negatives": ("effective negatives", "log", (0.7, 200), (1, 10, SENTENCES - 1)),
    "ratio_both_sides": ("pull/push, both sides", "log", (0.015, 6), (0.03, 0.3, 1, 3)),
    "hubness": ("hubness (Gini)", "linear", (-0.05, 0.85), (0, 0.4, 0.8)),
}


def plot_curves(
    losses: Iterable[Any],
    *,
    of: str = "relative_push",
    ax: Axes | None = None,
    style: str | None = None,
    width: str | None = None,
) -> tuple[Figure, Axes]:
    """Plot a component of several losses while the negatives move away from the anchor.

    The positive is at 30° among 127 negatives. Sampled curves have a band of one standard error.

    Args:
        losses: losses as in `gradlab.get_loss`: names, texts, torch modules, two-view functions.
        of: ``"relative_push"`` (push over the largest push as the positive moves, one number for a
            loss by name and as code), ``"hardest_share"`` or ``"ratio"``.
        ax: axis to draw on; None creates a figure.
        style, width: see `gradlab.plotting.plot_style`.

    Raises:
        GradlabError: unknown loss, component, style or width, or different losses of one name.

    Example:
        >>> import gradlab
        >>> figure, ax = gradlab.plot_curves(["infonce", "arccon"], of="hardest_share")
        >>> [line.get_label() for line in ax.lines]
        ['infonce', 'arccon']
    """
    check_known("curve", of, OF_CURVES)
    curves = {text: curve(loss, of) for text, loss in by_text(losses).items()}
    with look(style, width):
        return _curves(curves, LABELS[of], ax)


def draw_atlas(entries: Sequence[Entry], ax: Axes | None = None) -> tuple[Figure, Any]:
    """Draw losses in rows by family and half-open angle, with a panel per number.

    A given axis shows the gates instead. A value outside a panel becomes an arrow at its edge.
    """
    if ax is not None:
        curves: dict[str, Curve] = {
            entry.name: (entry.angles, entry.gate, None) for entry in entries
        }
        return _curves(curves, LABELS["relative_push"], ax)

    order = sorted(entries, key=_place)
    # In one column, two panels beside each other, and two below.
    count = 2 if is_column() else len(PANELS)
    lines, line = len(PANELS) // count, 0.14 if is_column() else 0.19
    wide = in_print(TEXT_WIDTH) if is_column() else TEXT_WIDTH
    figure = empty_figure((wide, 0.6 * lines + line * lines * len(order)))
    axes = figure.subplots(lines, count, sharey=True, squeeze=False).ravel()
    colors = dict(zip(MARKS, COLORS, strict=False))
    for axis, name in zip(axes, PANELS, strict=True):
        _set_panel(axis, name)
        for row, entry in enumerate(order):
            _mark(axis, name, entry, row, colors[entry.family])
    size = 6 if is_column() else 7
    for axis in axes[::count]:
        axis.set_yticks(range(len(order)), [entry.name for entry in order], fontsize=size)
    axes[0].set_ylim(len(order) - 0.4, -0.6)
    present = [family for family in MARKS if any(entry.family == family for entry in order)]
    handles = [
        axes[0].plot([], [], ls="", ms=5, marker=MARKS[family], color=colors[family])[0]
        for family in present
    ]
    columns = 2 if is_column() else len(present)
    figure.legend(handles, present, loc="outside upper center", ncols=columns, fontsize=8)
    return figure, list(axes)


def draw_models(
    entries: Sequence[ModelEntry], *, style: str | None = None, width: str | None = None
) -> tuple[Figure, Axes]:
    """Draw the shares of an anchor's push by kind of negatives, and of the hardest negative.

    Losses with the same shares are one row, named by the first. Rows are in the order of the share
    of hard negatives. For ``style`` and ``width`` see `gradlab.plotting.plot_style`.
    """
    rows = {(*model.shares.values(), model.hardest_share): model for model in reversed(entries)}
    order = sorted(
        reversed(rows.values()), key=lambda model: (-model.shares["hard"], -model.hardest_share)
    )
    models = {row.key: row.title.partition(",")[0] for row in published_models()}
    with look(style, width):
        line = 0.3 if is_column() else 0.19
        figure = empty_figure((TEXT_WIDTH, line * len(order) + (2.4 if is_column() else 1.1)))
        ax, beside = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        left = np.zeros(len(order))
        for kind, color in zip(KINDS, COLORS, strict=False):
            shares = np.array([100 * model.shares[kind] for model in order])
            ax.barh(range(len(order)), shares, left=left, color=color, label=KINDS[kind])
            left += shares
        hardest = [100 * model.hardest_share for model in order]
        beside.plot(hardest, range(len(order)), "ko", ms=3 if is_column() else 4.5)
        beside.grid(axis="x", color="0.9", lw=0.8)
        for axis in (ax, beside):
            axis.set(xlim=(-3 * (axis is beside), 103), ylim=(len(order) - 0.4, -0.6))
            axis.set_xticks((0, 50, 100), ("0%", "50%", "100%"))
        ax.set_xlabel(
            "push of each kind\nof negatives" if is_column() else "push of each kind of negatives"
        )
        beside.set_xlabel("of the\nhardest one" if is_column() else "of the hardest one")
        stages = [model.name.partition("/")[2] for model in order]
        names = [", ".join([models[m.name], stage]) for m, stage in zip(order, stages, strict=True)]
        ax.set_yticks(range(len(order)), names, fontsize=6 if is_column() else 8)
        if not is_column():  # a caption says it in print
            title = "Hard negatives, where there are any, take most of the push"
            figure.suptitle(title, fontsize=10)
        columns = 1 if is_column() else 3
        figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=columns)
    return figure, ax


def _curves(curves: Mapping[str, Curve], label: str, ax: Axes | None) -> tuple[Figure, Axes]:
    figure, ax = new_figure() if ax is None else (figure_of(ax), ax)
    for name, (angles, values, error) in curves.items():
        draw_curve(ax, angles, values, error, 1, 0.2, label=name)
    ax.set(xlabel="mean angle to the negatives", xlim=(math.degrees(POSITIVE), 180))
    ax.set_ylabel(wrapped(label, ax))
    ax.set_xticks(range(30, 181, 30), [f"{angle}°" for angle in range(30, 181, 30)])
    ax.legend()
    return figure, ax


def _place(entry: Entry) -> tuple[int, float]:
    """Return the place of a loss among the rows: by family, and by the half-open angle."""
    half_open = math.inf if math.isnan(entry.half_open) else entry.half_open
    return list(MARKS).index(entry.family), half_open


def _set_panel(axis: Axes, name: str) -> None:
    """Give the panel of a number its scale, limits, ticks and title."""
    title, scale, limits, ticks = PANELS[name]
    unit = "°" if name == "half_open" else ""
    axis.set_xscale(scale)
    axis.set_xlim(limits)
    axis.minorticks_off()
    axis.set_xticks(ticks, ["never" if at == NEVER else f"{at:g}{unit}" for at in ticks])
    if name == "half_open" and is_column():
        axis.set_xticks((45, 90, NEVER), ["45°", "90°", "never"])
    axis.set_xlabel(title, fontsize=8)
    axis.grid(axis="y", color="0.92", lw=0.6)
    axis.tick_params(axis="y", length=0)
    if name == "ratio_both_sides":
        axis.axvline(1, color="0.7", lw=0.6, zorder=0)


def _mark(axis: Axes, name: str, entry: Entry, row: int, color: str) -> None:
    """Draw the number of a loss in its row, if there is one."""
    value = getattr(entry, name)
    if name == "half_open" and math.isnan(value):
        value = NEVER
    if math.isnan(value):
        return
    # A value outside, such as a ratio of 0 on a logarithmic axis, is an arrow at the edge.
    low, high = PANELS[name][2]
    position = min(max(value, low), high)
    marker = MARKS[entry.family] if position == value else ">" if value > position else "<"
    size = 3.5 if is_column() else 4.5
    axis.plot([position], [row], marker, ms=size, color=color, clip_on=False, zorder=3)
