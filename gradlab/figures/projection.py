"""Map of the unit sphere in three dimensions as seen from one of its points, for pictures of steps.

In the azimuthal equidistant projection, the distance of a point from the centre is its angle to the
anchor, and its direction is the direction as seen from there. Arrows in the tangent plane keep
direction and length.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from gradlab.arrays import unit_rows
from gradlab.batch.similarity import PairSimilarity
from gradlab.batch.triple import tangent
from gradlab.plotting.style import pi_label

# Position of the anchor; other points are given by their angle to it and an azimuth.
POLE = np.array([0.0, 0.0, 1.0])
TURN = np.linspace(0, 2 * np.pi, 181)


def sphere_point(angle: float, azimuth: float = 0.0) -> np.ndarray:
    """Return the unit vector (3,) at an angle from the `POLE` and an azimuth, radians."""
    sine = np.sin(angle)
    return np.array([sine * np.cos(azimuth), sine * np.sin(azimuth), np.cos(angle)])


def frame(anchor: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return an orthonormal tangent basis (2, 3) at ``anchor``, first axis towards ``right``."""
    first = unit_rows(tangent(anchor, right))
    return np.stack([first, np.cross(anchor, first)])


def directions(anchor: np.ndarray, right: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Project vectors (..., 3) on the tangent plane, into the axes of `frame`: (..., 2)."""
    return vectors @ frame(anchor, right).T


def project_points(anchor: np.ndarray, right: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return unit vectors (..., 3) in the azimuthal equidistant projection, (..., 2), radians."""
    angle = PairSimilarity.from_vectors(np.broadcast_to(anchor, points.shape), points).angle
    flat = directions(anchor, right, points)
    length = np.linalg.norm(flat, axis=-1)
    return flat * (angle / np.where(length > 0, length, 1))[..., None]


def circle_around(anchor: np.ndarray, right: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Return the projected circle of points as far from ``centre`` as the anchor, (181, 2)."""
    angle = PairSimilarity.from_vectors(anchor, centre).angle
    first, second = frame(centre, anchor)
    around = np.cos(TURN)[:, None] * first + np.sin(TURN)[:, None] * second
    return project_points(anchor, right, np.cos(angle) * centre + np.sin(angle) * around)


def dress(ax: Axes, reach: float, step: float) -> None:
    """Make an axis a map of radius ``reach``, with rings every ``step`` labelled by their angle."""
    ax.set(aspect="equal", xlim=(-reach, reach), ylim=(-reach, reach), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    for radius in np.arange(step, reach + 1e-9, step):
        ax.plot(radius * np.cos(TURN), radius * np.sin(TURN), color="0.85", linewidth=0.6, zorder=0)
        ax.text(
            -radius * np.sqrt(0.5), radius * np.sqrt(0.5), pi_label(radius / np.pi),
            color="0.45", fontsize=6.5, ha="center", va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6}, zorder=0.5,
        )  # fmt: skip
