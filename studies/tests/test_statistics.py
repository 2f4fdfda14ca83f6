"""Intervals and verdicts over seeds, against scipy's tests and simulations with known effects."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from studies.statistics import (
    CONTRADICTED,
    INCONCLUSIVE,
    SUPPORTED,
    Interval,
    judge,
    over_seeds,
    within,
)


def interval(mean, error, seeds=5):
    half = error * stats.t.ppf(0.975, seeds - 1)
    return Interval(mean, mean - half, mean + half, seeds)


def test_the_error_is_that_of_the_values():
    values = np.random.default_rng(0).normal(size=7)
    interval_of_values = over_seeds(values)
    assert interval_of_values.error == pytest.approx(stats.sem(values), rel=1e-12)
    (judged,) = judge([(interval_of_values, 0.3, None)])
    assert judged.p == pytest.approx(stats.ttest_1samp(values, 0.3).pvalue, rel=1e-9)


def test_verdicts_of_one_family():
    means, errors = [4, -4, 0.1, 1.2, 3], [0.2, 0.3, 0.001, 0.5, 9.0]
    family = [interval(mean, error) for mean, error in zip(means, errors, strict=True)]
    judgements = judge(zip(family, [0.0] * 5, [None, None, 1.5, 1.5, None], strict=True))
    verdicts = [SUPPORTED, CONTRADICTED, SUPPORTED, INCONCLUSIVE, INCONCLUSIVE]
    assert [judgement.verdict for judgement in judgements] == verdicts
    plain = 2 * stats.t.sf(np.abs(means) / errors, 4)
    # Holm: the smallest times five, the next times four, and no smaller than those before.
    order = np.argsort(plain)
    expected, before = [0.0] * 5, 0.0
    for rank, place in enumerate(order):
        before = max(before, min(1.0, plain[place] * (5 - rank)))
        expected[place] = before
    assert [judgement.p for judgement in judgements] == pytest.approx(expected)
    equal = [within(0.1, 0.001, 4, 1.5), within(1.2, 0.5, 4, 1.5)]
    # The third differs from 0 and is within its margin: both are said.
    assert [judgement.within_margin for judgement in judgements] == ["", "", "yes", "no", ""]
    assert judgements[2].equivalence == pytest.approx(2 * equal[0])
    assert judgements[3].equivalence == pytest.approx(equal[1])


def test_one_seed_says_nothing():
    (alone,) = judge([(over_seeds([3.0]), 0.0, None)])
    assert alone.verdict == INCONCLUSIVE
    assert math.isnan(alone.p)
    (equal,) = judge([(over_seeds([2.0, 2.0, 2.0]), 0.0, 1.5)])
    assert equal.verdict == SUPPORTED
