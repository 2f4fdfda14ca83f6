"""Figure 11: effects of dissipation, weight and ratio, in computed steps on the 3D unit sphere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from gradlab.arrays import unit_rows
from gradlab.batch.similarity import PairSimilarity
from gradlab.batch.triple import Triple
from gradlab.figures.projection import (
    POLE,
    circle_around,
    directions,
    dress,
    project_points,
    sphere_point,
)
from gradlab.gradient.components_and_autograd import components
from gradlab.gradient.lemma import ratio_bounds, take_step
from gradlab.losses.registry import get_loss
from gradlab.plotting.colours import ANCHOR, NEGATIVE, POSITIVE
from gradlab.plotting.figure_tables import Table, Tables, select, stack
from gradlab.plotting.style import TEXT_WIDTH, add_key, empty_figure, key_line, style

ALWAYS_OPEN = 3.0  # margin that no difference of cosines reaches
EQUAL = 1e6  # temperature at which all negatives have the same weight
RIGHT = np.array([1.0, 0.0, 0.0])  # direction to the right of a map
# Panel -> (radius and distance of rings of its map, head, titles without and with the component).
PANELS = {
    "dissipation": (
        (1.03 * math.pi, math.pi / 2),
        "(a) Dissipation ends the push",
        ("without: a margin never reached", "with: margin 0.3"),
    ),
    "weight": (
        (0.7 * math.pi, math.pi / 4),
        "(b) Weight decides who pushes",
        ("without: equal weights", "with: softmax, τ = 0.05"),
    ),
    "ratio": (
        (0.41 * math.pi, math.pi / 8),
        "(c) Ratio: pull against push",
        ("too small: below the bound", "large enough: above the bound"),
    ),
}
# Arrow -> (colour, width); the widths differ for grey print.
ARROWS = {"push": (NEGATIVE, 2.6), "pull": (POSITIVE, 1.2)}


def compute() -> Tables:
    """Compute the six panels' points and arrows, seen from the anchor, with angles and weights."""
    panels = {"dissipation": _dissipation, "weight": _weight, "ratio": _ratio}
    tables = [
        {"panel": panel, "side": side, "item": item, **rows}
        for panel, make in panels.items()
        for side in range(2)
        for item, rows in make(side).items()
    ]
    return {"": stack(tables)}


def train(margin: float) -> tuple[Any, Any]:
    """Run gradient descent by the baseline from six pairs of views that are close together."""
    rng = np.random.default_rng(0)
    anchors = unit_rows(POLE + 0.35 * rng.standard_normal((6, 3)))
    positives = unit_rows(anchors + 0.35 * rng.standard_normal((6, 3)))
    loss = get_loss("baseline", margin=margin)
    for _ in range(150):
        anchor_gradient = components(loss, anchors, positives).gradient()
        positive_gradient = components(loss, positives, anchors).gradient()
        anchors, positives = (
            unit_rows(anchors - 0.02 * anchor_gradient),
            unit_rows(positives - 0.02 * positive_gradient),
        )
    return anchors, positives


def draw_role(table: Table, panel: str, side: int, ax: Axes) -> None:
    """Draw the ``dissipation``, ``weight`` or ``ratio`` panel, ``side`` 0 without it, 1 with it."""
    rows = select(table, panel=panel, side=side)
    items = {item: select(rows, item=item) for item in dict.fromkeys(rows["item"])}
    dress(ax, *PANELS[panel][0])
    if "equal_distance" in items:
        ring = items["equal_distance"]
        ax.plot(ring["x"], ring["y"], color=POSITIVE, linewidth=0.8, linestyle="--")
    for name, (color, width) in ARROWS.items():
        if name in items:
            tip = items[name]["dx"][0], items[name]["dy"][0]
            look = {"arrowstyle": "-|>", "color": color, "linewidth": width}
            look |= {"shrinkA": 0, "shrinkB": 0, "mutation_scale": 5 + 2.5 * width}
            ax.annotate("", tip, (0, 0), annotation_clip=False, arrowprops=look)
    negatives, fill = items["negative"], np.array(to_rgb(NEGATIVE))
    for x, y, weight in zip(negatives["x"], negatives["y"], negatives["weight"], strict=True):
        # A negative with more weight has a fuller colour.
        full = 1 - (1 - fill) * min(1.0, weight / 0.5) if panel == "weight" else fill
        ax.plot(x, y, "v", ms=6.5, mfc=tuple(full), mec=NEGATIVE, mew=1.0, zorder=4)
    # Larger than the anchor, which can cover it.
    x, y = items["positive"]["x"], items["positive"]["y"]
    ax.plot(x, y, "^", ms=8, mfc=POSITIVE, mec=POSITIVE, mew=1.0, zorder=4)
    if "after" in items:
        x, y = items["after"]["x"], items["after"]["y"]
        ax.plot(x, y, "o", ms=6, mfc="0.75", mec="black", mew=0.8, zorder=5)
    ax.plot(0, 0, "o", ms=5, color=ANCHOR, zorder=6)
    # The blank line separates the head from the numbers of the panel above.
    _, head, titles = PANELS[panel]
    ax.set_title(f"{head if side == 0 else ''}\n{titles[side]}", fontsize=9)
    ax.set_xlabel(_measured(panel, items), fontsize=8)


@style()
def draw(tables: Tables) -> tuple[Figure, list[Axes]]:
    """Draw the panels without each component above the panels with it."""
    (table,) = tables.values()
    figure = empty_figure((TEXT_WIDTH, 6.7))
    figure.set_layout_engine("compressed", h_pad=0.1)  # the layout engine for axes of fixed aspect
    grid = figure.subplots(2, 3)
    for column, panel in enumerate(PANELS):
        for side in range(2):
            draw_role(table, panel, side, grid[side, column])
    marks: Any = {"style": "none", "markersize": 6}
    keys = {
        "anchor": key_line(ANCHOR, marker="o", **marks),
        "anchor after the step": key_line("none", marker="o", mfc="0.75", mec="black", **marks),
        "positive": key_line(POSITIVE, marker="^", **marks),
        "negative (the fuller, the more weight)": key_line(NEGATIVE, marker="v", **marks),
        "pull": key_line(ARROWS["pull"][0], width=ARROWS["pull"][1]),
        "push: sum over the negatives": key_line(ARROWS["push"][0], width=ARROWS["push"][1]),
        "ring: angle to the anchor": key_line(marker="o", mfc="none", mec="0.8", **marks),
        "as far from the positive as before": key_line(POSITIVE, "--", 0.8),
    }
    add_key(figure, keys, loc="outside lower center", ncols=3)
    return figure, list(grid.ravel())


def facts(tables: Tables) -> dict[str, str]:
    """Return the gap between positive and nearest negative, without and with dissipation."""
    (table,) = tables.values()
    gaps = {}
    for side, name in enumerate(("without", "with_it")):
        rows = select(table, panel="dissipation", side=side)
        positive = select(rows, item="positive")["angle"][0]
        gaps[name] = _degrees(select(rows, item="negative")["angle"].min() - positive)
    return gaps


def _point(angle: float, azimuth: float) -> np.ndarray:
    """Return the point of the sphere at an angle and azimuth in degrees."""
    return sphere_point(math.radians(angle), math.radians(azimuth))


def _dissipation(side: int) -> dict[str, Table]:
    """Train six sentences, both views, by the baseline from one start without and with its gate."""
    anchors, positives = train((ALWAYS_OPEN, 0.3)[side])
    points = {"anchor": anchors[:1], "positive": positives[:1], "negative": positives[1:]}
    viewpoint = {"anchor": anchors[0], "right": positives[1]}
    return {item: _points(rows, **viewpoint) for item, rows in points.items()}


def _weight(side: int) -> dict[str, Table]:
    """Take one step of an anchor among nine negatives, of which only the hardest is on its side."""
    positive = _point(70, 0)
    rng = np.random.default_rng(1)
    far = map(_point, rng.uniform(65, 100, 8), rng.uniform(190, 320, 8))
    negatives = np.stack([_point(35, 80), *far])
    loss = get_loss("baseline", margin=ALWAYS_OPEN, temperature=(EQUAL, 0.05)[side])
    split = components(loss, POLE[None], positive[None], negatives, in_batch_negatives=False)
    return _step(positive, negatives, split.weight[0], split.positive_weight[0], 0.8)


def _ratio(side: int) -> dict[str, Table]:
    """Take one step with one negative, at 0.5 and 1.5 times the exact bound on the ratio."""
    positive, negative = _point(45, 0), _point(55, 50)
    bound = float(ratio_bounds(Triple.from_vectors(POLE, positive, negative), 0.5, "projected").low)
    return _step(positive, negative[None], np.ones(1), (0.5, 1.5)[side] * bound, 0.5) | {
        "equal_distance": _rows(circle_around(POLE, RIGHT, positive)),
        "bound": _rows(np.full((1, 2), np.nan), weight=bound),
    }


def _step(positive: Any, negatives: Any, weight: Any, pull: float, step: float) -> dict[str, Table]:
    """Return a step's points and arrows: push, the first (hardest) negative's push, and pull."""
    moved = take_step(POLE, positive, negatives, pull, step, "projected", weight=weight)
    pushes = -step * weight[:, None] * directions(POLE, RIGHT, negatives)
    origin = np.zeros((1, 2))
    return {
        "anchor": _points(POLE[None]),
        "positive": _points(positive[None], pull),
        "negative": _points(negatives, weight),
        "push": _rows(origin, pushes.sum(0)[None]),
        "hardest_push": _rows(origin, pushes[:1]),
        "pull": _rows(origin, step * pull * directions(POLE, RIGHT, positive)[None]),
        "after": _rows(project_points(POLE, RIGHT, moved.anchor[None]), angle=moved.after),
    }


def _points(points: Any, weight: Any = np.nan, anchor: Any = POLE, right: Any = RIGHT) -> Table:
    angle = PairSimilarity.from_vectors(np.broadcast_to(anchor, points.shape), points).angle
    return _rows(project_points(anchor, right, points), angle=angle, weight=weight)


def _rows(start: Any, arrow: Any = np.nan, angle: Any = np.nan, weight: Any = np.nan) -> Table:
    """Return rows: places and arrows in radians, angles to the anchor (``after``: the positive)."""
    (x, y), (dx, dy) = start.T, np.broadcast_to(arrow, start.shape).T
    return {"x": x, "y": y, "dx": dx, "dy": dy, "angle": angle, "weight": weight}


def _degrees(angle: Any) -> str:
    return f"{math.degrees(float(angle)):.0f}°"


def _measured(panel: str, items: dict[str, Table]) -> str:
    """Return the text with the numbers of a panel."""
    if panel == "dissipation":
        near = _degrees(items["negative"]["angle"].min())
        return f"positive {_degrees(items['positive']['angle'][0])} away,\nnearest negative {near}"
    if panel == "weight":
        weight, hardest, push = items["negative"]["weight"], items["hardest_push"], items["push"]
        turn = np.arctan2(push["dy"], push["dx"])[0] - np.arctan2(hardest["dy"], hardest["dx"])[0]
        turn = abs((turn + np.pi) % (2 * np.pi) - np.pi)
        share = f"hardest negative: {weight[0]:.0%} of the weight"
        return f"{share};\nthe push is {_degrees(turn)} off its own"
    ratio, bound = items["positive"]["weight"][0], items["bound"]["weight"][0]
    sign = "<" if ratio < bound else ">"
    change = f"{_degrees(items['positive']['angle'][0])} → {_degrees(items['after']['angle'][0])}"
    word = "farther" if items["after"]["angle"][0] > items["positive"]["angle"][0] else "closer"
    return f"ratio {ratio:.2f} {sign} {bound:.2f}:\npositive {change}, {word}"
