"""Sampling: the independent check of the exact engine, and the engine of every other quantity.

Common random numbers: one set of standard normal draws serves every cell of the grid. A loss takes all
it needs of its negatives through one summary a batch, which depends on μ_neg only, so 100 x 1000 x 127
exponentials serve a 100 x 100 grid. Each cell has the standard error of independent sampling; the
errors of neighbouring cells are correlated.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from gradlab.arrays import Array, Bool, Float, Int, divide, finite, take, to_numpy
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.errors import GradlabError
from gradlab.losses.base import PairLoss
from gradlab.simulation.setting import Setting
from gradlab.waiting import progress_bar

DRAWS_A_BLOCK = 1 << 22  # normal draws held at a time (32 MiB)
PASS = 0.01  # a batch counts for the hardest share if its dissipation reaches this


Grid = Float[np.ndarray, "p q"]
Column = Float[np.ndarray, "p"]


@dataclasses.dataclass(frozen=True)
class Estimate:
    """An estimate, its standard error (None if it is exact), and for conditional means how often the condition held."""

    value: Grid
    standard_error: Grid | None = None
    pass_probability: Grid | None = None


class Sampling(NamedTuple):
    """How many batches are drawn, from what and on which device, and whether a bar is shown (None: on a terminal)."""

    batches: int
    generator: np.random.Generator
    device: str
    progress: bool | None


@dataclasses.dataclass(frozen=True)
class Draws:
    """Draws of b batches: standard normal ones of positives, and of negatives σz, cos σz and sin σz."""

    positive: Float[Array, "b"]
    change: Float[Array, "b k"]
    cosine: Float[Array, "b k"]
    sine: Float[Array, "b k"]

    def negatives(self, means: Float[np.ndarray, "k"]) -> Negatives:
        """Negatives, (b, k), at mean angles, by the addition theorem."""
        xp = array_namespace(self.change)
        mu = xp.asarray(means, device=self.change.device)
        cosine = xp.cos(mu) * self.cosine - xp.sin(mu) * self.sine

        def measure(index: Int[Array, "b"]) -> PairSimilarity:
            return PairSimilarity.from_angles(mu[index] + take(self.change, index))

        return Negatives(
            cosine, measure, gaps=lambda sign: PairSimilarity.from_angles(mu + self.change).gap(sign)
        )


def mean_dissipation(loss: PairLoss, setting: Setting, sampling: Sampling) -> Estimate:
    """Mean gradient dissipation. Where all batches of a gate agree the error is a bound, not zero."""

    def samples(positive: PairSimilarity, negatives: Negatives) -> Samples:
        return loss.dissipation(positive, loss.summary(negatives)), None

    moments = _accumulate(setting, samples, sampling)
    error = moments.standard_error
    if moments.binary:
        # In a unanimous cell: the standard deviation of p after n equal outcomes under a flat prior.
        n, p = moments.count, moments.mean
        error = np.sqrt(p * (1 - p) / n)
        error[(p == 0) | (p == 1)] = np.sqrt((n + 1) / ((n + 2) ** 2 * (n + 3)))[(p == 0) | (p == 1)]
    return Estimate(moments.mean, error)


def mean_hardest_share(loss: PairLoss, setting: Setting, sampling: Sampling) -> Estimate:
    """Mean of ``max_j |W|/Σ_j |W|`` over the batches with GD >= 0.01; NaN where there is none."""

    def samples(positive: PairSimilarity, negatives: Negatives) -> Samples:
        xp = array_namespace(negatives.cosine)
        weight = xp.abs(
            loss.weight(negatives)
        )  # of signed weights the sizes, as in `Components.hardest_share`
        share = divide(xp.max(weight, axis=-1), xp.sum(weight, axis=-1))  # 0/0 where nothing is pushed
        passes = loss.dissipation(positive, loss.summary(negatives)) >= PASS
        return finite(share), passes & xp.isfinite(share)

    moments = _accumulate(setting, samples, sampling)
    return Estimate(moments.mean, moments.standard_error, moments.count / sampling.batches)


def median_ratio(loss: PairLoss, setting: Setting, sampling: Sampling) -> Estimate:
    """Median of the ratio, whose mean does not exist; the error from the order statistics around it."""
    if sampling.batches * setting.columns > 32 * DRAWS_A_BLOCK:
        raise GradlabError("a median needs all batches in memory; lower batches or negatives")
    (draws,) = _draw(setting, sampling, sampling.batches)
    positive = _positives(setting, draws)
    shape = (setting.mu_pos.size, setting.mu_neg.size)
    value, error = np.empty(shape), np.empty(shape)
    for column, mu in enumerate(progress_bar(setting.mu_neg, sampling.progress, unit="column")):
        summary = loss.summary(draws.negatives(setting.means(mu)))
        ratio = to_numpy(_broadcast(loss.ratio(positive, summary), positive))
        value[:, column], error[:, column] = median_and_error(ratio)
    return Estimate(value, error)


def median_and_error(
    values: Float[np.ndarray, "*n b"],
) -> tuple[Float[np.ndarray, "*n"], Float[np.ndarray, "*n"]]:
    """The median of each row, and half the way between the order statistics of a standard deviation on either side; NaN where both are infinite."""
    ordered, count = np.sort(values, axis=-1), values.shape[-1]
    half = max(1, round(np.sqrt(count) / 2))  # one binomial standard deviation in ranks
    low, high = max(0, count // 2 - half), min(count - 1, count // 2 + half)
    with np.errstate(invalid="ignore"):  # inf - inf
        return np.median(ordered, axis=-1), (ordered[..., high] - ordered[..., low]) / 2


@dataclasses.dataclass
class _Moments:
    """Running count, mean and sum of squared deviations of each cell, merged block by block."""

    count: Grid
    mean: Grid
    squares: Grid
    binary: bool = True

    def merge(self, column: int, count: Column, mean: Column, squares: Column) -> None:
        before = self.count[:, column].copy()
        total = before + count
        with np.errstate(invalid="ignore"):  # 0/0: no batch has counted yet
            share = np.where(total > 0, count / total, 0.0)
        start = np.where(before > 0, self.mean[:, column], 0)
        delta = np.where(count > 0, mean - start, 0)
        self.squares[:, column] += np.where(count > 0, squares, 0) + delta**2 * share * before
        self.mean[:, column] = np.where(total > 0, start + delta * share, np.nan)
        self.count[:, column] = total

    @property
    def standard_error(self) -> Grid:
        with np.errstate(invalid="ignore", divide="ignore"):  # fewer than two batches: NaN
            error: np.ndarray = np.sqrt(self.squares / (self.count - 1) / self.count)
        return error


# Values, which are the same for all positives where they lack their axis, and which of them count.
Samples = tuple[Float[Array, "*#n"], Bool[Array, "*#n"] | None]


def _accumulate(
    setting: Setting, samples: Callable[[PairSimilarity, Negatives], Samples], sampling: Sampling
) -> _Moments:
    shape = (setting.mu_pos.size, setting.mu_neg.size)
    moments = _Moments(np.zeros(shape), np.full(shape, np.nan), np.zeros(shape))
    block = max(1, DRAWS_A_BLOCK // setting.columns)
    blocks = -(-sampling.batches // block)
    threads = (os.cpu_count() or 1) if sampling.device == "cpu" else 1
    with (
        progress_bar(None, sampling.progress, total=blocks * shape[1], unit="column") as bar,
        ThreadPoolExecutor(threads) as pool,
    ):
        for draws in _draw(setting, sampling, block):
            positive = _positives(setting, draws)

            def column_of(mu: float, draws: Draws = draws, positive: PairSimilarity = positive) -> Any:
                values, counts = samples(positive, draws.negatives(setting.means(mu)))
                return _summarise(_broadcast(values, positive), counts)

            for column, (count, mean, squares, binary) in enumerate(pool.map(column_of, setting.mu_neg)):
                moments.merge(column, count, mean, squares)
                moments.binary &= binary
                bar.update()
    return moments


def _summarise(
    values: Float[Array, "p b"], counts: Bool[Array, "p b"] | None
) -> tuple[Column, Column, Column, bool]:
    """Count, mean and squared deviations of each row, over the entries that count; and whether all are 0 or 1."""
    xp = array_namespace(values)
    if counts is None:
        mean = xp.mean(values, axis=1)
        squares = xp.sum((values - mean[:, None]) ** 2, axis=1)
        count = np.full(values.shape[0], float(values.shape[1]))
    else:
        kept = xp.astype(counts, values.dtype)
        count_here = xp.sum(kept, axis=1)
        count = to_numpy(count_here)
        safe = xp.where(count_here > 0, count_here, xp.ones_like(count_here))
        mean = xp.sum(values * kept, axis=1) / safe
        squares = xp.sum(kept * (values - mean[:, None]) ** 2, axis=1)
    binary = bool(xp.all((values == 0) | (values == 1)))
    return count, to_numpy(mean), to_numpy(squares), binary


def _draw(setting: Setting, sampling: Sampling, block: int) -> Iterator[Draws]:
    """Blocks of draws; the numbers are numpy's on every device, so a seed means the same everywhere."""
    for start in range(0, sampling.batches, block):
        size = min(block, sampling.batches - start)
        positive: Any = sampling.generator.standard_normal(size)
        change: Any = setting.spreads * sampling.generator.standard_normal((size, setting.columns))
        if sampling.device != "cpu":
            import torch

            positive, change = (torch.from_numpy(x).to(sampling.device) for x in (positive, change))
        xp = array_namespace(change)
        yield Draws(positive, change, xp.cos(change), xp.sin(change))


def _positives(setting: Setting, draws: Draws) -> PairSimilarity:
    """Of the drawn angles, (p, b)."""
    mu: Any = setting.mu_pos[:, None]
    if not isinstance(draws.positive, np.ndarray):
        mu = draws.positive.new_tensor(mu)
    return PairSimilarity.from_angles(mu + setting.sigma_pos * draws.positive)


def _broadcast(values: Float[Array, "..."], positive: PairSimilarity) -> Float[Array, "p b"]:
    return array_namespace(values).broadcast_to(values, positive.chord.shape)
