"""The response surface: what the models say of surfaces that are known."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from studies.evidence import surface
from studies.evidence.declarations import DESIGNS, SECOND_ROUND, read_second_round

ROWS = read_second_round()["surface"]


def synthetic(score):
    """The committed rows' factors with other scores.

    They are a function of the logarithms of temperature, ratio and rate, and of the open share.
    """
    rng = np.random.default_rng(0)
    shares = rng.uniform(0.1, 1, len(ROWS))
    scores = []
    for label, share in zip(ROWS.label, shares, strict=True):
        settings = dict(word.split("=") for word in label.partition(": ")[2].split())
        logs = [math.log(float(settings[name])) for name in ("τ", "r", "rate")]
        scores.append((score(*logs, share) + rng.normal()) / 100)
    return surface.factors_of(ROWS.assign(sts=scores, open_share=shares))


def bends(temperature, ratio, rate, share):
    return 60 - 4 * (temperature + 2) ** 2 - 2 * (rate + 9) ** 2 + 8 * share


@pytest.fixture
def errors(monkeypatch):
    """Errors by model of a surface, over four folds, which take a third of the time of ten."""
    monkeypatch.setattr(surface, "FOLDS", 4)
    return lambda score: surface.ten_fold(synthetic(score)).set_index("model").error


def test_factors_are_those_that_the_runs_had():
    """Those that the declaration's Sobol sequence begins with, within its ranges."""
    table = surface.factors_of(ROWS)
    for name, ends in DESIGNS["surface"]["sobol"].items():
        if isinstance(ends, list):
            assert ends[0] <= table[name].min() < table[name].max() <= ends[1]
            places = np.log(table[name] / ends[0]) / math.log(ends[1] / ends[0])
            assert stats.kstest(places, "uniform").statistic < 0.05  # points at random: about .12
    row, label = table.iloc[7], ROWS.label[7]
    settings = f"τ={row.temperature:g} r={row.ratio:g} m={row.margin:g} rate={row.learning_rate:g}"
    assert label.partition(": ")[2] == settings
    assert table.score[7] == pytest.approx(100 * ROWS.sts[7])


def test_an_additive_surface_is_told_to_the_noise(errors):
    """Of size 1; the runs that a model was not fitted on cannot be told better."""
    error_of = errors(bends)
    assert error_of["mean"] > 5
    assert 0.9 < error_of["additive"] < 1.6
    assert 0.9 < error_of["Gaussian process"] < 2.2
    # The ratio has no influence; the temperature has.
    assert error_of["Gaussian process without ratio"] < 2.2
    assert error_of["Gaussian process without temperature"] > 3
    # The open share has; the margin in its place has not.
    assert error_of["additive with the logarithm of the margin"] > 2


def test_an_interaction_is_told_by_the_process_alone(errors):
    error_of = errors(
        lambda temperature, ratio, rate, share: 50 + 3 * (temperature + 2) * (rate + 9)
    )
    assert error_of["additive"] > 4 > 2 > error_of["Gaussian process"]


def test_the_first_of_the_committed_splits_is_the_one_of_the_report():
    splits = pd.read_csv(SECOND_ROUND / "surface-splits.csv")
    errors = pd.read_csv(SECOND_ROUND / "surface-errors.csv")
    assert list(splits.split.unique()) == list(range(surface.SPLITS))
    pd.testing.assert_frame_equal(splits[splits.split == 0].drop(columns="split"), errors)
