"""The statistics of the evidence against brute force and simulated data whose effects are known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from gradlab import GradlabError
from gradlab.papers.unified.evidence.statistics import (
    CellMeans,
    Effect,
    judge_effects,
    noncentrality,
    permutation_test,
    shapley_weights,
    variance_shares,
)
from gradlab.papers.unified.judgement import CONTRADICTED, INCONCLUSIVE, NO_EFFECT, SUPPORTED


def simulate(rng, seeds=6, noise=1.0, between=0.7, effects=None):
    """3 x 2 cells; ``effects`` maps (a, b) to a mean."""
    rows = []
    for seed in range(seeds):
        shift = rng.normal(0, between)
        for a, b in itertools.product("xyz", "pq"):
            mean = (effects or {}).get((a, b), 0.0)
            rows.append(
                {"a": a, "b": b, "cell": a + b, "seed": seed, "score": mean + shift + rng.normal(0, noise)}
            )
    return pd.DataFrame(rows)


def test_a_contrast_is_the_paired_t_test_where_there_are_two_cells():
    rng = np.random.default_rng(0)
    table = simulate(rng)
    table = table[table.cell.isin(["xp", "yp"])]
    effect = CellMeans(table).effect("difference", {"xp": 1, "yp": -1})
    wide = table.pivot(index="seed", columns="cell", values="score")
    expected = stats.ttest_rel(wide.xp, wide.yp)
    assert effect.estimate == pytest.approx((wide.xp - wide.yp).mean())
    assert effect.freedom == expected.df
    assert effect.p == pytest.approx(expected.pvalue, rel=1e-3)
    interval = expected.confidence_interval()
    assert (effect.low, effect.high) == pytest.approx((interval.low, interval.high), rel=1e-3)


def test_intervals_and_tests_hold_what_they_promise():
    """Over 200 simulated studies with a known difference; binomial bounds of five standard deviations."""
    rng = np.random.default_rng(1)
    covered = false = equivalent = 0
    for _ in range(200):
        table = simulate(rng, effects={("x", "p"): 0.8, ("x", "q"): 0.8})
        model = CellMeans(table)
        effect = model.effect("x - y", {"xp": 0.5, "xq": 0.5, "yp": -0.5, "yq": -0.5})
        covered += effect.low <= 0.8 <= effect.high
        false += model.effect("y - z", {"yp": 0.5, "yq": 0.5, "zp": -0.5, "zq": -0.5}).p < 0.05
        # A difference of exactly the margin is found to be within it in one of twenty.
        equivalent += (
            model.effect("x - y", {"xp": 0.5, "xq": 0.5, "yp": -0.5, "yq": -0.5}, margin=0.8).equivalence
            < 0.05
        )
    spread = 5 * math.sqrt(200 * 0.05 * 0.95)
    assert abs(covered - 190) < spread
    assert abs(false - 10) < spread
    assert abs(equivalent - 10) < spread


def test_standard_deviations_of_runs_and_of_seeds_are_found():
    table = simulate(np.random.default_rng(2), seeds=150, noise=1.0, between=0.7)
    model = CellMeans(table)
    assert model.residual == pytest.approx(1.0, rel=0.1)
    assert model.seed == pytest.approx(0.7, rel=0.2)


def test_shares_of_variance_against_sums_written_out():
    effects = {("x", "p"): 3.0, ("x", "q"): 1.0, ("y", "p"): 0.5}
    table = simulate(np.random.default_rng(3), seeds=5, effects=effects)
    found = variance_shares(table, ["a", "b"]).set_index("term")
    y = table.score
    grand = y.mean()
    by = {
        name: ((table.groupby(name).score.transform("mean") - grand) ** 2).sum()
        for name in ("a", "b", "seed")
    }
    cells = ((table.groupby("cell").score.transform("mean") - grand) ** 2).sum()
    squares = {
        "a": (by["a"], 2),
        "b": (by["b"], 1),
        "a x b": (cells - by["a"] - by["b"], 2),
        "seed": (by["seed"], 4),
    }
    total = ((y - grand) ** 2).sum()
    residual = (total - sum(value for value, _ in squares.values())) / 20
    for name, (value, df) in squares.items():
        assert found.loc[name, "F"] == pytest.approx(value / df / residual), name
        assert found.loc[name, "omega2"] == pytest.approx((value - df * residual) / (total + residual)), name
    assert found.omega2.sum() == pytest.approx(1)
    assert list(found.index)[-2:] == ["seed", "residual"]


def test_intervals_of_shares_cover_the_true_share():
    """Of the variance of cells with these means, noise 1 and no seeds: known."""
    effects = {("x", "p"): 1.0, ("x", "q"): 1.0}
    share = np.var([1, 1, 0, 0, 0, 0])  # of factor a
    true, rng = share / (share + 1), np.random.default_rng(4)
    inside = 0
    for _ in range(100):
        row = (
            variance_shares(simulate(rng, between=0.0, effects=effects), ["a", "b"])
            .set_index("term")
            .loc["a"]
        )
        inside += row.low <= true <= row.high
    assert abs(inside - 95) < 5 * math.sqrt(100 * 0.05 * 0.95)


def test_shares_are_of_complete_seeds():
    table = simulate(np.random.default_rng(5))
    with pytest.raises(GradlabError, match="every cell with every seed"):
        variance_shares(table.iloc[:-1], ["a", "b"])
    with pytest.raises(GradlabError, match="add seeds"):
        CellMeans(table[table.seed == 0])


def test_noncentrality_is_what_makes_the_statistic_likely():
    low, high = noncentrality(8.0, 2, 40)
    assert stats.ncf.cdf(8.0, 2, 40, low) == pytest.approx(0.975)
    assert stats.ncf.cdf(8.0, 2, 40, high) == pytest.approx(0.025)
    assert noncentrality(0.5, 2, 40)[0] == 0


@pytest.mark.parametrize("parts", [("gate", "ratio"), ("gate", "weight", "ratio")])
def test_shapley_values_are_means_over_all_orders(parts):
    rng = np.random.default_rng(6)
    value = {
        frozenset(chosen): rng.normal()
        for size in range(len(parts) + 1)
        for chosen in itertools.combinations(parts, size)
    }
    weights = shapley_weights(parts)
    total = 0.0
    for part in parts:
        gains = []
        for order in itertools.permutations(parts):
            before = frozenset(order[: order.index(part)])
            gains.append(value[before | {part}] - value[before])
        mine = sum(factor * value[coalition] for coalition, factor in weights[part].items())
        assert mine == pytest.approx(np.mean(gains))
        total += mine
    assert total == pytest.approx(value[frozenset(parts)] - value[frozenset()])


def effect(estimate, p, equivalence=1.0):
    return Effect("e", estimate, 1.0, 10.0, 0.0, 0.0, p, equivalence)


def test_verdicts():
    effects = [effect(2, 0.001), effect(-2, 0.01), effect(0.1, 0.2, 0.01), effect(1, 0.03), effect(3, 0.9)]
    found = judge_effects(effects, [1, 1, 1, 1, 1])
    # Holm: 5·.001, 4·.01, 3·.03, then no smaller than those before.
    assert [one.adjusted for one in found] == pytest.approx([0.005, 0.04, 0.4, 0.09, 0.9])
    assert [one.verdict for one in found] == [SUPPORTED, CONTRADICTED, NO_EFFECT, INCONCLUSIVE, INCONCLUSIVE]
    tiny = judge_effects([effect(0.2, 1e-9, 1e-9)], [1])[0]
    assert tiny.verdict == NO_EFFECT  # certain, and too small to matter


def test_the_permutation_test_counts_every_order():
    truth = np.array([1.0, 2.0, 3.0, 4.0])

    def error(predicted):
        return float(((predicted - truth) ** 2).sum())

    assert permutation_test(error, truth) == pytest.approx(1 / 24)
    assert permutation_test(error, truth[::-1]) == 1
    assert permutation_test(error, [2.5] * 4) == 1
