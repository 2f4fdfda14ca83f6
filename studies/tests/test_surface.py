"""The response surface: what the models find of surfaces that are known."""

import numpy as np
import pandas as pd
import pytest

from studies.second_round import declarations, surface
from studies.second_round.results import write_results

DESIGN = declarations.declaration()["parts"]["surface"]["sobol"]


def synthetic(score):
    """Committed rows of the declared runs.

    Scores are a function of the logarithms of temperature, ratio and rate.
    """
    points, rng = declarations.sobol_points(DESIGN), np.random.default_rng(0)
    shares = rng.uniform(0.1, 1, len(points))
    rows = []
    for point, share in zip(points, shares, strict=True):
        temperature = float(point["loss_settings.weight"].partition("=")[2].strip(")"))
        logs = np.log([temperature, point["loss_settings.ratio"], point["learning_rate"]])
        sts = (score(*logs, share) + rng.normal()) / 100
        rows.append((point["label"], 11, "finished", sts, 0.5, share, "", ""))
    return pd.DataFrame(rows, columns=declarations.COLUMNS)


def bends(temperature, ratio, rate, share):
    return 60 - 4 * (temperature + 2) ** 2 - 2 * (rate + 9) ** 2 + 8 * share


def errors(score):
    return surface.ten_fold(surface.factors_of(synthetic(score))).set_index("model").error


def test_factors_are_those_that_the_runs_had():
    table = surface.factors_of(synthetic(bends))
    row, label = table.iloc[7], declarations.sobol_points(DESIGN)[7]["label"]
    settings = f"τ={row.temperature:g} r={row.ratio:g} m={row.margin:g} rate={row.learning_rate:g}"
    assert label == f"7: {settings}"
    assert table.score[7] == pytest.approx(100 * synthetic(bends).sts[7])


def test_an_additive_surface_is_found_to_the_noise():
    """Of size 1; the runs that a model was not fitted on cannot be told better."""
    error_of = errors(bends)
    assert error_of["mean"] > 5
    assert 0.9 < error_of["additive"] < 1.6
    assert 0.9 < error_of["Gaussian process"] < 2.2
    # The ratio has no part in it; the temperature has.
    assert error_of["Gaussian process without ratio"] < 2.2
    assert error_of["Gaussian process without temperature"] > 3
    # The open share has; the margin in its place has not.
    assert error_of["additive with the logarithm of the margin"] > 2


def test_an_interaction_is_found_by_the_process_alone():
    error_of = errors(
        lambda temperature, ratio, rate, share: 50 + 3 * (temperature + 2) * (rate + 9)
    )
    assert error_of["additive"] > 4 > 2 > error_of["Gaussian process"]


def test_curves_are_the_surface_up_to_a_constant():
    table = surface.factors_of(synthetic(bends))
    lines = surface.curves(table)
    for model in ("additive", "Gaussian process"):
        curve = lines[(lines.model == model) & (lines.factor == "temperature")]
        expected = -4 * (np.log(curve.value.to_numpy()) + 2) ** 2
        off = curve.score.to_numpy() - expected
        assert np.ptp(expected) > 15
        assert np.ptp(off) < 4, model


def test_the_report_has_errors_curves_and_a_picture(tmp_path):
    synthetic(bends).to_csv(tmp_path / "surface.csv", index=False)
    lines = list(write_results(tmp_path))
    assert any(line.startswith("additive: error 1.") for line in lines)
    assert (tmp_path / "surface.png").stat().st_size > 0
    assert set(pd.read_csv(tmp_path / "surface-curves.csv").factor) == set(surface.FACTORS)


def test_the_first_of_the_committed_splits_is_the_one_of_the_report():
    splits = pd.read_csv(declarations.ROWS / "surface-splits.csv")
    errors = pd.read_csv(declarations.ROWS / "surface-errors.csv")
    assert list(splits.split.unique()) == list(range(surface.SPLITS))
    pd.testing.assert_frame_equal(splits[splits.split == 0].drop(columns="split"), errors)
