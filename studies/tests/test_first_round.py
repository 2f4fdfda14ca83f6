"""From rows to verdicts, pictures and the report, on rows with effects that are known."""

from __future__ import annotations

import shutil

import numpy as np
import pandas as pd
import pytest

from studies.evidence.declarations import FIRST_ROUND, judged_table, read_first_round
from studies.evidence.first_round import (
    FEATURES,
    angles,
    contrasts,
    exchanges,
    factorial_rates,
    open_shares,
    order_test,
    prediction,
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
