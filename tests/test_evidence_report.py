"""From rows to verdicts, pictures and the report, on rows with effects that are known."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gradlab import GradlabError
from gradlab.papers.unified.evidence.analysis import analyse, predict
from gradlab.papers.unified.evidence.collect import collect_linear, collect_open_shares
from gradlab.papers.unified.evidence.contrasts import FEATURES, GATES, RATIOS, RIVALS, WEIGHTS
from gradlab.papers.unified.evidence.report import write_report
from gradlab.sweep import read_spec

SWEEPS = Path(__file__).resolve().parents[1] / "sweeps" / "evidence"


def points(name):
    return read_spec(SWEEPS / f"{name}.toml").with_base({"backbone": "bert-base"}).points({})


def rows(labels, seeds, mean, noise=0.3, **more):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        [
            {"label": label, "seed": seed, "sts": (mean(label) + rng.normal(0, noise)) / 100}
            | {name: function(label) for name, function in more.items()}
            for seed in range(1, seeds + 1)
            for label in labels
        ]
    )


@pytest.fixture(scope="module")
def factorial():
    """The ratio adds 4 a unit, the hard gate 5 where the weight is uniform; nothing else does anything."""

    def mean(label):
        found = 50 + 4 * float(label.rpartition("=")[2])
        return found + 5 * label.startswith("hard / uniform")

    return rows([point.label for point in points("factorial")], 4, mean)


def test_contrasts_and_shares_of_a_known_factorial(factorial):
    found = analyse({"linear-factorial": factorial})
    effects = found["linear-factorial-contrasts"].set_index("name")
    assert effects.loc["ratio 1.75 − 1", "estimate"] == pytest.approx(3, abs=0.3)
    assert effects.loc["ratio 1.75 − 1", "verdict"] == "supported"
    assert effects.loc["hard gate − none", "estimate"] == pytest.approx(5 / 3, abs=0.3)
    assert effects.loc["softmax .05 − uniform", "verdict"] == "contradicted"  # by the hard gate's five
    assert effects.loc["softmax .05 − softmax .3", "verdict"] == "no effect of that size"
    assert len(effects) == 8
    shares = found["linear-factorial-shares"].set_index("term").omega2
    values = [
        4 * r + 5 * (g == "hard" and w == "uniform") for g, w, r in itertools.product(GATES, WEIGHTS, RATIOS)
    ]
    expected = np.var([4 * r for r in RATIOS]) / (np.var(values) + 0.3**2)
    assert shares["ratio"] == pytest.approx(expected, abs=0.05)
    assert shares["gate x weight"] > 10 * abs(shares["gate x ratio"])


def test_longer_runs_are_judged_by_their_own_contrasts_beside_the_short_ones(factorial):
    """The ratio gains 5 above 1 at τ = .05 alone, the hard gate loses 4 everywhere."""

    def mean(label):
        gain = 5 * label.endswith("softmax .05, loss_settings.ratio=1.75")
        return 60 + gain - 4 * label.startswith("hard")

    table = rows([point.label for point in points("longer")], 4, mean)
    found = analyse({"encoder-longer": table, "encoder-factorial": factorial})
    effects = found["encoder-longer-contrasts"].set_index("name")
    estimates = {"hard gate − none": -4, "softmax .05 − softmax .3": 5 / 3, "ratio 1 − .5": 0,
                 "ratio 1.75 − 1 at softmax .05": 5, "ratio 1.75 − 1 at softmax .3": 0}  # fmt: skip
    assert effects.estimate.to_dict() == pytest.approx(estimates, abs=0.4)
    assert effects.verdict["hard gate − none"] == "contradicted"
    assert effects.verdict["ratio 1.75 − 1 at softmax .05"] == "supported"
    assert effects.verdict["ratio 1 − .5"] == "no effect of that size"
    cells = found["encoder-longer-cells"]
    assert len(cells) == 12
    assert cells.short.to_numpy() == pytest.approx(50 + 4 * cells.ratio.to_numpy(), abs=0.6)


def test_losses_are_compared_setting_by_setting():
    def mean(label):
        return 60 - 12 * label.startswith("mhe") + 11 * (label == "mhe: clip 1")

    table = rows([point.label for point in points("setting")], 2, mean)
    effects = analyse({"encoder-setting": table})["encoder-setting-effects"].set_index("name").estimate
    assert len(effects) == 5
    assert effects["infonce: as here − mhe: as here"] == pytest.approx(12, abs=1)
    assert effects["infonce: clip 1 − mhe: clip 1"] == pytest.approx(1, abs=1)


def test_incomplete_seeds_do_not_count(factorial):
    whole = analyse({"linear-factorial": factorial[factorial.seed < 4]})["linear-factorial-contrasts"]
    part = analyse({"linear-factorial": factorial.iloc[:-3]})["linear-factorial-contrasts"]
    pd.testing.assert_frame_equal(whole, part)
    assert analyse({"linear-factorial": factorial[factorial.seed == 1]}) == {}


def test_shares_of_a_repair():
    """Gate 1, weight 2, ratio 3 and 4 more for gate and ratio together, which the two share."""

    def mean(label):
        _, _, parts = label.partition(": ")
        value = 40.0 + ("gate" in parts) + 2 * ("weight" in parts) + 3 * ("ratio" in parts)
        return value + 4 * ("gate" in parts and "ratio" in parts) - 6 * (parts == "native")

    table = rows([point.label for point in points("exchanges")], 4, mean, noise=0.05)
    found = analyse({"linear-exchanges": table})
    split = found["linear-exchanges-shapley"].set_index(["loss", "part"]).estimate
    for loss in ("mhe", "barlow_twins", "vicreg"):
        assert split[loss].to_dict() == pytest.approx(
            {"all": 10, "gate": 3, "weight": 2, "ratio": 5}, abs=0.2
        )
    assert split["mhs"].to_dict() == pytest.approx({"all": 8, "gate": 3, "ratio": 5}, abs=0.2)
    native = found["linear-exchanges-native"].set_index("loss")
    assert native.estimate.to_dict() == pytest.approx(dict.fromkeys(native.index, 6), abs=0.2)
    assert list(native.index) == ["mhe", "barlow_twins", "vicreg", "mhs", "vicreg-paper"]


def test_a_score_that_the_features_make_is_predicted(factorial):
    rng = np.random.default_rng(1)
    labels = [*factorial.label.unique(), "arccon", "met", "mat", "mhe"]
    features = pd.DataFrame(
        {"label": labels, **{name: rng.normal(size=len(labels)) for name in (*FEATURES, *RIVALS)}}
    )
    scores = 40 + features[list(FEATURES)].to_numpy() @ [1.0, 2.0, 3.0, 4.0]
    truth = pd.DataFrame({"label": labels, "sts": scores / 100, "seed": 1})
    found = predict(truth.iloc[:27], features)
    expected = dict(zip(labels[27:], scores[27:], strict=True))
    assert dict(zip(found.loss, found.components, strict=True)) == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(found["mean"], scores[:27].mean(), rtol=1e-12)
    tables = analyse(
        {
            "linear-factorial": truth.iloc[:27],
            "linear-features": features,
            "linear-prediction": truth.iloc[27:],
        }
    )
    models = tables["linear-prediction-models"].set_index("model")
    assert models.error["components"] == pytest.approx(0, abs=1e-9)
    assert models.p["components"] == pytest.approx(1 / 24)
    # What was committed is not predicted again; what is new is added.
    committed = found.iloc[:2].assign(components=1.0)
    later = predict(truth.iloc[:27], features, committed)
    assert later.components.tolist() == pytest.approx([1.0, 1.0, *found.components[2:]])


def test_collapse_is_told_from_what_trains_and_cells_have_their_open_share(factorial):
    recipes = rows(["MoCoSE", "SimCSE", "ESimCSE"], 5, lambda _: 60, stsb_dev=lambda _: 0.6)
    recipes["stsb_dev"] += 0.01 * recipes.seed
    collapsed = recipes.assign(
        label="symmetric, no inertia", stsb_dev=recipes.stsb_dev - 0.3 + 0.001 * recipes.index
    )
    found = analyse({"encoder-recipes": recipes, "encoder-collapse": collapsed.iloc[::3]})
    (effect,) = found["encoder-collapse-effects"].to_dict("records")
    assert effect["name"] == "MoCoSE − symmetric, no inertia"
    assert effect["estimate"] == pytest.approx(30 - 0.1 * np.mean(collapsed.index[::3]), abs=1e-6)
    opened = factorial[factorial.seed == 1].assign(first=1.0, mean=0.5, last=0.25)
    table = analyse({"linear-open": opened})["linear-open-shares"]
    assert len(table) == 9
    assert set(table["mean"]) == {0.5}


def test_the_report_has_what_there_is_and_says_what_is_missing(factorial, tmp_path):
    factorial.to_csv(tmp_path / "linear-factorial.csv", index=False)
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "| linear head | factorial | 108 | 540 | incomplete |" in page
    assert "| encoder | tuning | 0 | 54 | missing |" in page
    assert "![contrasts](linear-contrasts.png)" in page
    assert "MoCoSE trains" not in page
    (tmp_path / "linear-exchanges.csv").write_text("label,seed\n")  # of a part of which no run has finished
    again = write_report(tmp_path).read_text(encoding="utf-8")  # its own tables are no rows
    assert again == page
    for name in ("linear-factorial.png", "linear-contrasts.png"):
        assert (tmp_path / name).stat().st_size > 5000


def test_collecting_keeps_numbers_and_leaves_out_nothing_finished(tmp_path):
    (tmp_path / "factorial.csv").write_text(
        "label,seed,steps,sts\nnone / uniform,1,600,0.123456789\n", encoding="utf-8"
    )
    (path,) = collect_linear(tmp_path, tmp_path / "out")
    assert path.read_text() == "label,seed,sts\nnone / uniform,1,0.123457\n"
    with pytest.raises(GradlabError, match="no gated run"):
        collect_open_shares(tmp_path, tmp_path / "open.csv")


@pytest.mark.parametrize("name", sorted(file.stem for file in SWEEPS.glob("*.toml")))
def test_every_specification_is_valid(name):
    spec = read_spec(SWEEPS / f"{name}.toml").with_base({"backbone": "bert-base"})
    spec.check()
    keys = [key for point in spec.points({}) for key in point.runs.values()]
    assert len(keys) == len(set(keys))
    assert spec.base["clip"] == 0
    assert spec.base["precision"] == ("float32" if name in ("recipes", "collapse") else "bfloat16")
