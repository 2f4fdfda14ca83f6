"""What acts on one anchor of drawn batches: from formulas, or from gradients on vectors.

A loss of one anchor's similarities (a `PairLoss`) is computed from angles. Any other loss, by name
or as code, is differentiated on whole batches of vectors: the anchor's positive and each negative
have a dimension of their own, in which the anchor's gradient is the vector's coefficient times a
sine, so that no system has to be solved. So has each other anchor, if the loss compares it with the
anchor.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from gradlab.arrays import Float, divide, largest_size, partners_at_angle
from gradlab.batch.batch import Batch
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.errors import GradlabError
from gradlab.gradient.pairs_as_products import AGREEMENT
from gradlab.gradient.vectorised import GradientsAt
from gradlab.losses.base import Loss
from gradlab.losses.components import ANGLES_AWAY
from gradlab.losses.per_prefix import PerPrefix
from gradlab.simulation.grid_and_result import AngleGrid

# Rows of cells of which the push with the positive away has to agree, and up to what relative
# difference, for it to be taken as the same in the whole column. Up to the same part of a gradient,
# an entry counts as zero.
PROBES, ROUNDING = 3, 1e-12


class Forces(NamedTuple):
    """What acts on the anchor in each of b batches, (b,) each."""

    push: Float[np.ndarray, "b"]  # total push
    displaced: Float[np.ndarray, "b"]  # largest size of the push with the positive away
    pull: Float[np.ndarray, "b"]
    hardest_share: Float[np.ndarray, "b"]


# Forces at angles to the positives, (b, sentences), and a function of angles to the negatives,
# (b, k), that returns them.
ForcesAt = Callable[[Float[np.ndarray, "b sentences"]], Forces]
ForcesOf = Callable[[Float[np.ndarray, "b k"]], ForcesAt]


def row_forces(loss: Loss) -> ForcesOf | None:
    """Return the forces in closed form; None if the similarities of one row do not tell them."""
    row: Any = loss.row_loss()
    if row is None:
        return None
    away = [PairSimilarity.from_angles(np.array(angle)) for angle in ANGLES_AWAY]

    def forces(far: Float[np.ndarray, "b k"]) -> ForcesAt:
        negatives = Negatives.from_angles(far)
        with np.errstate(all="ignore"):
            summary, weight = row.summary(negatives), row.weight(negatives)
            total = weight.sum(-1)
            displaced = largest_size([total * row.dissipation(pair, summary) for pair in away])
            share = divide(np.abs(weight).max(-1), np.abs(weight).sum(-1))

        def at(near: Float[np.ndarray, "b sentences"]) -> Forces:
            positive = PairSimilarity.from_angles(near[:, 0])
            with np.errstate(all="ignore"):
                push = total * row.dissipation(positive, summary)
                return Forces(push, displaced, push * row.ratio(positive, summary), share)

        return at

    return forces


def vector_forces(loss: Loss, angle_grid: AngleGrid) -> ForcesOf:
    """Return the forces from gradients of the loss on whole batches of vectors.

    The push with the positive away is the same for all mean angles of the positives if an anchor's
    push depends on its own row only. It is computed at the first `PROBES` of a column, and at the
    others only if these differ.

    Raises:
        GradlabError: the loss has no forces on such batches, or a mean angle has no direction.
    """
    _check_directions(angle_grid)
    if angle_grid.own_negatives:
        raise GradlabError(
            f"{loss.name} is not simulated with own negatives: "
            "they are for gradlab's losses of pairs, such as infonce"
        )
    if loss.closed_form:
        if _sees_coordinates(loss):
            return _component_forces(loss)

        def value(anchors: Tensor, positives: Tensor) -> Tensor:
            total: Tensor = loss.value_of(Batch(anchors, positives)).sum()
            return total
    else:
        loss.components_of(_small_batch(angle_grid))  # a clear error for unsuitable losses
        value = loss.in_double()  # type: ignore[attr-defined]  # of a loss given as code
    gradients = _AnchorGradients(value, angle_grid, by_products=not loss.closed_form)

    def forces(far: Float[np.ndarray, "b k"]) -> ForcesAt:
        batches = len(far)
        all_negatives = torch.from_numpy(np.concatenate([far] * (1 + len(ANGLES_AWAY))))
        probes: list[np.ndarray] = []  # displaced pushes of the first rows of cells

        def at(near: Float[np.ndarray, "b sentences"]) -> Forces:
            away = () if _agree(probes) else ANGLES_AWAY
            moved = [near.copy() for _ in away]
            for rows, angle in zip(moved, away, strict=True):
                rows[:, 0] = angle
            angles = torch.from_numpy(np.concatenate([near, *moved]))
            pull, pushes = gradients(angles, all_negatives[: len(angles)])
            total, sizes = pushes.sum(1), np.abs(pushes[:batches])
            if away:
                displaced = np.abs(total[batches:]).reshape(len(away), batches).max(0)
                if len(probes) < PROBES:
                    probes.append(displaced)
            else:
                displaced = probes[0]
            share = divide(sizes.max(1), sizes.sum(1))
            return Forces(total[:batches], displaced, pull[:batches], share)

        return at

    return forces


class _AnchorGradients:
    """Coefficients of the first anchor in drawn batches, from gradients of a function of two views.

    Batches have half as many dimensions if the loss does not compare anchors with each other: see
    `views`. That is tried on one batch at the first, the last and the middle angle of positives and
    every angle of negatives, and seen in each gradient, which then has an entry in the dimension
    that the other anchors share.
    """

    def __init__(
        self, value: Callable[[Tensor, Tensor], Tensor], angle_grid: AngleGrid, *, by_products: bool
    ) -> None:
        self._count = angle_grid.columns
        self._apart, self._shared = (
            GradientsAt(
                functools.partial(_of_anchor, value, shared),
                entries=2 * (1 + self._count) ** 2,
                by_products=by_products,
            )
            for shared in (False, True)
        )
        self._compares_anchors = not all(
            self._agree(*_batch_at(angle_grid, near, far))
            for far in angle_grid.mu_neg
            for near in angle_grid.mu_pos[probes_first(angle_grid.mu_pos.size)[:PROBES]]
        )

    def __call__(
        self, near: Float[Tensor, "b sentences"], far: Float[Tensor, "b k"]
    ) -> tuple[Float[np.ndarray, "b"], Float[np.ndarray, "b k"]]:
        """Return the pull and the pushes at angles to the positives and to the negatives."""
        gradients = None if self._compares_anchors else self._without_anchors(near, far)
        if gradients is None:
            gradients = self._whole(near, far)
        # Each vector's entry in its own dimension is the sine of its angle.
        pull, across, within = torch.split(gradients[:, 1:], [1, self._count, self._count], dim=1)
        same = within / near[:, 1:].sin()
        pushes = across / far.sin() - same * near[:, 1:].cos() + same
        return (-pull[:, 0] / near[:, 0].sin()).numpy(), pushes.numpy()

    def _whole(
        self, near: Float[Tensor, "b sentences"], far: Float[Tensor, "b k"]
    ) -> Float[Tensor, "b d"]:
        leaves = _first_axis(len(near), 2 + 2 * self._count)
        return self._apart(leaves, (near, far), progress=False)

    def _without_anchors(
        self, near: Float[Tensor, "b sentences"], far: Float[Tensor, "b k"]
    ) -> Float[Tensor, "b d"] | None:
        """Return gradients in which the other anchors have no part; None if they have one."""
        leaves = _first_axis(len(near), 3 + self._count)
        gradients = self._shared(leaves, (near, far), progress=False)
        if not bool(gradients[:, -1].abs().amax() <= ROUNDING * gradients.abs().amax()):
            return None
        padded: Tensor = pad(gradients[:, :-1], (0, self._count))
        return padded

    def _agree(self, near: Float[Tensor, "b sentences"], far: Float[Tensor, "b k"]) -> bool:
        """Return whether batches of fewer dimensions have the same gradients."""
        gradients = self._without_anchors(near, far)
        if gradients is None:
            return False
        whole = self._whole(near, far)
        return bool((whole - gradients).abs().amax() <= AGREEMENT * whole.abs().amax())


def probes_first(rows: int) -> list[int]:
    """Return row numbers with the first, the last and the middle row in front."""
    return list(dict.fromkeys([0, rows - 1, rows // 2, *range(rows)]))


def views(
    positive: Float[Tensor, "sentences"], negative: Float[Tensor, "k"], *, shared: bool = False
) -> tuple[Float[Tensor, "sentences d"], Float[Tensor, "sentences d"]]:
    """Return anchors and positives of 1 + K sentences in 2 + 2K dimensions.

    The angles are those of each anchor to its positive, and of the first anchor to the positives of
    the others. ``shared`` gives the other anchors one dimension in place of K, which changes the
    cosines among them but none with a positive or with the first anchor: 3 + K dimensions. A loss
    written with broadcasting takes time by their number.
    """
    count = len(negative)
    angles = torch.cat([positive[:1], negative])
    positives = torch.cat([angles.cos()[:, None], torch.diag(angles.sin())], 1)
    away = positive[1:].sin()
    if shared:
        signs = (-1.0) ** torch.arange(count, dtype=away.dtype, device=away.device)
        directions = (signs * away)[:, None]
    else:
        directions = torch.diag(away)
    positives = pad(positives, (0, directions.shape[1]))
    own = pad(directions, (2 + count, 0))
    remaining = positive[1:].cos()[:, None] * positives[1:] + own
    first = pad(torch.ones_like(positive[:1])[:, None], (0, positives.shape[1] - 1))
    return torch.cat([first, remaining]), positives


def _agree(probes: list[np.ndarray]) -> bool:
    """Return whether the displaced pushes of all `PROBES` rows of cells are the same."""
    if len(probes) < PROBES:
        return False
    size = np.abs(probes).max()
    return bool(np.abs(np.subtract(probes[1:], probes[0])).max() <= ROUNDING * size)


def _first_axis(count: int, dimensions: int) -> Float[Tensor, "{count} {dimensions}"]:
    return torch.eye(1, dimensions, dtype=torch.float64).repeat(count, 1)


def _of_anchor(
    value: Callable[[Tensor, Tensor], Tensor],
    shared: bool,
    leaf: Float[Tensor, "d"],
    near: Float[Tensor, "sentences"],
    far: Float[Tensor, "k"],
) -> Tensor:
    """Return the value of a loss on a drawn batch whose first anchor is ``leaf``."""
    anchors, positives = views(near, far, shared=shared)
    return value(torch.cat([leaf[None], anchors[1:]]), positives)


def _sees_coordinates(loss: Loss) -> bool:
    """Return whether a loss is not a function of dot products, such as Barlow Twins."""
    return loss.has(PerPrefix) or not all("similarity" in base.exact_in for base in loss.bases)


def _component_forces(loss: Loss) -> ForcesOf:
    """Return the forces from the closed form, on batches that a fixed rotation turns at random."""

    def forces(far: Float[np.ndarray, "b k"]) -> ForcesAt:
        def at(near: Float[np.ndarray, "b sentences"]) -> Forces:
            batches = []
            for angles, negatives in zip(near, far, strict=True):
                angle_pairs = torch.from_numpy(angles), torch.from_numpy(negatives)
                anchors, positives = (
                    rows.numpy() @ _rotation(len(rows) * 2) for rows in views(*angle_pairs)
                )
                components = loss.components_of(Batch(anchors, positives))
                pushes = []
                for angle in ANGLES_AWAY:
                    moved = positives.copy()
                    moved[0] = partners_at_angle(anchors[:1], positives[:1], angle)[0]
                    pushes.append(abs(loss.components_of(Batch(anchors, moved)).total_push[0]))
                batches.append(
                    (
                        components.total_push[0],
                        max(pushes),
                        components.scalar_pull[0],
                        components.hardest_share[0],
                    )
                )
            return Forces(*np.array(batches).T)

        return at

    return forces


@functools.cache
def _rotation(dimensions: int) -> Float[np.ndarray, "{dimensions} {dimensions}"]:
    gaussian_matrix = np.random.default_rng(1).standard_normal((dimensions, dimensions))
    return np.linalg.qr(gaussian_matrix)[0]


def _check_directions(angle_grid: AngleGrid) -> None:
    for name in ("pos", "neg"):
        at_an_end = bool((np.abs(np.sin(getattr(angle_grid, f"mu_{name}"))) < 1e-6).any())
        if at_an_end and getattr(angle_grid, f"sigma_{name}") == 0:
            raise GradlabError(
                f"mu_{name} of 0 or π with no spread leaves the gradient without a direction; "
                f"give sigma_{name}"
            )


def _small_batch(angle_grid: AngleGrid) -> Batch:
    few = dataclasses.replace(
        angle_grid,
        negatives=min(angle_grid.negatives, 7),
        own_negatives=0,
        mu_own=None,
        sigma_own=None,
    )
    near, far = _batch_at(few, 0.5, 1.0)
    return Batch(*views(near[0], far[0]))


def _batch_at(
    angle_grid: AngleGrid, mu_pos: float, mu_neg: float
) -> tuple[Float[Tensor, "1 sentences"], Float[Tensor, "1 k"]]:
    """Return the angles of a batch at these mean angles, always with the same draws."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(2, 1, angle_grid.columns + 1, generator=generator, dtype=torch.float64)
    return mu_pos + angle_grid.sigma_pos * z[0], mu_neg + angle_grid.sigma_neg * z[1, :, 1:]
