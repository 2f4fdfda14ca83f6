"""Figure 12: the tangent plane of the proof of Lemma 1, drawn from computed steps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradlab.batch.triple import Triple
from gradlab.figures.projection import POLE, TURN, directions, sphere_point
from gradlab.gradient.lemma import take_step, tangent_bounds
from gradlab.plotting.colours import ANCHOR, NEGATIVE, POSITIVE
from gradlab.plotting.figure_tables import Table, Tables, select, stack
from gradlab.plotting.style import TEXT_WIDTH, add_key, empty_figure, key_line, style

# Title -> (step size λ, dihedral angle α in degrees); angles to the anchor are always the same.
CASES = {
    "situation 1 of the proof": (0.6, 50.0),
    "situation 2 of the proof": (1.1, 30.0),
    "not in the proof: no ratio serves": (1.1, 75.0),
}
THETA_POS, THETA_NEG = math.radians(50), math.radians(60)
# Point -> (marker, colour, label, offset of the label in points).
POINTS = {
    "anchor": ("o", ANCHOR, "$h_i$", (-9, 5)),
    "positive": ("^", POSITIVE, "$h_i'$", (10, 5)),
    "negative": ("v", NEGATIVE, "$h_j'$", (11, 4)),
    "pushed": ("o", "0.75", "$c$", (0, -12)),
    "auxiliary": ("D", "0.75", "$b$", (0, -12)),
    "low": ("o", "white", "$r^-$", (-3, -12)),
    "high": ("o", "white", "$r^+$", (3, -12)),
}


def compute() -> Tables:
    """Compute each case's points: steps with ratio 0 and both bounds, and the proof's point b."""
    return {"": stack([_case(case) for case in CASES])}


def draw_case(table: Table, case: str, ax: Axes) -> None:
    """Draw the tangent plane at the anchor in one case."""
    rows = select(table, case=case)
    at = {name: (x, y) for name, x, y in zip(rows["point"], rows["x"], rows["y"], strict=True)}
    ax.set_aspect("equal")
    ax.axis("off")
    radius = at["positive"][0]
    circle = radius + radius * np.cos(TURN), radius * np.sin(TURN)
    ax.plot(*circle, color=POSITIVE, linewidth=0.8, linestyle="--")
    _line(ax, at["anchor"], at["negative"], color=NEGATIVE, linewidth=0.8, linestyle=":")
    _line(ax, at["anchor"], at["positive"], color=POSITIVE, linewidth=0.8, linestyle=":")
    _line(ax, at["anchor"], at["pushed"], color=NEGATIVE, linewidth=1.6)
    end = (max(2 * radius + 0.1, at.get("high", (0, 0))[0] + 0.15), at["pushed"][1])
    _line(ax, at["pushed"], end, color=POSITIVE, linewidth=1.0)
    if "low" in at:
        _line(ax, at["low"], at["high"], color=POSITIVE, linewidth=3.5, solid_capstyle="butt")
        for start, stop in (("auxiliary", "anchor"), ("low", "positive"), ("low", "auxiliary")):
            _line(ax, at[start], at[stop], color="0.4", linewidth=0.8, linestyle=(0, (4, 2)))
    for name, (marker, color, label, offset) in POINTS.items():
        if name in at:
            ax.plot(*at[name], marker, ms=5.5, mfc=color, mec="black", mew=0.8, zorder=4)
            look: Any = {"ha": "center", "va": "center", "fontsize": 9}
            ax.annotate(label, at[name], offset, textcoords="offset points", **look)
    ax.set(xlim=(-0.95, 1.7), ylim=(-1.15, 0.95))
    step, alpha = rows["step"][0], math.degrees(rows["alpha"][0])
    ratios = dict(zip(rows["point"], rows["ratio"], strict=True))
    label = "the pull misses the circle"
    if "low" in at:
        label = f"$r^-$ = {ratios['low']:.2f}, $r^+$ = {ratios['high']:.2f}"
    ax.set_title(f"{case}\nλ = {step:g}, α = {alpha:.0f}°\n{label}", fontsize=8.5)


@style()
def draw(tables: Tables) -> tuple[Figure, list[Axes]]:
    """Draw both situations of the proof, and the case that the proof leaves out."""
    (table,) = tables.values()
    figure = empty_figure((TEXT_WIDTH, 3.1))
    figure.set_layout_engine("compressed")
    axes = list(figure.subplots(1, len(CASES)))
    for ax, case in zip(axes, CASES, strict=True):
        draw_case(table, case, ax)
    keys = {
        "push, $-\\lambda h_j'$": key_line(NEGATIVE),
        "pull, $\\lambda r h_i'$, as $r$ grows": key_line(POSITIVE, width=1.0),
        "closer than before": key_line(POSITIVE, width=3.5),
        "as far as before": key_line(POSITIVE, "--", 0.8),
        "rhombus of the proof": key_line("0.4", (0, (4, 2)), 0.8),
    }
    add_key(figure, keys, loc="outside lower center", ncols=3)
    return figure, axes


def _case(case: str) -> Table:
    step, alpha = CASES[case][0], math.radians(CASES[case][1])
    positive, negative = sphere_point(THETA_POS), sphere_point(THETA_NEG, alpha)
    bounds = tangent_bounds(Triple.from_vectors(POLE, positive, negative), step)

    def flat(vector: Any) -> Any:
        return directions(POLE, positive, vector)

    def moved(ratio: float) -> Any:
        return flat(take_step(POLE, positive, negative, ratio, step, "tangent").anchor)

    at = {"anchor": np.zeros(2), "positive": flat(positive), "negative": flat(negative)}
    ratios = {"pushed": 0.0}
    if bool(bounds.feasible):
        ratios |= {"low": float(bounds.low), "high": float(bounds.high)}
    at |= {name: moved(ratio) for name, ratio in ratios.items()}
    if "low" in at:
        # b completes the rhombus of the proof: b, the anchor after the step, h_i', h_i.
        at["auxiliary"] = at["low"] - flat(positive)
    x, y = np.array(list(at.values())).T
    ratio = [ratios.get(name, math.nan) for name in at]
    place = {"case": case, "point": list(at), "x": x, "y": y}
    return {**place, "ratio": ratio, "step": step, "alpha": alpha}


def _line(ax: Axes, start: Any, end: Any, **look: Any) -> None:
    ax.plot([start[0], end[0]], [start[1], end[1]], **look)
