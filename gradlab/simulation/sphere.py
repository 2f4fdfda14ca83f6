"""Whole batches of unit vectors with given angles, for losses that compare sentences within a view.

A loss such as MHE or VICReg depends on the angles between anchors. These cannot be drawn one by
one. The mean pairwise cosine of N unit vectors is at least ``-1/(N - 1)``, because
``|Σ h_i|² >= 0``, so a batch of 128 cannot have a mean angle much above π/2. Angles drawn
independently from a normal distribution of realistic width fit no set of vectors. `sample_views`
builds vectors, and refuses angles that it cannot build.

Anchors are ``h_i = √a u + √b p_i + √t q_i`` with ``a + b + t = 1`` in three orthogonal subspaces.
The common direction ``u`` sets the mean angle. ``p_i`` is uniform on the sphere of ``n`` dimensions
and sets the spread, because ``p_i·p_j`` has mean 0 and variance ``1/n``. ``q_i`` is a remainder;
without it, ``cos Θ_ij = a + (1 - a) p_i·p_j`` and the angle has mean ``μ = arccos a`` and spread

    σ = (1 - cos μ) / (sin μ √n) = tan(μ/2) / √n

to leading order. With ``n = D - 1`` this is the natural spread of random vectors. A wider spread
takes fewer dimensions for ``p_i``, and ``q_i`` uniform on the sphere of the remaining ones. A
narrower spread, or a mean angle above π/2, takes ``q_i`` with equal angles to each other, which
needs N dimensions. In each case the mean and the variance of the *cosines* are exactly those of
``cos Θ`` for ``Θ ~ N(μ_neg, σ_neg²)``.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from gradlab.arrays import Float, unit_rows
from gradlab.batch.similarity import PairSimilarity
from gradlab.errors import GradlabError, check_whole
from gradlab.seeds import random_generator

# In fewer dimensions the density of p_i·p_j is flat (3) or has two peaks (2, 1): far from normal.
LEAST_DIMENSIONS = 4


@dataclasses.dataclass(frozen=True)
class AngleReport:
    """Mean and standard deviation of realised angles, in radians."""

    positive: tuple[float, float]  #: of anchors to their own positives
    same_view: tuple[float, float]  #: of anchors to other anchors
    other_view: tuple[float, float]  #: of anchors to the positives of other anchors

    def __str__(self) -> str:
        angles = {name: f"{mean:.4f} ± {spread:.4f}" for name, (mean, spread) in vars(self).items()}
        return "\n".join(f"{name:<10} {angle} rad" for name, angle in angles.items())


class SampledViews(NamedTuple):
    """Two views of b batches, (b, n, d) each, float64 with unit rows."""

    anchors: Float[np.ndarray, "b n d"]
    positives: Float[np.ndarray, "b n d"]

    def angles(self) -> AngleReport:
        """Return mean and spread of the realised angles over all batches."""
        count = self.anchors.shape[1]
        pairs, off_diagonal = np.triu_indices(count, 1), ~np.eye(count, dtype=bool)
        own = PairSimilarity.from_vectors(self.anchors, self.positives).angle
        within_view = _angles(self.anchors, self.anchors)[:, *pairs]
        to_others = _angles(self.anchors, self.positives)[:, off_diagonal]
        return AngleReport(
            *((float(np.mean(a)), float(np.std(a))) for a in (own, within_view, to_others))
        )


def sample_views(
    mu_pos: float,
    mu_neg: float,
    batch_size: int = 128,
    dim: int = 768,
    *,
    sigma_pos: float = 0.05,
    sigma_neg: float | None = None,
    batches: int = 1,
    seed: int | np.random.Generator = 0,
) -> SampledViews:
    """Sample anchors and positives with given angles; the result unpacks as ``anchors, positives``.

    Anchor-positive angles are drawn from ``N(μ_pos, σ_pos²)`` and folded to [0, π]; their
    directions are uniformly random. Anchor-anchor angles have mean ``μ_neg`` and spread ``σ_neg``,
    as the module describes. They determine the angles of anchors to the positives of others; see
    `other_view_cosine`. One random rotation serves all batches of a call, which share the common
    direction like the batches of one encoder.

    Args:
        mu_pos: mean anchor-positive angle, radians, in [0, π].
        mu_neg: mean angle between the anchors of a batch, radians, in (0, arccos(-1/(N - 1))].
        batch_size: number of sentences N, at least 2.
        dim: number of dimensions D, at least 5.
        sigma_pos: spread of the anchor-positive angle, radians.
        sigma_neg: spread of the anchor-anchor angle, radians; None for the natural spread
            ``tan(μ_neg/2)/√(D - 1)``, or above π/2 for the widest possible spread.
        batches: number of batches.
        seed: a whole number, or a generator to draw from.

    Raises:
        GradlabError: N vectors cannot have these angles, this construction cannot give them in
            ``dim`` dimensions (the message says what is possible), or one of the other arguments is
            out of range.
    """
    check_whole("batch_size", batch_size, 2)
    check_whole("dim", dim, 5)
    check_whole("batches", batches, 1)
    if not 0 <= mu_pos <= math.pi:
        raise GradlabError(f"mu_pos must be an angle in [0, π] radians, not {mu_pos!r}")
    if not 0 < mu_neg <= math.pi:
        raise GradlabError(f"mu_neg must be an angle in (0, π] radians, not {mu_neg!r}")
    for name, spread in (("sigma_pos", sigma_pos), ("sigma_neg", sigma_neg)):
        if spread is not None and not 0 <= spread < math.inf:
            raise GradlabError(f"{name} must be a spread in radians of at least 0, not {spread!r}")
    rng = random_generator(seed)
    limit = math.acos(-1 / (batch_size - 1))
    if mu_neg > limit + 1e-12:
        raise GradlabError(
            f"mu_neg = {mu_neg:.4g} is impossible: {batch_size} unit vectors cannot have "
            f"a mean angle above arccos(-1/{batch_size - 1}) = {limit:.4g} to each other; "
            "lower mu_neg or batch_size"
        )
    choose = _below_right_angle if mu_neg <= math.pi / 2 else _above_right_angle
    recipe = choose(mu_neg, sigma_neg, batch_size, dim)
    anchors = _anchors(recipe, batches, batch_size, dim, rng)
    # Angles outside [0, π] need no folding: the cosine folds them, the direction is symmetric.
    angle = rng.normal(mu_pos, sigma_pos, (batches, batch_size, 1))
    direction = rng.standard_normal(anchors.shape)
    direction -= np.sum(direction * anchors, axis=-1, keepdims=True) * anchors
    positives = np.cos(angle) * anchors + np.sin(angle) * unit_rows(direction)
    return SampledViews(anchors, positives)


def other_view_cosine(
    mu_pos: float,
    mu_neg: float,
    dim: int = 768,
    sigma_pos: float = 0.05,
    sigma_neg: float | None = None,
) -> tuple[float, float]:
    """Return mean and standard deviation of ``cos θ_ij'``, anchor to another sentence's positive.

    ``h_j' = cos θ_j h_j + sin θ_j t_j`` with a uniform direction ``t_j`` orthogonal to ``h_j``, so

        cos θ_ij' = cos θ_j cos Θ_ij + sin θ_j sin Θ_ij ξ,   E ξ = 0,   E ξ² = 1/(D - 1),

    with ``ξ`` independent of the rest. Other-view angles centre near
    ``arccos(cos μ_pos cos μ_neg)``, closer to π/2 than ``μ_neg``. The numbers are exact for
    `sample_views` with these arguments; for the natural spread, ``sigma_neg=None``, they are exact
    to leading order in the spread.

    Raises:
        GradlabError: ``mu_neg`` is above π/2 and ``sigma_neg`` is None.
    """
    if sigma_neg is None:
        if mu_neg > math.pi / 2:
            raise GradlabError("above π/2 there is no natural spread; give sigma_neg")
        sigma_neg = math.tan(mu_neg / 2) / math.sqrt(dim - 1)
    mean, _, spread = _cosine_moments(mu_pos, sigma_pos)
    other_mean, _, other_spread = _cosine_moments(mu_neg, sigma_neg)
    p, n = mean**2 + spread, other_mean**2 + other_spread
    variance = mean**2 * other_spread + spread * n + (1 - p) * (1 - n) / (dim - 1)
    return mean * other_mean, math.sqrt(variance)


@dataclasses.dataclass(frozen=True)
class _Recipe:
    """Squared lengths of the parts of an anchor, which sum to 1, and their dimensions."""

    common: float  # a
    random: float  # b
    random_dim: int  # n
    remainder: float = 0.0  # t
    #: cosine of two remainders; None if they are uniform on the other dimensions
    remainder_cosine: float | None = None


def _below_right_angle(mu: float, sigma: float | None, count: int, dim: int) -> _Recipe:
    free = dim - 1
    natural = math.tan(mu / 2) / math.sqrt(free)
    mean, share, variance = _cosine_moments(mu, natural if sigma is None else sigma)
    if sigma is None:
        return _Recipe(mean, share, free)
    if share**2 > variance * free:  # narrower than random vectors are
        room = free - count
        if room < (LEAST_DIMENSIONS if variance > 0 else 0):
            raise GradlabError(
                f"sigma_neg = {sigma:.4g} is narrower than random vectors are in {dim} dimensions "
                f"({natural:.4g} at mu_neg = {mu:.4g}), "
                f"which takes dim >= {count + 1 + LEAST_DIMENSIONS} for {count} vectors"
            )
        random = math.sqrt(variance * room)
        return _Recipe(mean, random, room, share - random, 0.0)
    inner = int(share**2 / variance)
    if inner < LEAST_DIMENSIONS:
        raise GradlabError(
            f"sigma_neg = {sigma:.4g} is too wide at mu_neg = {mu:.4g}; at most about "
            f"tan(mu_neg/2)/2 = {math.tan(mu / 2) / 2:.4g}"
        )
    outer = free - inner
    if outer == 0:
        return _Recipe(mean, share, inner)
    # The larger root of b²/inner + (share - b)²/outer = variance.
    root = math.sqrt(max(variance * (inner + outer) - share**2, 0.0) / (inner * outer))
    random = (share / outer + root) * inner * outer / (inner + outer)
    return _Recipe(mean, random, inner, share - random)


def _above_right_angle(mu: float, sigma: float | None, count: int, dim: int) -> _Recipe:
    """Return a recipe with a negative mean cosine, >= -1/(N - 1), from the equiangular part."""
    room = dim - count
    if room < (0 if sigma in (None, 0) else LEAST_DIMENSIONS):
        raise GradlabError(
            f"mu_neg = {mu:.4g} above π/2 takes dim >= {count} for {count} vectors, and >= "
            f"{count + LEAST_DIMENSIONS} with a spread; dim is {dim}"
        )
    if sigma is None:
        mean = math.cos(mu)
        random = max(1 + mean * (count - 1), 0.0) if room >= LEAST_DIMENSIONS else 0.0
    else:
        mean, _, variance = _cosine_moments(mu, sigma)
        random = math.sqrt(variance * room)
        if random > 1 + mean * (count - 1) + 1e-12:
            raise GradlabError(
                f"sigma_neg = {sigma:.4g} is too wide at mu_neg = {mu:.4g}, "
                f"where {count} vectors have almost no freedom; "
                "leave sigma_neg out for the widest, or lower mu_neg"
            )
    return _Recipe(0.0, random, room, 1 - random, max(mean / (1 - random), -1 / (count - 1)))


def _cosine_moments(mu: float, sigma: float) -> tuple[float, float, float]:
    """Return mean, 1 - mean (accurate near 0) and variance of ``cos Θ``, ``Θ ~ N(mu, sigma²)``."""
    half, shrink = -math.expm1(-(sigma**2) / 2), -math.expm1(-(sigma**2))
    mean = math.cos(mu) * (1 - half)
    one_minus_mean = 2 * math.sin(mu / 2) ** 2 + math.cos(mu) * half
    return mean, one_minus_mean, shrink * (math.sin(mu) ** 2 + math.cos(2 * mu) * shrink / 2)


def _anchors(
    recipe: _Recipe, batches: int, count: int, dim: int, rng: np.random.Generator
) -> Float[np.ndarray, "{batches} {count} {dim}"]:
    """Build the parts of the anchors in blocks of coordinates, then rotate all rows at random."""
    rows = np.zeros((batches, count, dim))
    rows[..., 0] = math.sqrt(recipe.common)
    start = 1 if recipe.common > 0 else 0
    middle = start + recipe.random_dim
    if recipe.random > 0:
        random = unit_rows(rng.standard_normal((batches, count, recipe.random_dim)))
        rows[..., start:middle] = math.sqrt(recipe.random) * random
    if recipe.remainder > 0:
        if recipe.remainder_cosine is None:
            remainder = unit_rows(rng.standard_normal((batches, count, dim - middle)))
        else:
            remainder = _equiangular(count, recipe.remainder_cosine)
        rows[..., middle : middle + remainder.shape[-1]] = math.sqrt(recipe.remainder) * remainder
    basis, upper = np.linalg.qr(rng.standard_normal((dim, dim)))
    basis *= np.sign(np.diagonal(upper))  # uniform over rotations and reflections
    turned: np.ndarray = unit_rows(rows @ basis)
    return turned


def _equiangular(count: int, cosine: float) -> Float[np.ndarray, "{count} {count}"]:
    """Return N unit rows of pairwise cosine in [-1/(N - 1), 0]: their Gram matrix's square root."""
    smallest = max(1 + cosine * (count - 1), 0.0)
    shrink = 1 - math.sqrt(smallest / (1 - cosine))
    return math.sqrt(1 - cosine) * (np.eye(count) - shrink / count)


def _angles(
    first: Float[np.ndarray, "b n d"], second: Float[np.ndarray, "b n d"]
) -> Float[np.ndarray, "b n n"]:
    # Rounding can exceed ±1; clipping is accurate enough for a report.
    angle: np.ndarray = np.arccos((first @ np.swapaxes(second, 1, 2)).clip(-1, 1))
    return angle
