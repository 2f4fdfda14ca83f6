"""Predictions, their errors and their bootstrap, beside naive loops."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from gradlab import GradlabError
from studies.evidence.declarations import UNTRAINED, read_second_round
from studies.evidence.prediction import (
    CONSTANT,
    DECLARED,
    PREDICTORS,
    by_part,
    errors,
    predicted,
    runs_of,
    summary,
)


@pytest.fixture
def table():
    """Rows of features: six fitted cells, half of them softmaxes, and five losses to be tested."""
    rng = np.random.default_rng(3)
    kinds = ("softmax .05", "uniform")
    labels = [f"none / {kind}, {number}" for kind in kinds for number in range(3)] + list("abcde")
    experiments = ["factorial"] * 6 + ["atlas", "prediction", "atlas", "atlas", "prediction"]
    rows = pd.DataFrame({"part": experiments, "label": labels, "seed": 1})
    for name in ("feature", "alignment", "uniformity", "stsb_dev"):
        rows[name] = rng.normal(size=len(rows))
    rows["learning_rate"] = 10 ** rng.uniform(-5, -3, len(rows))
    return rows


def scored(table, scores):
    """A run a row of features."""
    return table[["part", "label"]].assign(score=scores)


def test_predictions_are_lines_through_the_fitted_cells(table):
    scores = np.random.default_rng(4).normal(50, 8, len(table))
    predictions = predicted(table, scored(table, scores)).set_index("loss")
    fitted, tested = table[:6], table[6:]
    assert set(predictions.index) == set("abcde")
    assert predictions[CONSTANT].to_numpy() == pytest.approx(scores[:3].mean())
    columns = {"feature": lambda t: t.feature, "learning rate": lambda t: np.log(t.learning_rate)}
    for name, of in columns.items():
        line = np.polyfit(of(fitted), scores[:6], 1)
        assert predictions[name][tested.label].to_numpy() == pytest.approx(
            np.polyval(line, of(tested))
        )


def test_cells_that_are_the_same_training_count_once(table):
    runs = scored(table, np.random.default_rng(4).normal(50, 8, len(table)))
    names = {frame: "hard / " + frame[7:] for frame in table.label[:2]}
    once = predicted(table, runs)
    frames = (pd.concat([frame[:2].replace({"label": names}), frame]) for frame in (table, runs))
    twice = predicted(*frames)
    pd.testing.assert_frame_equal(twice, once)


def test_errors_are_over_all_runs_and_over_those_above_the_untrained_encoder(table):
    """Where the feature is right, a rival's error is all excess."""
    predictions = predicted(table, scored(table, 45 + 5 * table.feature.to_numpy()))
    by_predictor = errors(predictions).set_index("predictor")
    assert by_predictor.error["feature"] == pytest.approx(0, abs=1e-9)
    above = predictions.score > UNTRAINED
    assert 0 < above.sum() < len(above)
    for name, row in by_predictor.drop("feature").iterrows():
        wrong = (predictions[name] - predictions.score).to_numpy()
        assert row.error == pytest.approx(np.sqrt((wrong**2).mean()))
        assert row.excess == pytest.approx(-row.error)
        assert row.error_above == pytest.approx(np.sqrt((wrong[above] ** 2).mean()))


def test_a_bootstrap_takes_a_loss_with_all_of_its_runs():
    """Three losses with four, two and one runs, beside a loop over samples."""
    rng = np.random.default_rng(6)
    predictions = pd.DataFrame({"loss": list("aaaabbc"), "score": rng.normal(50, 5, 7)})
    for name in (CONSTANT, *PREDICTORS):
        predictions[name] = predictions.score + rng.normal(0, 4, 7)
    by_predictor = errors(predictions).set_index("predictor")
    names = [CONSTANT, "learning rate"]
    samples = []
    squared = predictions[["feature", *names]].sub(predictions.score, axis=0).to_numpy() ** 2
    for _ in range(4_000):
        drawn_losses = rng.choice(list("abc"), 3)
        rows = np.concatenate([np.flatnonzero(predictions.loss == loss) for loss in drawn_losses])
        feature, *others = np.sqrt(squared[rows].mean(axis=0))
        samples.append([feature - other for other in others])
    samples = pd.DataFrame(samples, columns=names)
    for name in names:
        low, high = samples[name].quantile([0.025, 0.975])
        assert by_predictor.low[name] == pytest.approx(low, abs=0.15 * samples[name].std())
        assert by_predictor.high[name] == pytest.approx(high, abs=0.15 * samples[name].std())


# Losses by what is made to tell their scores: the feature, a rival, both, or nothing.
OUTCOMES = {
    "success": ("feature",),
    "worse than alignment and uniformity": ("alignment", "uniformity"),
    "not told apart from STS-B dev at step 10": ("feature", "stsb_dev"),
    "not told apart from mean of the softmax runs": (),
}


def synthetic(telling):
    """All declared runs of the prediction, and features of which some tell the scores."""
    rng, rows = np.random.default_rng(0), read_second_round()
    trained = {name: rows[name] for name in (*DECLARED.fitted, *DECLARED.tested)}
    runs = runs_of(trained, DECLARED)
    features = runs[["part", "label"]].drop_duplicates().reset_index(drop=True)
    scores = rng.normal(50, 9, len(features))
    for name in ("feature", "alignment", "uniformity", "stsb_dev"):
        noise = rng.normal(size=len(features))
        features[name] = (scores - 50) / 9 + 0.3 * noise if name in telling else noise
    # The declared feature is their mean.
    features["feature_0"] = features.feature - features.uniformity
    features["feature_10"] = features.feature + features.uniformity
    features["learning_rate"] = 10 ** rng.uniform(-5, -3, len(features))
    runs = runs.merge(features.assign(score=scores)[["part", "label", "score"]].rename(
        columns={"score": "mean"}), on=["part", "label"])  # fmt: skip
    runs["score"] = runs["mean"] + rng.normal(size=len(runs))
    return features, runs[["part", "label", "score"]]


@pytest.mark.parametrize(("verdict", "telling"), OUTCOMES.items())
def test_the_declared_prediction_is_judged_as_declared(verdict, telling):
    """The lines of the report, and the errors of each part and step beside lines by numpy."""
    features, runs = synthetic(telling)
    table = predicted(features, runs, DECLARED)
    assert (len(table), table.loss.nunique()) == (174, 46)
    outcome, *lines = summary("declared", errors(table), features, runs, DECLARED)
    assert verdict in outcome
    assert ("no success" in outcome) == (verdict != "success")
    rows = runs.merge(features, on=["part", "label"])
    fitted, tested = rows[rows.part == "surface"], rows[rows.part != "surface"]
    for step in (0, 10):
        own = np.polyfit(fitted[f"feature_{step}"], fitted.score, 1)
        error = np.sqrt(((np.polyval(own, tested[f"feature_{step}"]) - tested.score) ** 2).mean())
        (line,) = (line for line in lines if line.startswith(f"feature after {step} steps"))
        assert f"not declared: {error:.1f}; " in line
    line = np.polyfit(fitted.feature, fitted.score, 1)
    by_experiment = by_part(table).set_index(["part", "predictor"])
    names = ["error", "rank_correlation", "score", "deviation"]
    for experiment in DECLARED.tested:
        own = rows[rows.part == experiment]
        guess = np.polyval(line, own.feature)
        error = np.sqrt(((guess - own.score) ** 2).mean())
        rank = stats.spearmanr(guess, own.score).statistic
        expected = [error, rank, own.score.mean(), np.std(own.score)]
        assert by_experiment.loc[experiment, "feature"][names].to_list() == pytest.approx(expected)
    assert np.isnan(by_experiment.rank_correlation["native", "mean of the softmax runs"])


def test_a_feature_that_is_no_number_is_an_error():
    features, runs = synthetic(("feature",))
    features.loc[features.index[features.part == "native"][-1], "feature"] = np.nan
    with pytest.raises(
        GradlabError, match="of 'native' has no features, or some that are no numbers"
    ):
        predicted(features, runs, DECLARED)
