"""Functions that the page computes while points are moved, compiled from the library's formulas."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, largest_size, partners_at_angle, unit_rows
from gradlab.batch.batch import Batch
from gradlab.batch.candidates import DEFAULT_CANDIDATES, Candidates, Supervision
from gradlab.batch.roles import Labelled
from gradlab.batch.similarity import PairSimilarity
from gradlab.batch.triple import Triple
from gradlab.errors import GradlabError
from gradlab.explorer.compiler import Script, compile_script
from gradlab.gradient.lemma import projected_sphere_bounds, tangent_bounds
from gradlab.losses.base import Loss
from gradlab.losses.candidate_loss import CandidateLoss
from gradlab.losses.components import ANGLES_AWAY, Components, as_share
from gradlab.losses.embedding_distillation import EmbeddingDistillation
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.triplet import Triplet


def needs_batch(loss: Loss) -> bool:
    """Return whether a loss compares whole views, so that each negative needs its own positive."""
    return not isinstance(loss, (PairLoss, CandidateLoss, EmbeddingDistillation))


def run_scene(
    loss: Loss,
    anchors: Array,
    positives: Array,
    step: Array,
    negatives: Array | None = None,
    relation: Array | None = None,
    labels: Array | None = None,
    teacher: Array | None = None,
) -> dict[str, Any]:
    """Return the components and the step of one anchor in its batch.

    Args:
        loss: any loss.
        anchors: (N, D) unit rows; the first is the anchor to look at.
        positives: (N, D).
        step: () learning rate, of the gradient of the sum over anchors.
        negatives: (K, D) for a loss that needs no batch (N is 1); None if other sentences are the
            negatives.
        relation: (1, 1 + K) with ``negatives``: 1 for a positive and -1 for a negative; or None.
        labels: (N,) without ``negatives``: sentences with the label of the anchor are positives; or
            None.
        teacher: (N, D) anchors of a teacher, whose other embeddings equal the given ones; or None.

    Returns:
        for the first anchor, ``dissipation`` (as the loss declares it), ``relative_push``,
        ``ratio`` and ``hardest_share``, ();
        ``positive_weight``, () or (D,); ``weight``, (K), and the ``negatives``, (K, D), of its
        columns (of a batch, one or both views of all N); ``pull`` and ``push``, tangent parts of
        minus the gradient, and ``moved``, the anchor after a gradient step, (D,) each; angles to
        the positive ``before`` and ``after``, in radians. Losses that may pull elsewhere add
        ``pull_shares``, the positive first, or the ``target`` of the pull, (D,).
    """
    ruled = relation is not None or labels is not None
    plain = Batch(anchors, positives, negatives, in_batch_negatives=negatives is None)
    batch = dataclasses.replace(
        plain,
        supervision=Supervision(labels=labels, relation=relation),
        teacher=None if teacher is None else dataclasses.replace(plain, anchors=teacher),
        candidates=Candidates(rules=(Labelled(),)) if ruled else DEFAULT_CANDIDATES,
    )
    components = loss.components_of(batch)
    if type(components) is not Components:
        raise GradlabError("one set of components is drawn, and it has several")
    xp = array_namespace(anchors)
    displaced = [
        loss.components_of(_with_displaced_positive(batch, angle)) for angle in ANGLES_AWAY
    ]
    no_pull = dataclasses.replace(components, given_pull=xp.zeros_like(components.pull))
    no_push = dataclasses.replace(
        components, weight=xp.zeros_like(components.weight), given_pull=components.pull
    )
    moved = unit_rows(anchors - step * components.gradient(exact=True))
    after = PairSimilarity.from_vectors(moved, positives)
    elsewhere = {"pull_shares": components.pull_shares, "target": components.target}
    return {name: value[0, ...] for name, value in elsewhere.items() if value is not None} | {
        "dissipation": components.gradient_dissipation[0],
        "relative_push": as_share(
            components.total_push, largest_size([components.total_push for components in displaced])
        )[0],
        "ratio": components.scalar_ratio[0],
        "positive_weight": components.positive_weight[0, ...],
        "hardest_share": components.hardest_share[0],
        "weight": components.weight[0, ...],
        "negatives": components.vectors,
        "pull": -no_push.gradient()[0, ...],
        "push": -no_pull.gradient()[0, ...],
        "moved": moved[0, ...],
        "before": batch.positive.angle[0],
        "after": after.angle[0],
    }


def bounds(
    _: None, anchor: Array, positive: Array, negatives: Array, weight: Array, step: Array
) -> dict[str, Any]:
    """Return which ratios bring an anchor closer to its positive.

    The bounds hold for any loss with positive total weight.

    Args:
        anchor, positive: (D,).
        negatives: (K, D).
        weight: (K,).
        step: () learning rate times dissipation, greater than 0.

    Returns:
        ``low``, ``high``, ``feasible`` and ``outside`` of `projected_sphere_bounds`, as ratios,
        exact for the drawn step; ``lemma``, the published bound ``r-``, NaN where it is undefined.
    """
    triple = Triple.from_unit_vectors(anchor, positive, negatives, weight)
    exact, lemma = projected_sphere_bounds(triple, step), tangent_bounds(triple, step)
    total = array_namespace(weight).sum(weight)
    return {
        "low": exact.low / total,
        "high": exact.high / total,
        "feasible": exact.feasible,
        "outside": exact.outside,
        "lemma": lemma.low / total,
    }


def compile_scene(loss: Loss) -> Script:
    """Compile `run_scene` of a loss.

    Raises:
        GradlabError: a loss that cannot be compiled; the message names the operation.
    """
    if any(isinstance(base, Triplet) and base.mining != "hard" for base in loss.bases):
        raise GradlabError(
            "triplet cannot be compiled: its loop has as many steps as there are positives; "
            "triplet(mining=hard) has none"
        )
    return compile_script(run_scene, loss, functools.partial(example, needs_batch(loss)))


def example(batch: bool, index: int) -> dict[str, Any]:
    """Return arrays for `run_scene`, of a whole batch or not; ``index`` sets sizes and entries."""
    rng = np.random.default_rng(index)
    count, negatives, dimensions = ((5, 7, 3), (7, 11, 4), (13, 17, 3))[index % 3]
    rows = unit_rows(rng.standard_normal((count + negatives, dimensions)) + 1.5)
    near = unit_rows(rows[:count] + 0.3 * rng.standard_normal((count, dimensions)))
    step = np.asarray(0.02 + 0.01 * index)
    teacher = unit_rows(rows[:count] + 0.4 * rng.standard_normal((count, dimensions)))
    views = {"anchors": rows[:count], "positives": near, "teacher": teacher}
    if batch:
        labels = np.where(np.arange(count) % 4 == 2, 0, np.arange(count))
        return views | {"labels": labels, "step": step}
    first_row = {name: view[:1] for name, view in views.items()}
    relation = np.where(np.arange(1 + negatives) % 4 == 0, 1, -1)[None]
    return first_row | {"negatives": rows[count:], "relation": relation, "step": step}


def example_of_bounds(index: int) -> dict[str, Any]:
    """Return arrays for `bounds`; sizes and entries differ with ``index``."""
    arrays = example(False, index)
    return {
        "anchor": arrays["anchors"][0],
        "positive": arrays["positives"][0],
        "negatives": arrays["negatives"],
        "weight": np.random.default_rng(index).uniform(0.1, 1, len(arrays["negatives"])),
        "step": arrays["step"],
    }


# A loss that is given as code is computed beforehand, for the points that the page opens with.
NEGATIVES = 8


ANGLES = np.linspace(0.02, math.pi - 0.02, 61)  # of a sweep, as in curves.js


# Results of `run_scene` that the page makes of pull and push itself.
STEP = ("moved", "before", "after")


def first_points() -> dict[str, Any]:
    """Return anchor, positive and teacher's anchor, (3,); negatives and their positives, (8, 3)."""
    draw = np.random.default_rng(7)
    anchor = unit_rows(np.array([-0.15, 0.1, 1.0]))
    negatives = [
        _placed(anchor, 0.45 + 1.1 * draw.random(), 2.4 * (i + 0.6 * draw.random()))
        for i in range(NEGATIVES)
    ]
    partners = [
        _placed(negative, 0.2 + 0.25 * draw.random(), 2 * math.pi * draw.random())
        for negative in negatives
    ]
    return {
        "anchor": anchor,
        "positive": _placed(anchor, 0.5, -0.9),
        "negatives": np.array(negatives),
        "teacher": _placed(anchor, 0.4, 0.6),
        "partners": np.array(partners),
    }


def swept(points: dict[str, Any], moving: str, angle: float) -> dict[str, Any]:
    """Return the points with ``"positive"``, all ``"negatives"`` or one (``"chosen"``) at an angle.

    Positives of negatives move along, as in ``curves.js``.
    """
    anchor = points["anchor"]

    def at(point: np.ndarray, angle: float, of: np.ndarray) -> np.ndarray:
        return _turned(point, unit_rows(np.cross(anchor, of)), angle)

    if moving == "positive":
        return points | {"positive": at(anchor, angle, points["positive"])}
    negatives, partners = points["negatives"].copy(), points["partners"].copy()
    for i in range(1 if moving == "chosen" else len(negatives)):
        of = points["negatives"][i]
        negatives[i] = at(anchor, angle, of)
        partners[i] = at(partners[i], angle - math.acos(anchor @ of), of)
    return points | {"negatives": negatives, "partners": partners}


def stored_scenes(loss: Loss) -> dict[str, Any]:
    """Return `run_scene` at the first points (``now``) and along each sweep, as the page's arrays.

    The step is left out. Dissipation is the relative push, and the weights are in its unit.

    Raises:
        GradlabError: a loss without components.
    """
    points = first_points()
    scenes_by_sweep = {
        sweep: [_scene(loss, swept(points, sweep, angle)) for angle in ANGLES]
        for sweep in ("negatives", "chosen", "positive")
    } | {"now": [_scene(loss, points)]}
    for scene in (scene for scenes in scenes_by_sweep.values() for scene in scenes):
        relative, push = float(scene["relative_push"]), float(scene["dissipation"])
        unit = push / relative if relative and math.isfinite(relative) else 1.0
        scene |= {"dissipation": push / unit, "weight": scene["weight"] * unit}
    return {
        sweep: [
            {name: _rounded_array(value) for name, value in scene.items() if name not in STEP}
            for scene in scenes
        ]
        for sweep, scenes in scenes_by_sweep.items()
    }


def _with_displaced_positive(batch: Batch, angle: float) -> Batch:
    """Return the batch with the positive of the first anchor away, as `relative_push` does."""
    xp, positives = array_namespace(batch.anchors), batch.positives
    moved = partners_at_angle(batch.anchors, positives, angle)
    first = xp.arange(positives.shape[0]) == 0
    return dataclasses.replace(batch, positives=xp.where(first[:, None], moved, positives))


def _scene(loss: Loss, points: dict[str, Any]) -> dict[str, Any]:
    anchors = unit_rows(np.vstack([points["anchor"], points["negatives"]]))
    positives = unit_rows(np.vstack([points["positive"], points["partners"]]))
    return run_scene(loss, anchors, positives, np.zeros(()))


def _rounded_array(value: Any) -> Any:
    """Return a number or an array of ``arrays.js`` with six digits; non-finite values are null."""
    data = [float(f"{x:.6g}") if math.isfinite(x) else None for x in np.ravel(value).tolist()]
    return {"shape": list(np.shape(value)), "data": data} if np.ndim(value) else data[0]


def _placed(anchor: np.ndarray, angle: float, around: float) -> np.ndarray:
    """Return a point at an angle from the anchor, in a direction around it, both in radians."""
    axis = unit_rows(np.cross(anchor, [0.0, 1.0, 0.0]))
    return _turned(_turned(anchor, axis, angle), anchor, around)


def _turned(point: np.ndarray, axis: np.ndarray, angle: float) -> np.ndarray:
    """Return a point turned about a unit axis."""
    c, s = math.cos(angle), math.sin(angle)
    return point * c + np.cross(axis, point) * s + axis * (axis @ point) * (1 - c)
