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
NO_EFFECT, INCONCLUSIVE = "no effect of that size", "inconclusive"
OVER_SEEDS, OVER_SENTENCES = "over seeds", "over sentences"
Array = NDArray[Any]


def six(value: Any) -> Any:
    """A float with six significant digits, far more than seeds agree in; anything else as it is."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


@dataclasses.dataclass(frozen=True)
class Interval:
    """A mean with its 95% interval.

    Attributes:
        low, high: its ends; NaN where it does not exist.
        count: of the seeds or sentences that it is over.
        kind: :data:`OVER_SEEDS` or :data:`OVER_SENTENCES`.
        p: two-sided p-value of "the mean is 0", for intervals over seeds.
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
        each = [
            _correlation(_ranks(one[index]), answers) - _correlation(_ranks(other[index]), answers)
            for one, other in zip(first, second, strict=True)
        ]
        mean: Array = np.mean(each, axis=0)
        return mean

    mean = float(difference(np.arange(len(gold))[None])[0])
    return Interval(mean, *percentiles(difference(draws)), len(gold), OVER_SENTENCES)


class Judged(NamedTuple):
    """The verdict on one of several claims that are judged together.

    ``p`` is two-sided, of no difference from the threshold; ``equivalence`` is the p of the
    difference not being within the margin, NaN without one. Both are after Holm's correction.
    """

    verdict: str
    p: float
    equivalence: float


def judge(claims: Iterable[tuple[Interval, float, float | None]]) -> list[Judged]:
    """Verdicts on one family of claims, with Holm's correction over all of them.

    Tests of equivalence are a family of their own. Equivalence comes first: an effect shown to be
    within its margin is *no effect of that size*, whatever its sign. Otherwise it is *supported* or
    *contradicted* if it differs from its threshold, else *inconclusive*; so is whatever has fewer
    than two seeds.

    Args:
        claims: of each its interval over seeds, what the mean is compared with, and the margin;
            None where nobody has said what would matter.
    """
    family = [(one.mean - threshold, one, margin) for one, threshold, margin in claims]
    p = _holm([_two_sided(above, one) for above, one, _ in family])
    equal = _holm([within(above, one.error, one.count - 1, most) for above, one, most in family])
    return [
        Judged(_verdict(above, of_claim, of_margin), of_claim, of_margin)
        for (above, _, _), of_claim, of_margin in zip(family, p, equal, strict=True)
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


def along_line(known: Any, outcome: Any, new: Any) -> Array:
    """Outcomes of new rows (m, k), by least squares with a constant on known rows (n, k)."""
    design, rows = (
        np.column_stack([np.ones(len(one)), np.asarray(one, dtype=float)]) for one in (known, new)
    )
    found: Array = rows @ np.linalg.lstsq(design, np.asarray(outcome, dtype=float), rcond=None)[0]
    return found


def _two_sided(difference: float, interval: Interval) -> float:
    if math.isnan(interval.error):
        return math.nan
    if interval.error == 0:
        return float(difference == 0)
    return 2 * float(stats.t.sf(abs(difference) / interval.error, interval.count - 1))


def _holm(p: Sequence[float]) -> list[float]:
    from statsmodels.stats.multitest import multipletests

    adjusted = np.array(p, dtype=float)
    known = ~np.isnan(adjusted)
    if known.any():
        adjusted[known] = multipletests(adjusted[known], method="holm")[1]
    return adjusted.tolist()


def _verdict(above: float, p: float, equivalence: float) -> str:
    if equivalence < 1 - LEVEL:
        return NO_EFFECT
    if p < 1 - LEVEL:
        return SUPPORTED if above > 0 else CONTRADICTED
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
