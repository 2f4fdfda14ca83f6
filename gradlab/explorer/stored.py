"""What the page shows of a loss that is given as code: computed beforehand, for the points that it opens with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradlab.batch.batch import unit_rows
from gradlab.explorer.scene import run_scene
from gradlab.losses.base import Loss

NEGATIVES, SAMPLES = 8, 61  # as in curves.js
STEP = 0.01  # of gradient descent
# The lowest and highest angle of a sweep.
ENDS = (0.02, math.pi - 0.02)


def first_points() -> dict[str, Any]:
    """Anchor, positive and a teacher's anchor, (3,), negatives and their own positives, (8, 3), in directions a golden section apart."""
    draw = np.random.default_rng(7)
    anchor = unit_rows(np.array([[-0.15, 0.1, 1.0]]))[0]
    negatives = [
        _placed(anchor, 0.45 + 1.1 * draw.random(), 2.4 * (i + 0.6 * draw.random())) for i in range(NEGATIVES)
    ]
    partners = [_placed(one, 0.2 + 0.25 * draw.random(), 2 * math.pi * draw.random()) for one in negatives]
    return {"anchor": anchor, "positive": _placed(anchor, 0.5, -0.9), "negatives": np.array(negatives),
            "teacher": _placed(anchor, 0.4, 0.6), "partners": np.array(partners)}  # fmt: skip


def swept(points: dict[str, Any], what: str, angle: float) -> dict[str, Any]:
    """The points with the positive, the first negative (``"chosen"``) or all ``"negatives"`` at an angle from the anchor.

    Positives of negatives go along, as in ``curves.js``.
    """
    anchor = points["anchor"]

    def at(point: np.ndarray, by: float, of: np.ndarray) -> np.ndarray:
        axis = unit_rows(np.cross(anchor, of)[None])[0]
        c, s = math.cos(by), math.sin(by)
        return point * c + np.cross(axis, point) * s + axis * (axis @ point) * (1 - c)

    if what == "positive":
        return points | {"positive": at(anchor, angle, points["positive"])}
    negatives, partners = points["negatives"].copy(), points["partners"].copy()
    for i in range(1 if what == "chosen" else len(negatives)):
        of = points["negatives"][i]
        negatives[i] = at(anchor, angle, of)
        partners[i] = at(partners[i], angle - math.acos(anchor @ of), of)
    return points | {"negatives": negatives, "partners": partners}


def stored_scenes(loss: Loss) -> dict[str, Any]:
    """`run_scene` at the first points (``now``) and along each sweep, as the page's arrays.

    Dissipation is that of the canonical split over its largest along the sweep of all negatives.

    Raises:
        GradlabError: a loss that has no components.
    """
    points = first_points()
    angles = np.linspace(*ENDS, SAMPLES)
    found: dict[str, Any] = {
        what: [_scene(loss, swept(points, what, angle)) for angle in angles]
        for what in ("negatives", "chosen", "positive")
    }
    found["now"] = [_scene(loss, points)]
    unit = max(abs(float(one["dissipation"])) for one in found["negatives"]) or 1.0
    for one in (scene for scenes in found.values() for scene in scenes):
        one |= {"dissipation": one["dissipation"] / unit, "weight": one["weight"] * unit}
    return {
        what: [{name: _written(value) for name, value in one.items()} for one in scenes]
        for what, scenes in found.items()
    }


def _scene(loss: Loss, points: dict[str, Any]) -> dict[str, Any]:
    rows = [
        np.vstack([points[one], points[many]])
        for one, many in (("anchor", "negatives"), ("positive", "partners"))
    ]
    anchors, positives = map(unit_rows, rows)
    return run_scene(loss, anchors, positives, np.asarray(STEP))


def _written(value: Any) -> Any:
    """A number, null where it is not finite, or an array as ``arrays.js`` has them, to six digits."""
    data = [float(f"{x:.6g}") if math.isfinite(x) else None for x in np.ravel(value).tolist()]
    return {"shape": list(np.shape(value)), "data": data} if np.ndim(value) else data[0]


def _placed(anchor: np.ndarray, angle: float, around: float) -> np.ndarray:
    """A point at an angle from the anchor, in a direction around it."""
    up = np.array([0.0, 1.0, 0.0])
    first = unit_rows((up - (up @ anchor) * anchor)[None])[0]
    side = math.cos(around) * first + math.sin(around) * np.cross(anchor, first)
    return math.cos(angle) * anchor + math.sin(angle) * side
