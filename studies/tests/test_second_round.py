"""The second round: declared parts are valid sweeps, and rows are judged as declared."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

import gradlab
from gradlab import GradlabError
from gradlab.sweep import unflatten
from studies.analyses.distance import traceable_distance
from studies.second_round import declarations, over_rates, results
from studies.second_round.results import CLAIMS, write_results

DESIGNS = declarations.declared_parts()


def synthetic_rows(experiment, score, columns=("label", "seed", "sts")):
    """Rows of all declared runs; ``score(label, seed)`` gives what follows these two columns."""
    points = declarations.sweep_of(experiment).points({})
    runs = [(point.title(), seed) for point in points for seed in point.seeds]
    return pd.DataFrame([(*run, *score(*run)) for run in runs], columns=columns)


@pytest.mark.parametrize("experiment", [name for name in DESIGNS if "sobol" not in DESIGNS[name]])
def test_every_part_is_a_valid_sweep_in_one_precision(experiment):
    spec = declarations.sweep_of(experiment, {"backbone": "bert-base"})
    spec.check()
    points = spec.points({})
    half = experiment in declarations.declaration(declarations.TABLES)["parts"]
    precision = "bfloat16" if half and experiment != "fgsm" else "float32"
    assert {point.settings["precision"] for point in points} == {precision}
    labels = [point.title() for point in points]
    assert len(set(labels)) == len(labels)
    for contrast in declarations.contrasts_of(experiment):
        at_best = DESIGNS[experiment].get("at_best", "no setting")
        assert set(contrast.weights) <= {declarations.without(label, at_best) for label in labels}
        assert sum(contrast.weights.values()) == pytest.approx(0)


def test_seeds_are_fresh():
    # The first round took 1 to 5.
    assert min(seed for about in DESIGNS.values() for seed in about["seeds"]) > 10


def test_labels_of_points_of_a_sequence_are_numbered():
    """They are those of the committed rows, all of the declared number, and none twice."""
    for experiment, count in (("surface", 120), ("fresh", 30)):
        rows = declarations.read_rows()[experiment]
        assert declarations.is_whole(experiment, rows)
        assert len(rows) == count == len(set(rows.label.str.partition(": ")[2]))
        assert not declarations.is_whole(experiment, rows[1:])


def test_a_part_is_whole_with_each_declared_run_once():
    rows = synthetic_rows("heads", lambda *_: (), ("label", "seed"))
    assert declarations.is_whole("heads", rows.sample(frac=1, random_state=0))
    assert not declarations.is_whole("heads", rows[1:])
    # As many rows, one run twice.
    assert not declarations.is_whole("heads", pd.concat([rows[1:], rows[1:2]]))
    assert not declarations.is_whole("heads", rows.assign(seed=rows.seed + 1))


def test_contrasts_of_all_parts_are_one_family():
    rng = np.random.default_rng(0)

    def score(label, _):
        return (0.6 + 0.1 * ("identity" in label) + rng.normal(0, 0.003),)

    rows = {experiment: synthetic_rows(experiment, score) for experiment in ("heads", "rates")}
    table = declarations.judge_parts(rows).set_index("name")
    assert len(table) == 7
    assert table.verdict["identity − random, SimCSE"] == "supported"
    assert table.estimate["identity − random, SimCSE"] == pytest.approx(10, abs=1)
    alone = declarations.judge_parts({"heads": rows["heads"]}).set_index("name")
    assert (table.holm[alone.index] >= alone.holm).all()


def test_a_claim_of_a_paper_is_a_family_of_its_own():
    rng = np.random.default_rng(0)
    runs = synthetic_rows(
        "distance", lambda label, _: (0.5 + 0.1 * (label == "14.67 steps") + rng.normal(0, 0.01),)
    )
    table = declarations.judge_parts({"distance": runs})
    p = []
    for shorter in (["3 steps"], ["52 steps"], ["7.67", "38.67"], ["10", "28"]):
        rivals = runs[runs.label.str.startswith(tuple(shorter))].groupby("seed").sts.mean()
        best = runs[runs.label == "14.67 steps"].set_index("seed").sts
        p.append(stats.ttest_rel(best, rivals).pvalue)
    assert table.holm.to_numpy() == pytest.approx(multipletests(p, method="holm")[1])
    heads = pd.read_csv(declarations.ROWS / "heads.csv")
    together = declarations.judge_parts({"heads": heads, "distance": runs})
    pd.testing.assert_frame_equal(
        together[together.part == "distance"].reset_index(drop=True), table
    )


@pytest.mark.parametrize(
    ("holm", "estimates", "verdict"),
    [
        ([0.01, 0.04], [1, 2], "reproduced"),
        ([0.01, 0.06], [1, 2], "inconclusive"),
        ([0.01, 0.04], [1, -2], "contradicted"),
        ([0.01, 0.06], [1, -2], "inconclusive"),
    ],
)
def test_a_claim_is_reproduced_if_all_of_its_contrasts_are(holm, estimates, verdict):
    assert declarations.judge_claim(pd.DataFrame({"holm": holm, "estimate": estimates})) == verdict


@pytest.mark.parametrize(
    ("holm", "within", "verdict"),
    [
        ([0.01, 0.3], ["yes", "yes"], "reproduced"),
        ([0.3, 0.3], ["yes", "no"], "inconclusive"),
        ([0.3, 0.01], ["yes", "no"], "contradicted"),
    ],
)
def test_a_claim_of_equality_needs_every_difference_within_its_margin(holm, within, verdict):
    table = pd.DataFrame({"holm": holm, "estimate": [1, 2], "within_margin": within})
    assert declarations.judge_claim(table, "equal") == verdict
    # By the other rule a difference that is clear of 0 decides.
    if verdict == "contradicted":
        assert declarations.judge_claim(table) == "inconclusive"


def test_conditions_are_compared_at_the_better_of_their_rates():
    """By hand: at 5e-5 and 2e-4, means of 0.62 and 0.60 with a margin of 0.3, 0.55 and 0.58 with
    one of 0.6; the seeds differ by 0.02, 0.04 and 0.06 at these."""
    means = {("0.3", "5e-05"): 0.62, ("0.3", "0.0002"): 0.60,
             ("0.6", "5e-05"): 0.55, ("0.6", "0.0002"): 0.58,
             ("1.0", "5e-05"): 0.50, ("1.0", "0.0002"): 0.40}  # fmt: skip

    def score(label, seed):
        margin, rate = re.findall(r"=([^,]+)", label)
        return (means[margin, rate] + (seed - 12) * 0.02 * (margin == "0.3"),)

    rows = synthetic_rows("margins", score, ("label", "seed", "stsb_dev"))
    assert len(rows) == 18
    best = declarations.at_best(rows, "learning_rate", "stsb_dev")
    by_margin = best.groupby("label").stsb_dev.mean()
    assert by_margin.to_dict() == pytest.approx(
        {f"loss_settings.margin={margin}": mean for margin, mean in
         (("0.3", 0.62), ("0.6", 0.58), ("1.0", 0.50))}
    )  # fmt: skip
    first, second = declarations.judge_parts({"margins": rows}).itertuples()
    assert (first.estimate, second.estimate) == pytest.approx((4, 12))
    # Differences of 2, 4 and 6 points: their standard error is 2/√3, and t(.975, 2) = 4.3027.
    assert first.low == pytest.approx(4 - 4.3027 * 2 / 3**0.5, abs=1e-3)


def test_alignment_and_uniformity_are_no_points():
    rows = synthetic_rows(
        "paths", lambda label, seed: (-2.0 - (label != "14.67 steps") * (seed - 10) / 10,),
        ("label", "seed", "alignment_uniformity"),
    )  # fmt: skip
    table = declarations.judge_parts({"paths": rows})
    assert table.estimate.to_list() == pytest.approx([0.2, 0.2])  # of 0.1, 0.2 and 0.3


def test_a_part_that_is_not_whole_is_not_judged(tmp_path):
    rows = synthetic_rows(
        "dropout", lambda *_: ("finished", 0.5, 0.5, 0.5, "", ""), declarations.COLUMNS
    )
    assert list(results.write_contrasts({"dropout": rows[1:]}, tmp_path)) == [
        f"Wrote {tmp_path / 'contrasts.csv'}"
    ]
    lines = list(results.write_contrasts({"dropout": rows}, tmp_path))
    assert "ESimCSE, Table 8: dropout: inconclusive" in lines
    assert (tmp_path / "tables.png").exists()


def test_every_claim_has_its_panel():
    assert list(CLAIMS) == list(declarations.claims())


def test_labels_say_the_distance_of_their_settings():
    for point in declarations.sweep_of("distance").points({}):
        momentum, queue = point.settings["momentum"], point.settings["queue_size"]
        steps = traceable_distance(momentum, queue, point.settings["batch_size"])
        assert float(point.title().split()[0]) == pytest.approx(steps, abs=0.005)


def test_the_committed_tables_follow_from_the_committed_rows(tmp_path):
    for experiment in (*declarations.read_rows(), "features", "interventions"):
        shutil.copy(declarations.ROWS / f"{experiment}.csv", tmp_path)
    list(write_results(tmp_path))
    tables = {file.name: file.read_text() for file in tmp_path.glob("*.csv")}
    assert {"contrasts.csv", "prediction-errors.csv", "interventions-orders.csv"} <= tables.keys()
    assert tables == {name: (declarations.ROWS / name).read_text() for name in tables}


def test_rates_are_judged_and_drawn(tmp_path):
    """Means and dots of the picture beside the rows."""
    rng = np.random.default_rng(0)
    rows = synthetic_rows(
        "rates",
        lambda *_: ("finished", rng.uniform(0.4, 0.6), 0.5, 1.0, "", ""),
        declarations.COLUMNS,
    )
    assert len(rows) == 96
    assert any("ratio 1.75" in line for line in results.write_contrasts({"rates": rows}, tmp_path))
    left, right = over_rates.draw(over_rates.table_of("rates", rows), 41.7).axes
    line = next(line for line in right.lines if line.get_label() == "ratio 1.75")
    own = rows[rows.label.str.startswith("τ .3,") & rows.label.str.endswith("ratio=1.75")]
    for rate, score in zip(*line.get_data(), strict=True):
        of_rate = own[own.label.str.contains(f"learning_rate={rate:g},", regex=False)]
        assert score == pytest.approx(100 * of_rate.sts.mean())
    dots = [line for line in left.lines if line.get_marker() == "o"]
    assert sum(len(line.get_xdata()) for line in dots) == 48


def test_the_uniform_limit_is_compared_within_seeds():
    rng = np.random.default_rng(0)
    rows = synthetic_rows("uniform", lambda *_: (rng.uniform(0.2, 0.6),))
    assert len(rows) == 54
    table = over_rates.table_of("uniform", rows.sample(frac=1, random_state=0))
    assert list(dict.fromkeys(table.line)) == ["uniform", "τ 10", "τ 3"]
    scores = {(label, seed): 100 * score for label, seed, score in rows.itertuples(index=False)}
    differences = over_rates.differences(table)
    assert len(differences) == 2 * (6 + 1)
    for rate, pattern in ((3e-6, "learning_rate=3e-06"), (over_rates.ALL, "")):
        own = [
            np.mean([scores[key] for key in scores if key[1] == seed and pattern in key[0]
                     and key[0].startswith(line)])
            for seed in (11, 12, 13)
            for line in ("τ 3", "uniform")
        ]  # fmt: skip
        own = np.subtract(own[::2], own[1::2])
        half = stats.t.ppf(0.975, 2) * own.std(ddof=1) / 3**0.5
        row = differences[
            (differences.plus == "τ 3")
            & (differences.minus == "uniform")
            & (differences.rate == rate)
        ]
        expected = [own.mean(), own.mean() - half, own.mean() + half, 3]
        assert row[["mean", "low", "high", "seeds"]].to_numpy()[0] == pytest.approx(expected)
    of_rate = over_rates.means(table).query("line == 'τ 10' and rate == 1e-5")
    assert of_rate["mean"].item() == pytest.approx(
        np.mean([scores["τ 10, learning_rate=1e-05", seed] for seed in (11, 12, 13)])
    )


@pytest.mark.parametrize(("line", "margin"), [("gate", 0.3), ("no gate", 1.0)])
def test_long_runs_are_the_ends_of_the_margin_of_the_baseline(line, margin):
    points = declarations.sweep_of("long").points({})
    (first, *_) = [point.settings for point in points if point.title().startswith(f"{line},")]
    settings = unflatten(first)
    loss = gradlab.get_loss(settings["loss"], **settings["loss_settings"])
    rng = np.random.default_rng(0)
    anchors = rng.normal(size=(12, 20))
    views = [point / np.linalg.norm(point, axis=1, keepdims=True) for point in (
        anchors, anchors + rng.normal(size=anchors.shape)
    )]  # fmt: skip
    gradient, expected = (
        gradlab.autograd_gradient(point, *views, side="both")
        for point in (loss, gradlab.get_loss("baseline", margin=margin, temperature=0.05))
    )
    np.testing.assert_allclose(gradient, expected, atol=1e-15)
    assert np.abs(expected).max() > 0.01


def test_a_gate_at_the_end_is_compared_with_stopping_early_without_one():
    at_end, at_best = {"gate": 0.60, "no gate": 0.50}, {"gate": 0.62, "no gate": 0.59}

    def score(label, seed):
        name = label.partition(",")[0]
        return at_best[name] + seed / 1e4, at_end[name] + seed / 1e4

    rows = synthetic_rows("long", score, ("label", "seed", "sts", "sts_last"))
    assert len(rows) == 18
    table = over_rates.differences(over_rates.table_of("long", rows))
    means = {(row.plus, row.minus): row.mean for row in table.itertuples() if row.rate == 1e-4}
    last, best = " after the last step", " at the best evaluation"
    expected = {
        ("gate" + last, "no gate" + last): 10, ("gate" + best, "no gate" + best): 3,
        ("no gate" + best, "no gate" + last): 9, ("gate" + best, "gate" + last): 2,
        ("gate" + last, "no gate" + best): 1,
    }  # fmt: skip
    assert means == pytest.approx(expected)


DECLARED = ("surface", "fresh", "native")
# Losses by what is made to tell their scores: the feature, a rival, both, or nothing.
OUTCOMES = {
    "success": ("feature",),
    "worse than alignment and uniformity": ("alignment", "uniformity"),
    "not told apart from STS-B dev at step 10": ("feature", "stsb_dev"),
    "not told apart from mean of the softmax runs": (),
}


@pytest.fixture
def write_rows(tmp_path):
    """Writes rows of all declared runs of the prediction, and features of all conditions.

    Some of the features tell the scores.
    """

    def make(telling):
        rng, rows = np.random.default_rng(0), declarations.read_rows()
        features = pd.read_csv(declarations.ROWS / "features.csv")
        declared = features.part.isin(DECLARED)
        scores = rng.normal(50, 9, len(features))
        for name in ("feature", "alignment", "uniformity", "stsb_dev"):
            noise = rng.normal(size=len(features))
            value = (scores - 50) / 9 + 0.3 * noise if name in telling else noise
            features[name] = np.where(declared, value, features[name])
        # The declared feature is their mean.
        features["feature_0"] = features.feature - features.uniformity
        features["feature_10"] = features.feature + features.uniformity
        one_each = features.assign(score=scores)[declared].drop_duplicates(["part", "label"])
        for experiment in DECLARED:
            score = one_each[one_each.part == experiment].set_index("label").score
            own = rows[experiment]
            sts = (score[own.label].to_numpy() + rng.normal(size=len(own))) / 100
            own.assign(sts=sts.round(6)).to_csv(tmp_path / f"{experiment}.csv", index=False)
        others = features[~declared]
        pd.concat([others, one_each]).to_csv(tmp_path / "features.csv", index=False)
        return tmp_path

    return make


def declared_rows(folder):
    """The rows that `write_rows` wrote."""
    frames = {name: pd.read_csv(folder / f"{name}.csv") for name in DECLARED}
    return pd.concat([frame.assign(part=name) for name, frame in frames.items()])


def written(folder):
    """What the report says of the predictions."""
    return list(results.write_predictions(declarations.read_rows(folder), folder))


def lines_of(folder):
    """What is told of the declared prediction."""
    return [line for line in written(folder) if line.startswith("declared-prediction")]


def test_the_feature_of_each_step_alone_is_told(write_rows):
    """Beside a line fitted with numpy."""
    folder = write_rows(("feature",))
    step_lines = [line for line in written(folder) if line.startswith("feature after")]
    features = pd.read_csv(folder / "features.csv")
    rows = declared_rows(folder).merge(features, on=["part", "label"])
    fitted, tested = rows[rows.part == "surface"], rows[rows.part != "surface"]
    sizes = []
    for step, line in zip((0, 10), step_lines, strict=True):
        own = np.polyfit(fitted[f"feature_{step}"], fitted.sts, 1)
        sizes.append(
            100 * np.sqrt(((np.polyval(own, tested[f"feature_{step}"]) - tested.sts) ** 2).mean())
        )
        assert line.startswith(f"feature after {step} steps alone, not declared: {sizes[-1]:.1f}; ")
        assert "beside STS-B dev at step 10" in line
    declared = pd.read_csv(folder / "declared-prediction-errors.csv").error[0]
    assert len({f"{size:.1f}" for size in (*sizes, declared)}) == 3


@pytest.mark.parametrize(("verdict", "telling"), OUTCOMES.items())
def test_the_declared_prediction_is_judged_as_declared(write_rows, verdict, telling):
    """Errors of the parts beside a line by numpy; test_prediction.py has those of all runs."""
    folder = write_rows(telling)
    runs, outcome = lines_of(folder)
    assert runs == "declared-prediction: 174 tested runs of 46 losses, errors in points"
    assert verdict in outcome
    assert ("no success" in outcome) == (verdict != "success")
    rows = declared_rows(folder).merge(pd.read_csv(folder / "features.csv"), on=["part", "label"])
    fitted = rows[rows.part == "surface"]
    line = np.polyfit(fitted.feature, 100 * fitted.sts, 1)
    parts = pd.read_csv(folder / "declared-prediction-parts.csv").set_index(["part", "predictor"])
    names = ["error", "rank_correlation", "score", "deviation"]
    for experiment in ("fresh", "native"):
        own = rows[rows.part == experiment]
        score, prediction = 100 * own.sts, np.polyval(line, own.feature)
        error = np.sqrt(((prediction - score) ** 2).mean())
        expected = [
            error,
            stats.spearmanr(prediction, score).statistic,
            score.mean(),
            np.std(score),
        ]
        assert parts.loc[experiment, "feature"][names].to_list() == pytest.approx(
            expected, rel=1e-5
        )
    assert np.isnan(parts.rank_correlation[("native", "mean of the softmax runs")])


def test_a_feature_that_is_no_number_is_an_error(write_rows):
    folder = write_rows(("feature",))
    features = pd.read_csv(folder / "features.csv")
    features.loc[features.index[features.part == "native"][-1], "feature"] = np.nan
    features.to_csv(folder / "features.csv", index=False)
    with pytest.raises(
        GradlabError, match="of 'native' has no features, or some that are no numbers"
    ):
        written(folder)


def test_a_diverged_run_counts_as_the_untrained_encoder_and_is_told(write_rows):
    folder = write_rows(("feature",))
    native = pd.read_csv(folder / "native.csv")
    native.loc[0, ["state", "sts"]] = "diverged", 0.416887
    native.to_csv(folder / "native.csv", index=False)
    lines = [*results.count_runs(declarations.read_rows(folder)), *written(folder)]
    assert (
        "native: 144 runs, 3 to 3 seeds a condition, 1 diverged and count as the untrained encoder"
        in lines
    )
    assert any("174 tested runs" in line for line in lines)
    table = pd.read_csv(folder / "declared-predictions.csv")
    assert (table.score == 41.6887).sum() == 1
