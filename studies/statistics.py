"""Intervals and verdicts, from one number a seed.

An interval over seeds says what another training would give; one over sentences, what other
sentences would give with the same trainings. Two runs of one seed share data and order, so that
they are no independent replicates: a contrast is first taken within each seed, and Student's t is
then taken over all seeds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

LEVEL = 0.95
# Bootstrap samples of sentences.
RESAMPLES = 2000
SUPPORTED, CONTRADICTED = "supported", "contradicted"
INCONCLUSIVE, NOT_JUDGED = "inconclusive", "not judged"
OVER_SEEDS, OVER_SENTENCES = "over seeds", "over sentences"
Array = NDArray[Any]


def six(value: Any) -> Any:
    """A float with six significant digits, far more than seeds agree in; anything else as it is."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


@dataclasses.dataclass(frozen=True)
class Interval:
    """A mean with its 95% interval, NaN where that does not exist.

    ``count`` is of the seeds or sentences that it is over, and ``p`` the two-sided p-value of "the
    mean is 0", for intervals over seeds.
    """

    mean: float
    low: float
    high: float
    count: int
    kind: str = OVER_SEEDS
    p: float = math.nan

    def columns(self, *names: str) -> dict[str, float]:
        """Mean, low, high and count as columns of a table, as far as names are given."""
        return dict(zip(names, (self.mean, self.low, self.high, self.count), strict=False))

    @property
    def error(self) -> float:
        """Standard error of a mean over seeds, read off its interval.

        A table on file is thus judged as its values are.
        """
        if self.count < 2:
            return math.nan
        return (self.high - self.low) / 2 / float(stats.t.ppf((1 + LEVEL) / 2, self.count - 1))


def over_seeds(values: Sequence[float] | Array) -> Interval:
    """Student's t interval of the mean of one value a seed; on differences, the paired t test.

    With one value there is no interval, and without any no mean; values that are NaN do not count.
    """
    numbers = np.asarray(values, dtype=float)
    numbers = numbers[~np.isnan(numbers)]
    count = len(numbers)
    if count < 2:
        return Interval(float(numbers[0]) if count else math.nan, math.nan, math.nan, count)
    mean = float(numbers.mean())
    if np.ptp(numbers) == 0:
        return Interval(mean, mean, mean, count, p=float(mean == 0))
    test = stats.ttest_1samp(numbers, 0)
    low, high = test.confidence_interval(LEVEL)
    return Interval(mean, float(low), float(high), count, p=float(test.pvalue))


def over_sentences(values: Sequence[Array]) -> Interval:
    """Percentile bootstrap, of `RESAMPLES`, of the mean over seeds of the mean over sentences.

    Trainings are taken as they are and sentences are drawn anew, for each seed its own. Values are
    one a sentence, for each seed.
    """
    generator = np.random.default_rng(0)
    drawn = np.mean([_resampled_means(np.asarray(v), generator) for v in values], axis=0)
    mean = float(np.mean([np.mean(v) for v in values]))
    return Interval(mean, *percentiles(drawn), sum(map(len, values)), OVER_SENTENCES)


def percentiles(samples: Array) -> tuple[float, float]:
    """Ends of the percentile interval of bootstrap samples."""
    low, high = np.quantile(samples, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def spearman_difference_over_sentences(
    first: Sequence[Array], second: Sequence[Array], gold: Array, resamples: int = 1000
) -> Interval:
    """Percentile bootstrap over sentence pairs of a difference of two Spearman correlations.

    ``first`` and ``second`` are, for each seed, the cosines (n,) of the same pairs by two encoders,
    ``gold`` their gold scores (n,). The difference is the mean over seeds; each bootstrap sample
    draws pairs, the same for all encoders.
    """
    generator = np.random.default_rng(0)
    draws = generator.integers(0, len(gold), (resamples, len(gold)))

    def difference(index: Array) -> Array:
        answers = _ranks(gold[index])
        by_seed = [
            _correlation(_ranks(plus[index]), answers) - _correlation(_ranks(minus[index]), answers)
            for plus, minus in zip(first, second, strict=True)
        ]
        mean: Array = np.mean(by_seed, axis=0)
        return mean

    mean = float(difference(np.arange(len(gold))[None])[0])
    return Interval(mean, *percentiles(difference(draws)), len(gold), OVER_SENTENCES)


class Judgement(NamedTuple):
    """Two statements on one of several claims that are judged together.

    ``verdict`` says whether the mean differs from its threshold, with the two-sided ``p``;
    ``within_margin`` ("yes" or "no", empty without a margin), whether it was shown to lie within
    the margin, with the p ``equivalence``. Both are after Holm's correction. A difference may be
    clear of 0 and within the margin: real, and too small to matter.
    """

    verdict: str
    p: float
    equivalence: float

    @property
    def within_margin(self) -> str:
        """Whether the mean was shown to lie within the margin."""
        if math.isnan(self.equivalence):
            return ""
        return "yes" if self.equivalence < 1 - LEVEL else "no"


def judge(claims: Iterable[tuple[Interval, float, float | None]]) -> list[Judgement]:
    """Judge one family of claims, with Holm's correction over all of them.

    A claim is *supported* or *contradicted* if its mean differs from its threshold, else
    *inconclusive*; so is whatever has fewer than two seeds. Tests of equivalence are a family of
    their own, and change no verdict. A claim has its interval over seeds, what the mean is compared
    with, and the margin; None where nobody has said what would matter.
    """
    family = [
        (interval.mean - threshold, interval, margin) for interval, threshold, margin in claims
    ]
    p = _holm([_two_sided(difference, interval) for difference, interval, _ in family])
    equivalence = _holm(
        [
            within(difference, interval.error, interval.count - 1, margin)
            for difference, interval, margin in family
        ]
    )
    return [
        Judgement(_verdict(difference, adjusted), adjusted, equal)
        for (difference, _, _), adjusted, equal in zip(family, p, equivalence, strict=True)
    ]


def within(estimate: float, error: float, freedom: float, margin: float | None) -> float:
    """The larger p of the two one-sided t tests that an estimate lies within ±``margin``.

    NaN without a margin or without an error.
    """
    if margin is None or math.isnan(error):
        return math.nan
    if error == 0:
        return float(abs(estimate) >= margin)
    return float(stats.t.sf((margin - abs(estimate)) / error, freedom))


def along_line(fitted: Any, outcome: Any, tested: Any) -> Array:
    """Outcomes of tested rows (m, k), by least squares with a constant on fitted rows (n, k)."""
    design, rows = (
        np.column_stack([np.ones(len(columns)), np.asarray(columns, dtype=float)])
        for columns in (fitted, tested)
    )
    coefficients = np.linalg.lstsq(design, np.asarray(outcome, dtype=float), rcond=None)[0]
    predictions: Array = rows @ coefficients
    return predictions


def root_mean_square(values: Array, axis: int = -1) -> Any:
    """Size of errors."""
    return np.sqrt(np.mean(values**2, axis=axis))


def _two_sided(difference: float, interval: Interval) -> float:
    if math.isnan(interval.error):
        return math.nan
    if interval.error == 0:
        return float(difference == 0)
    return 2 * float(stats.t.sf(abs(difference) / interval.error, interval.count - 1))


def _holm(p: Sequence[float]) -> list[float]:
    from statsmodels.stats.multitest import multipletests

    adjusted = np.array(p, dtype=float)
    tested = ~np.isnan(adjusted)
    if tested.any():
        adjusted[tested] = multipletests(adjusted[tested], method="holm")[1]
    return adjusted.tolist()


def _verdict(difference: float, p: float) -> str:
    if p < 1 - LEVEL:
        return SUPPORTED if difference > 0 else CONTRADICTED
    return INCONCLUSIVE


def _resampled_means(values: Array, generator: np.random.Generator) -> Array:
    # Row by row: all index arrays at once would fill the memory for many sentences.
    rows = (generator.integers(0, len(values), len(values)) for _ in range(RESAMPLES))
    return np.array([values[chosen].mean() for chosen in rows])


def _ranks(values: Array) -> Array:
    ranks: Array = stats.rankdata(values, axis=1)
    return ranks - ranks.mean(axis=1, keepdims=True)


def _correlation(first: Array, second: Array) -> Array:
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    correlation: Array = (first * second).sum(axis=1) / norms
    return correlation
