"""From rows to verdicts, pictures and the report, on rows with effects that are known."""

from __future__ import annotations

import shutil

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from studies.evidence.declarations import FIRST_ROUND, judged_table, read_first_round
from studies.evidence.first_round import (
    FEATURES,
    angles,
    cell_scores,
    contrasts,
    exchanges,
    factorial_rates,
    open_shares,
    order_test,
    prediction,
    rates_and_ratios,
    weight_share,
)
from studies.evidence.report import write_first_round

ROWS = read_first_round()
# Those of the factorial.
CELLS = list(factorial_rates())


def rows(labels, seeds, mean, noise=0.3):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        [
            {"label": label, "seed": seed, "sts": (mean(label) + rng.normal(0, noise)) / 100}
            for seed in range(1, seeds + 1)
            for label in labels
        ]
    )


@pytest.fixture(scope="module")
def factorial():
    """The ratio adds 4 a unit, the hard gate 5 where the weight is uniform; nothing else acts."""

    def mean(label):
        score = 50 + 4 * float(label.rpartition("=")[2])
        return score + 5 * label.startswith("hard / uniform")

    return rows(CELLS, 4, mean)


def effects_of(rows, name, regime="encoder"):
    table = judged_table(list(contrasts(rows, "contrasts")))
    return table[(table.regime == regime) & (table.part == name)].set_index("name")


def test_contrasts_of_a_known_factorial(factorial):
    effects = effects_of({"linear-factorial": factorial}, "factorial", "linear")
    assert effects.loc["ratio 1.75 − 1", "estimate"] == pytest.approx(3, abs=0.3)
    assert effects.loc["ratio 1.75 − 1", "verdict"] == "supported"
    assert effects.loc["hard gate − none", "estimate"] == pytest.approx(5 / 3, abs=0.3)
    # By the hard gate's five.
    assert effects.loc["softmax .05 − uniform", "verdict"] == "contradicted"
    same = effects.loc["softmax .05 − softmax .3"]
    assert (same.verdict, same.within_margin) == ("inconclusive", "yes")
    # Clear of 0, and within the margin of 1.5 as well or not: two statements.
    assert effects.loc["ratio 1.75 − 1", "within_margin"] == "no"
    assert len(effects) == 8


def test_an_interval_is_the_t_test_of_one_contrast_a_seed(factorial):
    effects = effects_of({"encoder-factorial": factorial}, "factorial")
    gate = factorial.label.str.split(" / ").str[0].rename("gate")
    wide = (100 * factorial.sts).groupby([factorial.seed, gate]).mean().unstack()
    expected = stats.ttest_rel(wide["soft"], wide["none"])
    interval = expected.confidence_interval()
    row = effects.loc["soft gate − none"]
    assert (row.estimate, row.low, row.high) == pytest.approx(
        ((wide["soft"] - wide["none"]).mean(), interval.low, interval.high)
    )
    assert row.p == pytest.approx(expected.pvalue)


def test_all_contrasts_are_one_family(factorial):
    frames = {"encoder-factorial": factorial, "linear-factorial": factorial}
    alone = effects_of({"encoder-factorial": factorial}, "factorial").holm
    together = effects_of(frames, "factorial").holm
    assert (together >= alone - 1e-12).all()
    assert (together > alone).any()


def test_share_of_the_weight_is_that_between_its_means():
    labels = CELLS
    table = rows(labels, 4, lambda label: 60 - 25 * ("uniform" in label), noise=1.0)
    score = table.sts
    means = score.groupby(table.label.str.extract(r"/ (.+),")[0]).transform("mean")
    expected = ((means - score.mean()) ** 2).sum() / ((score - score.mean()) ** 2).sum()
    assert weight_share(table) == pytest.approx(expected)


def test_longer_runs_are_judged_by_their_own_contrasts(factorial):
    """The ratio gains 5 above 1 at τ = .05 alone, the hard gate loses 4 everywhere."""

    def mean(label):
        gain = 5 * label.endswith("softmax .05, loss_settings.ratio=1.75")
        return 60 + gain - 4 * label.startswith("hard")

    table = rows(ROWS["encoder-longer"].label.unique(), 4, mean)
    effects = effects_of({"encoder-longer": table, "encoder-factorial": factorial}, "longer")
    estimates = {"hard gate − none": -4, "softmax .05 − softmax .3": 5 / 3, "ratio 1 − .5": 0,
                 "ratio 1.75 − 1 at softmax .05": 5, "ratio 1.75 − 1 at softmax .3": 0}  # fmt: skip
    assert effects.estimate.to_dict() == pytest.approx(estimates, abs=0.4)
    assert effects.verdict["hard gate − none"] == "contradicted"
    assert len(cell_scores(table)) == 12


def test_incomplete_seeds_do_not_count(factorial):
    """A contrast is of the seeds that have all of its cells."""
    complete, incomplete = (
        effects_of({"linear-factorial": rows}, "factorial", "linear")
        for rows in (factorial[factorial.seed < 4], factorial.iloc[:-27])
    )
    pd.testing.assert_frame_equal(complete, incomplete)
    alone = {"linear-factorial": factorial[factorial.seed == 1]}
    assert not list(contrasts(alone, "contrasts"))


def test_shares_of_a_repair():
    """Gate 1, weight 2, ratio 3 and 4 more for gate and ratio together, which the two share."""

    def mean(label):
        _, _, components = label.partition(": ")
        value = (
            40.0
            + ("gate" in components)
            + 2 * ("weight" in components)
            + 3 * ("ratio" in components)
        )
        return (
            value
            + 4 * ("gate" in components and "ratio" in components)
            - 6 * (components == "native")
        )

    table = rows(ROWS["encoder-exchanges"].label.unique(), 4, mean, noise=0.05)
    tables = exchanges(table)
    split = tables["exchanges-shapley"].set_index(["loss", "part"]).estimate
    for loss in ("mhe", "barlow_twins"):
        assert split[loss].to_dict() == pytest.approx(
            {"all": 10, "gate": 3, "weight": 2, "ratio": 5}, abs=0.2
        )
    assert split["mhs"].to_dict() == pytest.approx({"all": 8, "gate": 3, "ratio": 5}, abs=0.2)
    native = tables["exchanges-native"].set_index("loss")
    assert native.estimate.to_dict() == pytest.approx(dict.fromkeys(native.index, 6), abs=0.2)
    assert list(native.index) == ["mhe", "barlow_twins", "mhs"]  # VICReg's are withdrawn


def test_rate_and_ratio_are_told_apart_in_a_table(factorial):
    labels = factorial.label.unique()
    rates = {label: 1e-4 if label.startswith("none") else 3e-4 for label in labels}
    table = rates_and_ratios(factorial, rates).set_index(["rate", "ratio"])
    assert table.runs.to_list() == [4, 4, 4, 8, 8, 8]
    assert table.score[3e-4, 1.75] == pytest.approx(57, abs=0.4)


def test_committed_predictions_are_compared_with_scores(factorial):
    rng = np.random.default_rng(1)
    labels = [*factorial.label.unique(), "arccon", "met", "mat", "mhe"]
    features = pd.DataFrame(
        {"label": labels, **{name: rng.normal(size=len(labels)) for name in FEATURES}}
    )
    scores = 40 + features[list(FEATURES)].to_numpy() @ [1.0, 2.0, 3.0, 4.0]
    runs = pd.DataFrame({"label": labels, "sts": scores / 100, "seed": 1})
    cells, losses = runs.iloc[:27], runs.iloc[27:]
    committed = pd.DataFrame({"loss": losses.label, "mean": 40.0, "components": scores[27:]})
    tables = prediction(committed, losses, pd.concat([cells, cells.assign(seed=2)]), features)
    models = tables["models"].set_index("model")
    assert models.error["components"] == pytest.approx(0, abs=1e-9)
    assert models.p["components"] == pytest.approx(1 / 24)
    assert models.error["mean"] == pytest.approx(np.sqrt(np.mean((scores[27:] - 40) ** 2)))
    softmax = [label for label in labels[:27] if "softmax" in label]
    constant = scores[[labels.index(label) for label in softmax]].mean()
    error = np.sqrt(np.mean((scores[27:] - constant) ** 2))
    assert models.error["mean of the softmax cells"] == pytest.approx(error)
    assert models.error["components, softmax cells"] == pytest.approx(0, abs=1e-9)
    fitted = features.iloc[:27]
    for row in tables["losses"].itertuples():
        own = features[features.label == row.loss].iloc[0]
        beyond = [not fitted[name].min() <= own[name] <= fitted[name].max() for name in FEATURES]
        assert row.outside == any(beyond)


def test_the_permutation_test_counts_every_order():
    truth = np.array([1.0, 2.0, 3.0, 4.0])
    assert order_test(truth, truth) == pytest.approx(1 / 24)
    assert order_test(truth[::-1], truth) == 1
    # Of 24 orders of values that come in pairs, four are each the same.
    assert order_test(np.array([1.0, 1.0, 2.0, 2.0]), truth) == pytest.approx(4 / 24)


def test_cells_have_their_open_share_and_arms_their_angles(factorial):
    opened = factorial[factorial.seed == 1].assign(first=2.0, mean=1.0, last=0.25)
    table = open_shares(opened)
    assert len(table) == 9
    assert set(table["mean"]) == {0.5}
    arms = rows(["on", "off", "random", "scaled"], 3, lambda _: 60, noise=0)
    arms["theta_pos"] = np.radians(30 + 5 * (arms.label == "on") + arms.seed)
    arms["theta_neg"] = np.radians(90.0)
    by_arm = angles(arms).set_index(["angle", "arm"])
    assert by_arm.estimate["gap", "off"] == pytest.approx(5)
    assert by_arm.estimate["negatives", "random"] == pytest.approx(0)


def test_the_committed_report_follows_from_the_committed_rows(tmp_path):
    """Every number of the page is recomputed."""
    for path in [*FIRST_ROUND.glob("*.csv"), *FIRST_ROUND.glob("*.json")]:
        shutil.copy(path, tmp_path)
    list(write_first_round(tmp_path))
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert page == (FIRST_ROUND / "report.md").read_text(encoding="utf-8")
