"""Relative push, ratio and hardest share of any loss, from one anchor in batches at drawn angles.

These quantities need no formula, so that a loss by name and the same loss given as code have the
same numbers, draw by draw. A loss of one anchor's similarities (a `PairLoss`) is computed from
angles. Any other loss, by name or as code, is differentiated on whole batches of vectors: the
anchor's positive, each negative and each other anchor have a dimension of their own, in which the
anchor's gradient is the vector's coefficient times a sine, so that no system has to be solved.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from gradlab.arrays import Float, divide, finite
from gradlab.batch.batch import Batch
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.errors import GradlabError
from gradlab.gradient.diagnostics import pull_along
from gradlab.gradient.relative_push import AWAY, displaced_positives, largest_size
from gradlab.gradient.vectorised import gradients_at
from gradlab.losses.base import Loss
from gradlab.losses.components import as_share
from gradlab.losses.per_prefix import PerPrefix
from gradlab.seeds import random_generator
from gradlab.simulation.monte_carlo import PASS, Estimate, median_and_error, moments_of
from gradlab.simulation.setting import Setting
from gradlab.waiting import progress_bar

QUANTITIES = ("relative_push", "total_push", "ratio", "hardest_share")
# Distance from 0 and 1 below which a gate counts as closed and open.
SHARP = 1e-6
# Number of gradients from which their number is announced.
MANY = 2000
# Rows of cells of which the push with the positive away has to agree, and up to what relative
# difference, for it to be taken as the same in the whole column.
PROBES, AGREEMENT = 3, 1e-12


class Forces(NamedTuple):
    """What acts on the anchor in each of b batches, (b,) each."""

    push: Float[np.ndarray, "b"]  # total push
    displaced: Float[np.ndarray, "b"]  # largest size of the push with the positive away
    pull: Float[np.ndarray, "b"]
    hardest_share: Float[np.ndarray, "b"]


def sampled(
    loss: Loss,
    setting: Setting,
    *,
    batches: int,
    generator: np.random.Generator | int = 0,
    progress: bool | None = None,
) -> dict[str, Estimate]:
    """Return every quantity of `QUANTITIES` over the grid, and shares of batches.

    ``"open"`` is the share of batches with a relative push of 1, ``"graded"`` the share of those
    in which it is neither 0 nor 1 (up to `SHARP`).

    The push with the positive away is the same for all mean angles of the positives if an anchor's
    push depends on its own row only. It is computed at the first, the last and the middle one, and
    at the others only if these differ.

    All cells use the same draws. The positives' angles are drawn from equal strata of their
    distribution, one batch per stratum, which makes means more accurate than the stated errors.
    """
    generator = random_generator(generator)
    forces = _row_forces(loss) if loss.closed_form else None
    if forces is None:
        _check_directions(setting)
        forces = _vector_forces(loss, setting)
        announce(loss, setting, batches, progress)
    positive, negative = draw(setting, batches, generator)
    shape = (setting.mu_pos.size, setting.mu_neg.size, batches)
    push, displaced, pull, share = (np.empty(shape) for _ in range(4))
    with progress_bar(None, progress, total=shape[0] * shape[1], unit="cell") as bar:
        for column, mean in enumerate(setting.mu_neg):
            forces_at = forces(setting.means(mean) + setting.spreads * negative)
            for row in _probes_first(setting.mu_pos.size):
                at, near = (row, column), setting.mu_pos[row] + setting.sigma_pos * positive
                push[at], displaced[at], pull[at], share[at] = forces_at(near)
                bar.update()
    relative = as_share(push, displaced)
    relative[np.isnan(relative)] = 0.0  # no negative acts
    open_, closed = np.abs(relative) > 1 - SHARP, np.abs(relative) < SHARP
    means = {name: moments_of(values) for name, values in (("relative", relative), ("push", push))}
    passing = moments_of(finite(share), (relative >= PASS) & np.isfinite(share))
    mean = np.where(passing.count > 0, passing.mean, np.nan)  # no batch passes: NaN
    return {
        "relative_push": Estimate(means["relative"].mean, means["relative"].standard_error),
        "total_push": Estimate(means["push"].mean, means["push"].standard_error),
        "ratio": Estimate(*median_and_error(divide(pull, push))),
        "hardest_share": Estimate(mean, passing.standard_error, passing.count / batches),
        "open": Estimate(open_.mean(-1)),
        "graded": Estimate((~open_ & ~closed).mean(-1)),
    }


def _probes_first(rows: int) -> list[int]:
    """Return row numbers with the first, the last and the middle row in front."""
    return list(dict.fromkeys([0, rows - 1, rows // 2, *range(rows)]))


def draw(
    setting: Setting, batches: int, generator: np.random.Generator
) -> tuple[Float[np.ndarray, "b sentences"], Float[np.ndarray, "b k"]]:
    """Draw standard normal deviations of the angles of all positives and of the negatives."""
    from scipy.special import ndtri  # the import takes a sixth of a small simulation

    positive = generator.standard_normal((batches, 1 + setting.columns))
    strata = (generator.permutation(batches) + generator.random(batches)) / batches
    positive[:, 0] = ndtri(strata)
    return positive, generator.standard_normal((batches, setting.columns))


def announce(loss: Loss, setting: Setting, batches: int, progress: bool | None) -> None:
    """Say on standard error how many gradients will be computed, if there are many.

    For a loss given as code, which takes seconds to minutes, that is said without a terminal too,
    unless ``progress`` is False.
    """
    gradients = (1 + len(AWAY)) * setting.mu_pos.size * setting.mu_neg.size * batches
    visible = progress or (progress is None and (not loss.closed_form or sys.stderr.isatty()))
    if gradients >= MANY and visible:
        print(
            f"{loss}: up to {gradients:,} gradients of batches of {setting.columns + 1} sentences "
            f"({setting.mu_pos.size} x {setting.mu_neg.size} cells, {batches} batches); "
            "fewer cells cost less",
            file=sys.stderr,
        )


# Forces at angles to the positives, (b, sentences), and a function of angles to the negatives,
# (b, k), that returns them.
ForcesAt = Callable[[Float[np.ndarray, "b sentences"]], Forces]
ForcesOf = Callable[[Float[np.ndarray, "b k"]], ForcesAt]


def _row_forces(loss: Loss) -> ForcesOf | None:
    """Return the forces in closed form; None if the similarities of one row do not tell them."""
    row: Any = loss.row_loss()
    if row is None:
        return None
    away = [PairSimilarity.from_angles(np.array(angle)) for angle in AWAY]

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


def _vector_forces(loss: Loss, setting: Setting) -> ForcesOf:
    """Return the forces from gradients of the loss on whole batches of vectors."""
    if setting.own_negatives:
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
        loss.components_of(_small_batch(setting))  # a clear error for unsuitable losses
        value = loss.in_double()  # type: ignore[attr-defined]  # of a loss given as code

    def with_anchor(leaf: Tensor, near: Tensor, far: Tensor) -> Tensor:
        anchors, positives = views(near, far)
        return value(torch.cat([leaf[None], anchors[1:]]), positives)

    def forces(far: Float[np.ndarray, "b k"]) -> ForcesAt:
        batches, count = far.shape
        all_negatives = torch.from_numpy(np.concatenate([far] * (1 + len(AWAY))))
        all_leaves = torch.zeros(len(all_negatives), 2 + 2 * count, dtype=torch.float64)
        all_leaves[:, 0] = 1.0
        entries = 2 * (1 + count) ** 2
        probes: list[np.ndarray] = []  # displaced pushes of the first rows of cells

        def at(near: Float[np.ndarray, "b sentences"]) -> Forces:
            away = () if _agree(probes) else AWAY
            moved = [near.copy() for _ in away]
            for rows, angle in zip(moved, away, strict=True):
                rows[:, 0] = angle
            angles = torch.from_numpy(np.concatenate([near, *moved]))
            negatives, leaves = all_negatives[: len(angles)], all_leaves[: len(angles)]
            angle_pairs = (angles, negatives)
            gradients = gradients_at(
                with_anchor, leaves, angle_pairs, entries=entries, progress=False
            )
            # Each vector's entry in its own dimension is the sine of its angle.
            pull, across, within = torch.split(gradients[:, 1:], [1, count, count], dim=1)
            same = within / angles[:, 1:].sin()
            pushes = (across / negatives.sin() - same * angles[:, 1:].cos() + same).numpy()
            total, sizes = pushes.sum(1), np.abs(pushes[:batches])
            if away:
                displaced = np.abs(total[batches:]).reshape(len(away), batches).max(0)
                if len(probes) < PROBES:
                    probes.append(displaced)
            else:
                displaced = probes[0]
            return Forces(
                total[:batches],
                displaced,
                -pull[:batches, 0].numpy() / np.sin(near[:, 0]),
                divide(sizes.max(1), sizes.sum(1)),
            )

        return at

    return forces


def _agree(probes: list[np.ndarray]) -> bool:
    """Return whether the displaced pushes of all `PROBES` rows of cells are the same."""
    if len(probes) < PROBES:
        return False
    size = np.abs(probes).max()
    return bool(np.abs(np.subtract(probes[1:], probes[0])).max() <= AGREEMENT * size)


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
                for angle in AWAY:
                    moved = positives.copy()
                    moved[0] = displaced_positives(anchors[:1], positives[:1], angle)[0]
                    pushes.append(abs(loss.components_of(Batch(anchors, moved)).total_push[0]))
                batches.append(
                    (
                        components.total_push[0],
                        max(pushes),
                        pull_along(components)[0],
                        components.hardest_share[0],
                    )
                )
            return Forces(*np.array(batches).T)

        return at

    return forces


@functools.cache
def _rotation(dimensions: int) -> Float[np.ndarray, "{dimensions} {dimensions}"]:
    drawn = np.random.default_rng(1).standard_normal((dimensions, dimensions))
    return np.linalg.qr(drawn)[0]


def _check_directions(setting: Setting) -> None:
    for name in ("pos", "neg"):
        at_an_end = bool((np.abs(np.sin(getattr(setting, f"mu_{name}"))) < 1e-6).any())
        if at_an_end and getattr(setting, f"sigma_{name}") == 0:
            raise GradlabError(
                f"mu_{name} of 0 or π with no spread leaves the gradient without a direction; "
                f"give sigma_{name}"
            )


def _small_batch(setting: Setting) -> Batch:
    generator = torch.Generator().manual_seed(0)
    count = min(setting.negatives, 7)
    z = torch.randn(2, count + 1, generator=generator, dtype=torch.float64)
    return Batch(*views(0.5 + setting.sigma_pos * z[0], 1.0 + setting.sigma_neg * z[1, 1:]))


def views(
    positive: Float[Tensor, "sentences"], negative: Float[Tensor, "k"]
) -> tuple[Float[Tensor, "sentences d"], Float[Tensor, "sentences d"]]:
    """Return anchors and positives of 1 + K sentences in 2 + 2K dimensions.

    The angles are those of each anchor to its positive, and of the first anchor to the positives of
    the others.
    """
    count = len(negative)
    angles = torch.cat([positive[:1], negative])
    positives = pad(torch.cat([angles.cos()[:, None], torch.diag(angles.sin())], 1), (0, count))
    own = pad(torch.diag(positive[1:].sin()), (2 + count, 0))
    remaining = positive[1:].cos()[:, None] * positives[1:] + own
    first = pad(torch.ones_like(positive[:1])[:, None], (0, 1 + 2 * count))
    return torch.cat([first, remaining]), positives
