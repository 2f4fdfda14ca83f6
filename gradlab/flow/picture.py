"""Pictures of flows: curves over log time beside each other, and a short film."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradlab.errors import GradlabError
from gradlab.files import atomic_path
from gradlab.flow.result import Flow
from gradlab.plotting.colours import COLORS, POSITIVE
from gradlab.plotting.style import TEXT_WIDTH, close, empty_figure, figure_of, is_column
from gradlab.plotting.style import style as look
from gradlab.progress_bars import progress_bar
from gradlab.settings import call_text

# Curve -> label and colour.
COSINES = {
    "positive_cosine": ("positives", POSITIVE),
    "same_group_cosine": ("same topic", COLORS[0]),
    "different_cosine": ("different", COLORS[1]),
}
LEARNING = {
    "relative_push": ("relative push", "black"),
    "learning": ("share still learning", "0.6"),
}
FRAMES, PAUSE, LAST_PAUSE = 40, 90, 2500  # frames of a film, and milliseconds between them


def draw_flow(flow: Flow, ax: Axes | None = None) -> tuple[Figure, Any]:
    """Draw cosines and the relative push over log time; on a given axis the cosines only."""
    if ax is None:
        return draw_flows([flow])
    _cosines(ax, flow)
    ax.set_xlabel("time")
    ax.legend(fontsize=8)
    return figure_of(ax), ax


def draw_flows(flows: Sequence[Flow], ax: Axes | None = None) -> tuple[Figure, Any]:
    """Draw flows beside each other; each has its own unit of time.

    Raises:
        GradlabError: an axis is given, which holds only one flow.
    """
    if ax is not None:
        raise GradlabError("an axis holds one flow; draw flows one by one, as flows[0].plot(ax)")
    count = len(flows)
    if is_column():
        figure = empty_figure((4.2, 4.4 * count))
        axes = figure.subplots(2 * count, 1, height_ratios=(2, 1) * count).reshape(count, 2).T
    else:
        figure = empty_figure((max(4.2, min(3.4 * count, 2 * TEXT_WIDTH)), 4.4))
        axes = figure.subplots(2, count, height_ratios=(2, 1), sharey="row", squeeze=False)
    for (top, bottom), flow in zip(axes.T, flows, strict=True):
        _cosines(top, flow)
        top.set_title(f"{call_text(flow.loss)}\n{flow.end}", fontsize=9)
        top.tick_params(labelbottom=False)
        times = _times(flow)
        for name, (label, color) in LEARNING.items():
            bottom.plot(times, flow.curves[name], color=color, label=label)
        bottom.set_xscale("log")
        bottom.set(xlim=top.get_xlim(), xlabel="time")
    strongest = max(float(np.max(flow.curves["relative_push"])) for flow in flows)
    for bottom in axes[1]:
        bottom.set(ylim=(-0.03, 1.05 if strongest <= 1 else None))
    for top in axes[0, :: 1 if is_column() else count]:
        top.set_ylabel("cosine")
    if is_column():  # where curves of a small panel would cross it
        handles = axes[0, 0].get_legend_handles_labels()
        figure.legend(*handles, fontsize=7, loc="outside lower center", ncols=3)
    else:
        axes[0, 0].legend(fontsize=7, loc="best")
    # Above the axis, where no curve is.
    axes[1, 0].legend(fontsize=7, loc="lower left", bbox_to_anchor=(0, 0.97), ncols=2)
    return figure, list(axes.flat)


def animate(
    flows: Sequence[Flow], path: str | os.PathLike[str], progress: bool | None = None
) -> Path:
    """Write a film of flows beside each other as a GIF, over log time.

    In three dimensions, it shows the sphere from the front; in more, the first two principal
    directions of the last anchors. A line leads from each anchor to its positive.

    Raises:
        GradlabError: a batch is too large for its path to be stored, or one view is fixed.
    """
    from PIL import Image

    for flow in flows:
        if len(flow.path) < len(flow.curves["time"]):
            raise GradlabError("the batch is too large for a film; take fewer sentences")
    planes = [_plane(flow) for flow in flows]
    frames = []
    for share in progress_bar(np.linspace(0, 1, FRAMES), progress, unit="frame", desc="film"):
        with look():
            figure = empty_figure((3.3 * len(flows), 4.0))
            axes = np.atleast_1d(figure.subplots(1, len(flows)))
            for ax, flow, plane in zip(axes, flows, planes, strict=True):
                _frame(ax, flow, plane, float(share))
            memory = io.BytesIO()
            figure.savefig(memory, dpi=100)
            close(figure)
        frames.append(Image.open(memory).convert("RGB"))
    samples = np.vstack([np.asarray(frame) for frame in frames[:: FRAMES // 3]])
    palette = Image.fromarray(samples).quantize(128, Image.Quantize.MAXCOVERAGE)
    images = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    pauses = [PAUSE] * (FRAMES - 1) + [LAST_PAUSE]
    with atomic_path(path) as temporary:
        images[0].save(
            temporary, "GIF", save_all=True, append_images=images[1:], duration=pauses, loop=0
        )
    return Path(path)


def _times(flow: Flow) -> np.ndarray:
    """Return the times of the records; the start stands before the first step."""
    times = np.array(flow.curves["time"])
    if len(times) == 1:
        return np.ones(1)
    times[0] = times[1] / 2
    return times


def _first_change(flow: Flow) -> int:
    """Return the record from which on the picture shows a flow: until then, nothing moves."""
    curves = np.nan_to_num([flow.curves[name] for name in COSINES])
    moved = np.abs(curves - curves[:, :1]).max(axis=0) > 1e-3
    return max(int(moved.argmax()) - 5, 0)


def _cosines(ax: Axes, flow: Flow) -> None:
    times = _times(flow)
    for name, (label, color) in COSINES.items():
        curve = flow.curves[name]
        if np.isnan(curve).all():
            continue
        mark = "o" if len(times) == 1 else ""
        ax.plot(times, curve, color=color, label=label, marker=mark)
        if name == "different_cosine":
            spread = flow.curves["different_spread"]
            ax.fill_between(times, curve - spread, curve + spread, color=color, alpha=0.15, lw=0)
    ax.set_xscale("log")
    ax.axhline(0, color="0.85", lw=0.6, zorder=0)
    if len(times) > 1:
        ax.set_xlim(times[_first_change(flow)], times[-1])


def _plane(flow: Flow) -> np.ndarray:
    """Return the two directions that a film shows, (d, 2)."""
    anchors = flow.path[-1][: len(flow.anchors)]
    if anchors.shape[1] == 3:
        return np.eye(3)[:, :2]
    directions: np.ndarray = np.linalg.svd(anchors, full_matrices=False)[2][:2].T
    # Signs of singular vectors are arbitrary; let the largest coordinate be positive.
    signs = np.sign(directions[np.abs(directions).argmax(axis=0), [0, 1]])
    plane: np.ndarray = directions * signs
    return plane


def _frame(ax: Axes, flow: Flow, plane: np.ndarray, share: float) -> None:
    times = _times(flow)
    moment = np.interp(share, [0, 1], np.log(times[[_first_change(flow), -1]]))
    record = int(np.searchsorted(np.log(times), moment + 1e-9, side="right")) - 1
    count = len(flow.anchors)
    points = flow.path[record] @ plane
    anchors, positives = points[:count], points[count : 2 * count]
    turn = np.linspace(0, 2 * np.pi, 200)
    ax.fill(np.cos(turn), np.sin(turn), color="#f4f6f8", ec="#c9ced4", lw=1)
    groups = np.zeros(count, dtype=int) if flow.groups is None else flow.groups
    colors = [COLORS[group % len(COLORS)] for group in groups]
    for first, second, color in zip(anchors, positives, colors, strict=True):
        ax.plot(*zip(first, second, strict=True), color=color, lw=0.7, alpha=0.5)
    ax.scatter(anchors[:, 0], anchors[:, 1], s=14, c=colors, zorder=3)
    time = f"t = {flow.curves['time'][record]:.2g}"
    ax.set_title(
        f"{call_text(flow.loss)}\n{flow.end if record == len(times) - 1 else time}", fontsize=9
    )
    ax.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal")
    ax.axis("off")
