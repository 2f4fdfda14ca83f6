"""Monte Carlo: an independent check of the exact engine, and the engine for all other quantities.

All cells of the grid use the same standard normal draws. A loss reads its negatives through one
summary per batch, which depends on μ_neg only, so a 100 x 100 grid with 1,000 batches of 127
negatives needs only 100 x 1000 x 127 exponentials. Each cell has the standard error of independent
sampling; the errors of neighbouring cells are correlated.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, Int, divide, finite, take, to_numpy
from gradlab.batch.similarity import AllCosines, Negatives, PairSimilarity
from gradlab.errors import GradlabError
from gradlab.losses.pair_loss import PairLoss
from gradlab.progress_bars import progress_bar
from gradlab.seeds import random_generator
from gradlab.simulation.grid_and_result import AngleGrid

DRAWS_A_BLOCK = 1 << 22  # normal draws held at a time (32 MiB)
# Batches per cell, where not given, and those of a loss that is differentiated.
BATCHES, BATCHES_OF_GRADIENTS = 1000, 8
PASS = 0.01  # smallest dissipation at which a batch counts for the hardest share
Grid = Float[np.ndarray, "p q"]


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A value, its standard error (None if exact), and the probability of a mean's condition."""

    value: Grid
    standard_error: Grid | None = None
    pass_probability: Grid | None = None


class Sampling(NamedTuple):
    """Batch count, source and device of the draws, whether to show a bar (None: on a terminal)."""

    batches: int
    generator: np.random.Generator
    device: str
    progress: bool | None
    seed: int | None  #: None for a generator that came without its seed

    @classmethod
    def create(
        cls, batches: int, seed: int | np.random.Generator, device: str, progress: bool | None
    ) -> Self:
        """Return a sampling with numpy's generator for a seed, or with the one passed."""
        number = int(seed) if isinstance(seed, (int, np.integer)) else None
        return cls(int(batches), random_generator(seed), device, progress, number)

    @property
    def settings(self) -> dict[str, Any]:
        """What a result says of its draws."""
        return {"batches": self.batches, "seed": self.seed, "device": self.device}


@dataclasses.dataclass(frozen=True)
class Draws:
    """Draws of b batches: standard normal z of positives; σz, cos σz and sin σz of negatives."""

    positive: Float[Array, "b"]
    change: Float[Array, "b k"]
    cosine: Float[Array, "b k"]
    sine: Float[Array, "b k"]

    def negatives(self, means: Float[np.ndarray, "k"]) -> Negatives:
        """Return negatives around mean angles, (b, k), by the addition theorem of the cosine."""
        xp = array_namespace(self.change)
        mu = xp.asarray(means, device=self.change.device)
        cosine = xp.cos(mu) * self.cosine - xp.sin(mu) * self.sine

        def measure(index: Int[Array, "b"]) -> PairSimilarity:
            return PairSimilarity.from_angles(mu[index] + take(self.change, index))

        def gaps(sign: int) -> Float[Array, "b k"]:
            return PairSimilarity.from_angles(mu + self.change).gap(sign)

        return AllCosines(cosine, measure, gaps=gaps)


def mean_dissipation(loss: PairLoss, angle_grid: AngleGrid, sampling: Sampling) -> Estimate:
    """Return the mean gradient dissipation; a gate's error stays positive if all batches agree."""

    def samples(positive: PairSimilarity, negatives: Negatives) -> Samples:
        return loss.dissipation(positive, loss.summary(negatives)), None

    moments = _accumulate(angle_grid, samples, sampling)
    error = moments.standard_error
    if moments.binary:
        # In a unanimous cell, use the standard deviation of the probability p after n equal
        # outcomes under a flat prior.
        n, p = moments.count, moments.mean
        bound = np.sqrt((n + 1) / ((n + 2) ** 2 * (n + 3)))
        error = np.where((p == 0) | (p == 1), bound, np.sqrt(p * (1 - p) / n))
    return Estimate(moments.mean, error)


def mean_hardest_share(loss: PairLoss, angle_grid: AngleGrid, sampling: Sampling) -> Estimate:
    """Return the mean of ``max_j |W|/Σ_j |W|`` over batches with GD >= 0.01; NaN if none passes."""

    def samples(positive: PairSimilarity, negatives: Negatives) -> Samples:
        xp = array_namespace(negatives.cosine)
        # Absolute values for signed weights, as in `Components.hardest_share`.
        weight = xp.abs(loss.weight(negatives))
        share = divide(xp.max(weight, axis=-1), xp.sum(weight, axis=-1))  # 0/0 if all are 0
        passes = loss.dissipation(positive, loss.summary(negatives)) >= PASS
        return finite(share), passes & xp.isfinite(share)

    moments = _accumulate(angle_grid, samples, sampling)
    return Estimate(moments.mean, moments.standard_error, moments.count / sampling.batches)


def median_ratio(loss: PairLoss, angle_grid: AngleGrid, sampling: Sampling) -> Estimate:
    """Return the median of the ratio, which has no mean; order statistics give the error."""
    if sampling.batches * angle_grid.columns > 32 * DRAWS_A_BLOCK:
        raise GradlabError("a median needs all batches in memory; lower batches or negatives")
    (draws,) = _draw(angle_grid, sampling, sampling.batches)
    positive = _positives(angle_grid, draws)
    shape = (angle_grid.mu_pos.size, angle_grid.mu_neg.size)
    value, error = np.empty(shape), np.empty(shape)
    for column, mu in enumerate(progress_bar(angle_grid.mu_neg, sampling.progress, unit="column")):
        summary = loss.summary(draws.negatives(angle_grid.means(mu)))
        ratio = to_numpy(_broadcast(loss.ratio(positive, summary), positive))
        value[:, column], error[:, column] = median_and_error(ratio)
    return Estimate(value, error)


def median_and_error(
    values: Float[np.ndarray, "*n b"],
) -> tuple[Float[np.ndarray, "*n"], Float[np.ndarray, "*n"]]:
    """Return the median of each row and its error; NaN where both order statistics are infinite.

    Values that are NaN do not count. The error is half the distance between the order statistics
    one standard deviation of ranks below and above.
    """
    ordered, count = np.sort(values, axis=-1), np.sum(~np.isnan(values), axis=-1)  # NaN come last
    half = np.maximum(1, np.round(np.sqrt(count) / 2)).astype(int)  # a binomial standard deviation

    def at(rank: Int[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        place = np.clip(rank, 0, np.maximum(count - 1, 0))[..., None]
        return np.take_along_axis(ordered, place, axis=-1)[..., 0]

    with np.errstate(invalid="ignore"):  # inf - inf
        median = at((count - 1) // 2) / 2 + at(count // 2) / 2
        return median, (at(count // 2 + half) - at(count // 2 - half)) / 2


class Moments(NamedTuple):
    """Count, mean (NaN of none), sum of squared deviations of values; whether all are 0 or 1."""

    count: Any
    mean: Any
    squares: Any
    binary: bool

    @property
    def standard_error(self) -> Any:
        # NaN for fewer than two values.
        return np.sqrt(divide(divide(self.squares, self.count - 1), self.count))


# Values, without the positives' axis if they do not depend on it, and a mask of those that count.
Samples = tuple[Float[Array, "*#n"], Bool[Array, "*#n"] | None]


def moments_of(values: Float[Array, "*n b"], counts: Bool[Array, "*n b"] | None = None) -> Moments:
    """Return the moments of each row's entries that count, or of all; the mean of none is 0."""
    xp = array_namespace(values)
    binary = bool(xp.all((values == 0) | (values == 1)))
    if counts is None:
        mean = xp.mean(values, axis=-1)
        count = xp.full_like(mean, values.shape[-1])
        squares = xp.sum((values - mean[..., None]) ** 2, axis=-1)
    else:
        selected = xp.astype(counts, values.dtype)
        count = xp.sum(selected, axis=-1)
        mean = xp.sum(values * selected, axis=-1) / xp.where(count > 0, count, xp.ones_like(count))
        squares = xp.sum(selected * (values - mean[..., None]) ** 2, axis=-1)
    return Moments(to_numpy(count), to_numpy(mean), to_numpy(squares), binary)


def _accumulate(
    angle_grid: AngleGrid,
    samples: Callable[[PairSimilarity, Negatives], Samples],
    sampling: Sampling,
) -> Moments:
    """Return the moments of each cell, (p, q)."""
    block = max(1, DRAWS_A_BLOCK // angle_grid.columns)
    blocks, columns = -(-sampling.batches // block), angle_grid.mu_neg.size
    threads = (os.cpu_count() or 1) if sampling.device == "cpu" else 1
    per_block: list[Moments] = []  # of each block and column, (p,)
    with (
        progress_bar(None, sampling.progress, total=blocks * columns, unit="column") as bar,
        ThreadPoolExecutor(threads) as pool,
    ):
        for draws in _draw(angle_grid, sampling, block):
            positive = _positives(angle_grid, draws)

            def moments(mu: float, draws: Draws = draws, positive: Any = positive) -> Moments:
                values, counts = samples(positive, draws.negatives(angle_grid.means(mu)))
                return moments_of(_broadcast(values, positive), counts)

            for column_moments in pool.map(moments, angle_grid.mu_neg):
                per_block.append(column_moments)
                bar.update()
    *fields, binary = zip(*per_block, strict=True)
    shape = blocks, columns, -1
    count, mean, squares = (np.reshape(field, shape).swapaxes(1, 2) for field in fields)
    total = count.sum(axis=0)
    merged = divide((count * mean).sum(axis=0), total)
    return Moments(total, merged, (squares + count * (mean - merged) ** 2).sum(axis=0), all(binary))


def _draw(angle_grid: AngleGrid, sampling: Sampling, block: int) -> Iterator[Draws]:
    """Yield blocks of draws; numpy draws them, so a seed gives the same numbers on every device."""
    for start in range(0, sampling.batches, block):
        size = min(block, sampling.batches - start)
        positive: Any = sampling.generator.standard_normal(size)
        change: Any = angle_grid.spreads * sampling.generator.standard_normal(
            (size, angle_grid.columns)
        )
        if sampling.device != "cpu":
            import torch

            positive, change = (torch.from_numpy(x).to(sampling.device) for x in (positive, change))
        xp = array_namespace(change)
        yield Draws(positive, change, xp.cos(change), xp.sin(change))


def _positives(angle_grid: AngleGrid, draws: Draws) -> PairSimilarity:
    """Return the similarities at the positives' drawn angles, (p, b)."""
    mu: Any = angle_grid.mu_pos[:, None]
    if not isinstance(draws.positive, np.ndarray):
        mu = draws.positive.new_tensor(mu)
    return PairSimilarity.from_angles(mu + angle_grid.sigma_pos * draws.positive)


def _broadcast(values: Float[Array, "..."], positive: PairSimilarity) -> Float[Array, "p b"]:
    return array_namespace(values).broadcast_to(values, positive.chord.shape)


# Estimate of each quantity, from a loss, a grid of angles and a sampling.
ESTIMATES = {
    "gradient_dissipation": mean_dissipation,
    "hardest_share": mean_hardest_share,
    "ratio": median_ratio,
}
