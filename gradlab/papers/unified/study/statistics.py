"""Intervals: over seeds, which say what another training would give, and over sentences, which say what others would."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

LEVEL = 0.95
OVER_SEEDS, OVER_SENTENCES = "over seeds", "over sentences"
Array = NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Interval:
    """A mean with its 95% interval.

    Attributes:
        mean: the estimate.
        low, high: ends of the interval; NaN where it does not exist.
        count: of the values that it is over: seeds, or sentences.
        kind: :data:`OVER_SEEDS` or :data:`OVER_SENTENCES`.
        p: two-sided p-value of "the mean is 0", for intervals over seeds.
    """

    mean: float
    low: float
    high: float
    count: int
    kind: str = OVER_SEEDS
    p: float = math.nan


def over_seeds(values: Sequence[float] | Array) -> Interval:
    """Student's t interval of the mean of one value a seed; of differences, this is the paired t test.

    With one value there is no interval, and without any no mean; values that are NaN do not count.
    """
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    if len(known) < 2:
        return Interval(float(known[0]) if len(known) else math.nan, math.nan, math.nan, len(known))
    mean = float(known.mean())
    if np.ptp(known) == 0:
        return Interval(mean, mean, mean, len(known), p=float(mean == 0))
    test = stats.ttest_1samp(known, 0)
    low, high = test.confidence_interval(LEVEL)
    return Interval(mean, float(low), float(high), len(known), p=float(test.pvalue))


def over_sentences(values: Sequence[Array], resamples: int = 2000, seed: int = 0) -> Interval:
    """Percentile bootstrap of the mean over seeds of the mean over sentences.

    Trainings are taken as they are and sentences are drawn anew, for each seed its own.

    Args:
        values: for each seed, one value a sentence.
        resamples: bootstrap samples.
        seed: of the bootstrap.
    """
    generator = np.random.default_rng(seed)
    drawn = np.mean([_resampled_means(np.asarray(v), resamples, generator) for v in values], axis=0)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    mean = float(np.mean([np.mean(v) for v in values]))
    return Interval(mean, float(low), float(high), sum(len(v) for v in values), OVER_SENTENCES)


def spearman_difference_over_sentences(
    first: Sequence[Array], second: Sequence[Array], gold: Array, resamples: int = 1000, seed: int = 0
) -> Interval:
    """Percentile bootstrap over sentence pairs of the mean over seeds of a difference of two Spearman correlations.

    Args:
        first, second: for each seed, the cosines (n,) of the same pairs by two encoders.
        gold: their gold scores (n,).
        resamples: bootstrap samples; each draws pairs, the same for all encoders.
        seed: of the bootstrap.
    """
    generator = np.random.default_rng(seed)
    draws = generator.integers(0, len(gold), (resamples, len(gold)))
    whole = np.arange(len(gold))[None]

    def difference(index: Array) -> Array:
        answers = _ranks(gold[index])
        each = [
            _correlation(_ranks(one[index]), answers) - _correlation(_ranks(other[index]), answers)
            for one, other in zip(first, second, strict=True)
        ]
        mean: Array = np.mean(each, axis=0)
        return mean

    low, high = np.quantile(difference(draws), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(difference(whole)[0]), float(low), float(high), len(gold), OVER_SENTENCES)


def _resampled_means(values: Array, resamples: int, generator: np.random.Generator) -> Array:
    # Row by row: all index arrays at once would fill the memory for many sentences.
    return np.array(
        [values[generator.integers(0, len(values), len(values))].mean() for _ in range(resamples)]
    )


def _ranks(values: Array) -> Array:
    ranks: Array = stats.rankdata(values, axis=1)
    return ranks - ranks.mean(axis=1, keepdims=True)


def _correlation(first: Array, second: Array) -> Array:
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    correlation: Array = (first * second).sum(axis=1) / norms
    return correlation
