"""What is known about where losses lead: arrangements with the lowest known loss, and saddles."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from gradlab.arrays import Float
from gradlab.batch.candidates import UNSUPERVISED
from gradlab.flow.velocity import VelocityField
from gradlab.losses.components import project

LANCZOS_STEPS = 80
DIFFERENCE = 1e-5  # radians; step of the central differences
DESCENT = 1e-5  # least curvature of a direction of descent, as a share of the largest curvature


@dataclasses.dataclass(frozen=True)
class Reference:
    """An arrangement of embeddings with a known loss.

    Attributes:
        name: such as ``"the simplex"``.
        value: the loss there, as a mean over anchors.
        positives, different: cosines of positives, and of different sentences (mean).
    """

    name: str
    value: float
    positives: float
    different: float


def best_reference(velocity_field: VelocityField, share: float) -> Reference | None:
    """Return the known arrangement with the lowest loss; None if none fits the batch.

    Of N sentences in D dimensions: the regular simplex for N <= D + 1 (Lu and Steinerberger 2020),
    for N <= D also the double-constant embeddings, which move the two views of the simplex apart
    (Lee, Chang and Sohn 2024), and for N = 2D the cross-polytope (Cohn and Kumar 2007). With labels
    of C <= D + 1 classes: each class in a point, the points a simplex (Graf et al. 2021).

    Args:
        velocity_field: the loss and the batch.
        share: factor from the sum of the loss to its mean.
    """
    batch = velocity_field.batch
    beside = (batch.extra_negatives, batch.own_negatives, batch.mask, batch.guide, batch.teacher)
    unlabelled = dataclasses.replace(batch.supervision, labels=None)
    plain = (
        all(kind is None for kind in beside)
        and unlabelled == UNSUPERVISED
        and batch.in_batch_negatives
    )
    if not plain or set(velocity_field.places) != {"anchors", "positives"}:
        return None
    best = None
    for arrangement in _arrangements(velocity_field):
        reference = _measured(velocity_field, *arrangement)
        # Of equal ones the first, which is simpler, up to the accuracy of δ.
        if best is None or reference.value < best.value - 1e-9 * abs(best.value):
            best = reference
    return None if best is None else dataclasses.replace(best, value=best.value * share)


def descends(velocity_field: VelocityField, rows: Tensor) -> bool | None:
    """Return whether a direction of descent remains at a point of rest.

    Lanczos iteration from a fixed start bounds the smallest curvature from above, so True is proof
    up to rounding. False means that `LANCZOS_STEPS` steps found none. None: the gradients are not
    those of a function.
    """
    if any(base.surrogate for base in velocity_field.loss.bases):
        return None
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(rows.shape, generator=generator, dtype=rows.dtype)
    curvatures = _lanczos(_curvature(velocity_field, rows), project(direction, rows))
    return bool(curvatures[0] < -DESCENT * np.abs(curvatures).max())


def _arrangements(velocity_field: VelocityField) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    count, dim = velocity_field.batch.anchors.shape
    labels = velocity_field.batch.supervision.labels
    classes = np.arange(count) if labels is None else np.unique(labels, return_inverse=True)[1]
    groups = int(classes.max()) + 1
    if 2 <= groups <= dim + 1:
        points = _simplex(groups, dim)[classes]
        yield "the simplex" if groups == count else "the simplex of classes", points, points
    if labels is not None:
        return
    if 2 <= count <= dim:
        views = _double_constant(_least_along(velocity_field), count, dim)
        yield "the double-constant embedding", *views
    if count == 2 * dim:
        points = np.concatenate([np.eye(dim), -np.eye(dim)])
        yield "the cross-polytope", points, points


def _least_along(velocity_field: VelocityField) -> float:
    """Return the distance δ of both views from the simplex that has the lowest loss."""
    from scipy.optimize import minimize_scalar

    count, dim = velocity_field.batch.anchors.shape

    def loss_at(distance: float) -> float:
        return _measured(velocity_field, "", *_double_constant(distance, count, dim)).value

    lowest = minimize_scalar(loss_at, bounds=(0, 4), method="bounded", options={"xatol": 1e-10})
    return float(lowest.x)


def _simplex(count: int, dim: int) -> Float[np.ndarray, "n d"]:
    """Return N unit rows of pairwise cosine -1/(N - 1) in the first N - 1 coordinates."""
    values, vectors = np.linalg.eigh(np.eye(count) - 1 / count)
    rows = np.zeros((count, dim))
    rows[:, : count - 1] = vectors[:, values > 0.5]
    unit: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def _double_constant(distance: float, count: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two views of a simplex, moved apart along one further coordinate by ±δ."""
    points = _simplex(count, dim)
    offset = np.zeros((1, dim))
    offset[0, -1] = distance
    length = math.hypot(1, distance)
    return (points + offset) / length, (points - offset) / length


def _measured(
    velocity_field: VelocityField, name: str, anchors: np.ndarray, positives: np.ndarray
) -> Reference:
    views = torch.from_numpy(anchors), torch.from_numpy(positives)
    batch = dataclasses.replace(velocity_field.batch, anchors=views[0], positives=views[1])
    with torch.no_grad():
        total = float(velocity_field.loss.value_of(batch).sum())
    cosines = anchors @ positives.T
    different = cosines[~np.eye(len(cosines), dtype=bool)]
    return Reference(name, total, float(np.trace(cosines)) / len(cosines), float(different.mean()))


def _curvature(velocity_field: VelocityField, rows: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the product of the Hessian on the sphere with a tangent direction (r, d)."""

    def velocity(shift: Tensor) -> Tensor:
        moved = rows + shift
        return velocity_field(moved / torch.linalg.vector_norm(moved, dim=-1, keepdim=True)).rows

    def product(direction: Tensor) -> Tensor:
        size = DIFFERENCE / float(torch.linalg.vector_norm(direction, dim=-1).max())
        change = velocity(-size * direction) - velocity(size * direction)
        image: Tensor = project(change / (2 * size), rows)
        return image

    return product


def _lanczos(product: Callable[[Tensor], Tensor], start: Tensor) -> np.ndarray:
    """Return Ritz values of a symmetric operator in increasing order."""
    basis = [start / torch.linalg.vector_norm(start)]
    diagonal: list[float] = []
    beside: list[float] = []
    for _ in range(min(LANCZOS_STEPS, start.numel())):
        image = product(basis[-1])
        diagonal.append(float((image * basis[-1]).sum()))
        for _ in range(2):  # twice is enough for orthogonality to rounding
            for vector in basis:
                image = image - (image * vector).sum() * vector
        length = float(torch.linalg.vector_norm(image))
        if length <= 1e-8 * max(map(abs, [*diagonal, *beside])):
            break
        beside.append(length)
        basis.append(image / length)
    size = len(diagonal)
    matrix = np.diag(diagonal) + np.diag(beside[: size - 1], 1) + np.diag(beside[: size - 1], -1)
    values: np.ndarray = np.linalg.eigvalsh(matrix)
    return values
