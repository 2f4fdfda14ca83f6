"""The second round: what is declared can be run, is run resumably, and is judged as it says."""

from __future__ import annotations

import json
import math
import shutil
import tomllib

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

import gradlab
from gradlab import GradlabError
from gradlab.encoder import Encoder
from gradlab.evaluate import evaluate
from gradlab.sweep import unflatten
from studies.analyses.distance import traceable_distance
from studies.runs import runs_in
from studies.second_round import over_rates, results, rounds
from studies.second_round.results import CLAIMS, write_results
from tests.senteval_folder import make_senteval
from tests.tiny_models import make_bert, make_sentences

PARTS = rounds.every_part()


def made_rows(part, score, columns=("label", "seed", "sts")):
    """Rows of all declared runs; ``score(label, seed)`` gives what follows these two columns."""
    points = rounds.sweep_of(part).points({})
    runs = [(point.title(), seed) for point in points for seed in point.seeds]
    return pd.DataFrame([(*run, *score(*run)) for run in runs], columns=columns)


@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_a_valid_sweep_in_one_precision(part):
    spec = rounds.sweep_of(part, {"backbone": "bert-base"})
    spec.check()
    points = spec.points({})
    assert {point.settings["precision"] for point in points} == {"float32"}
    labels = [point.title() for point in points]
    assert len(set(labels)) == len(labels)
    for contrast in rounds.contrasts_of(part):
        assert set(contrast.weights) <= set(labels)
        assert sum(contrast.weights.values()) == pytest.approx(0)


@pytest.mark.parametrize("part", rounds.declaration(rounds.AT_LENGTH)["parts"])
def test_at_length_the_same_runs_take_ten_times_the_steps_on_a_gpu(part):
    shorter, longer = (
        rounds.sweep_of(part, {"backbone": "bert-base"}, file) for file in (None, rounds.AT_LENGTH)
    )
    longer.check()
    pairs = list(zip(shorter.points({}), longer.points({}), strict=True))
    assert all(one.title() == other.title() and one.seeds == other.seeds for one, other in pairs)
    assert {other.settings["max_steps"] / one.settings["max_steps"] for one, other in pairs} == {10}
    assert {(other.settings["device"], other.settings["precision"]) for _, other in pairs} == {
        ("cuda", "bfloat16")
    }
    assert PARTS[part]["status"] == rounds.CONFIRMATORY


def test_minutes_of_a_gpu_follow_from_its_operations():
    """By hand, at 35% of 1e13: training steps and scored sentences.

    There are 100 steps of 2 x 8 sentences of 10 tokens on 1e9 weights, and 1,000 scored sentences.
    """
    estimate = {"weights": 1e9, "tokens": 20, "sentences": 1000, "step": 0.1, "fixed": 7}
    run = {"batch_size": 8, "max_length": 10, "max_steps": 100, "precision": "bfloat16"}
    rates = {"bfloat16": 1e13}
    step, scored = 6e9 * 160 / 3.5e12, 2e9 * 20_000 / 3.5e12
    assert rounds.seconds_of(run, estimate, rates) == pytest.approx(7 + scored + 100 * step)
    momentum = rounds.seconds_of({**run, "recipe": "mocose"}, estimate, rates)
    assert momentum == pytest.approx(7 + scored + 100 * step * 8 / 6)
    fast = rounds.seconds_of(run, estimate, {"bfloat16": 1e15})
    assert fast == pytest.approx(7 + scored / 100 + 100 * 0.1)  # the least that a step takes


def test_seeds_are_fresh():
    # The first round took 1 to 5.
    assert min(seed for about in PARTS.values() for seed in about["seeds"]) > 10


def test_the_design_fills_its_ranges_evenly_and_is_always_the_same():
    design = PARTS["surface"]["sobol"]
    points = rounds.sobol_points(design)
    assert points == rounds.sobol_points(design)
    assert len(points) == design["runs"]
    for name, key in (("learning_rate", "learning_rate"), ("loss_settings.ratio", "ratio")):
        low, high = map(math.log, design[key])
        places = (np.log([point[name] for point in points]) - low) / (high - low)
        assert stats.kstest(places, "uniform").statistic < 0.05  # points at random: about .12
    others = rounds.sobol_points(PARTS["fresh"]["sobol"])
    assert not {point["label"].partition(": ")[2] for point in others} & {
        point["label"].partition(": ")[2] for point in points
    }


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A declaration of two tiny conditions, and what it is run on."""
    text = rounds.DECLARATION.read_text(encoding="utf-8")
    small = {"max_steps": 2, "batch_size": 4, "max_length": 12, "save_every": 1}
    base = tomllib.loads(text)["base"] | small
    lines = [
        f"{name} = {str(value).lower() if isinstance(value, bool) else repr(value)}"
        for name, value in base.items()
    ]
    declared = "\n".join(
        [
            "[protocol]", "untrained = 0.25",
            "[prediction]", 'fitted_on = ["surface"]', 'tested_on = ["fresh"]',
            "[base]", *lines,
            "[parts.heads]", 'status = "confirmatory"', 'question = "?"', "seeds = [11, 12]",
            'grid = { head_initial = ["random", "identity"] }',
            'points = [{ label = "SimCSE", recipe = "simcse" }]',
            "[[parts.heads.contrasts]]", 'name = "identity - random"',
            'plus = ["SimCSE, head_initial=identity"]',
            'minus = ["SimCSE, head_initial=random"]', "margin = 3.0",
        ]
    )  # fmt: skip
    place = tmp_path / "declaration.toml"
    place.write_text(declared, encoding="utf-8")
    monkeypatch.setattr(rounds, "DECLARATION", place)
    (tmp_path / "sentences.txt").write_text("\n".join(make_sentences(40)), encoding="utf-8")
    return {
        "model": str(make_bert(tmp_path / "bert")),
        "train_file": str(tmp_path / "sentences.txt"),
        "sts": str(make_senteval(tmp_path / "senteval")),
        "backbone": "bert-base",
    }


def test_a_part_is_run_once_and_judged(small, tmp_path, capsys):
    output = tmp_path / "second"
    assert rounds.run_part("heads", output, small, committed=tmp_path) == 4
    capsys.readouterr()
    assert rounds.run_part("heads", output, small, committed=tmp_path) == 4
    assert "Training" not in capsys.readouterr().err  # nothing is trained again
    rows = rounds.rows_of("heads", output)
    assert rounds.is_whole("heads", rows)
    assert set(rows.label) == {f"SimCSE, head_initial={one}" for one in ("random", "identity")}
    committed = tmp_path / "rows"
    found = rounds.collect("heads", output, committed)
    assert rounds.collect("heads", output, committed).equals(found)  # the same rows are added once
    lines = list(write_results(committed))
    assert lines[0] == "heads: 4 runs, 2 to 2 seeds a condition"
    assert (committed / "heads.png").stat().st_size > 0
    (one,) = pd.read_csv(committed / "contrasts.csv").itertuples()
    wide = 100 * rows.pivot(index="seed", columns="label", values="sts")
    differences = wide["SimCSE, head_initial=identity"] - wide["SimCSE, head_initial=random"]
    assert one.estimate == pytest.approx(differences.mean(), abs=1e-3)  # rows have six digits
    assert one.seeds == 2
    # Elsewhere, what is committed is not trained again; a row with another score is refused.
    assert rounds.run_part("heads", tmp_path / "elsewhere", small, committed=committed) == 4
    assert "Training" not in capsys.readouterr().err
    found.assign(sts=0.0).to_csv(committed / "heads.csv", index=False)
    with pytest.raises(GradlabError, match="is committed with another score"):
        rounds.collect("heads", output, committed)
    # A declaration that changes after the first run is refused.
    rounds.DECLARATION.write_text(rounds.DECLARATION.read_text() + "\n# later\n", encoding="utf-8")
    with pytest.raises(GradlabError, match="declaration has changed"):
        rounds.run_part("heads", output, small, committed=tmp_path)


def test_at_length_it_is_run_into_a_folder_of_its_own(small, tmp_path, monkeypatch):
    file = tmp_path / "at_length.toml"
    file.write_text(
        'of = "declaration.toml"\nparts = ["heads"]\ntimes = 2\n'
        "[protocol]\n[base]\nlearning_rate = 3e-5\n"
    )
    monkeypatch.setattr(rounds, "AT_LENGTH", file)
    for _ in range(2):  # the second time nothing is left
        assert rounds.run_part("heads", tmp_path / "long", small, file=file) == 4
    settings = [
        json.loads(one.read_text())["config"] for one in (tmp_path / "long").rglob("manifest.json")
    ]
    assert {(one["max_steps"], one["learning_rate"]) for one in settings} == {(4, 3e-5)}
    assert rounds.declared_in(tmp_path / "long") == tmp_path / "long/at_length.toml"
    assert len(rounds.rows_of("heads", tmp_path / "long")) == 4
    with pytest.raises(GradlabError, match="declaration has changed"):
        rounds.run_part("heads", tmp_path / "long", small)


def test_a_part_is_whole_with_each_declared_run_once():
    rows = made_rows("heads", lambda *_: (), ("label", "seed"))
    assert rounds.is_whole("heads", rows.sample(frac=1, random_state=0))
    assert not rounds.is_whole("heads", rows[1:])
    # As many rows, one run twice.
    assert not rounds.is_whole("heads", pd.concat([rows[1:], rows[1:2]]))
    assert not rounds.is_whole("heads", rows.assign(seed=rows.seed + 1))


def test_contrasts_of_all_parts_are_one_family():
    rng = np.random.default_rng(0)

    def score(label, _):
        return (0.6 + 0.1 * ("identity" in label) + rng.normal(0, 0.003),)

    rows = {part: made_rows(part, score) for part in ("heads", "rates")}
    found = rounds.judged(rows).set_index("name")
    assert len(found) == 7
    assert found.verdict["identity − random, SimCSE"] == "supported"
    assert found.estimate["identity − random, SimCSE"] == pytest.approx(10, abs=1)
    alone = rounds.judged({"heads": rows["heads"]}).set_index("name")
    assert (found.holm[alone.index] >= alone.holm).all()


def test_a_claim_of_a_paper_is_a_family_of_its_own():
    rng = np.random.default_rng(0)
    runs = made_rows(
        "distance", lambda label, _: (0.5 + 0.1 * (label == "14.67 steps") + rng.normal(0, 0.01),)
    )
    found = rounds.judged({"distance": runs})
    p = []
    for shorter in (["3 steps"], ["52 steps"], ["7.67", "38.67"], ["10", "28"]):
        others = runs[runs.label.str.startswith(tuple(shorter))].groupby("seed").sts.mean()
        best = runs[runs.label == "14.67 steps"].set_index("seed").sts
        p.append(stats.ttest_rel(best, others).pvalue)
    assert found.holm.to_numpy() == pytest.approx(multipletests(p, method="holm")[1])
    heads = pd.read_csv(rounds.ROWS / "heads.csv")
    both = rounds.judged({"heads": heads, "distance": runs})
    pd.testing.assert_frame_equal(both[both.part == "distance"].reset_index(drop=True), found)


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
    assert rounds.claim(pd.DataFrame({"holm": holm, "estimate": estimates})) == verdict


def test_every_claim_has_its_panel():
    assert list(CLAIMS) == list(rounds.declaration(rounds.PAPERS)["parts"])


def test_labels_say_the_distance_of_their_settings():
    for point in rounds.sweep_of("distance").points({}):
        momentum, queue = point.settings["momentum"], point.settings["queue_size"]
        steps = traceable_distance(momentum, queue, point.settings["batch_size"])
        assert float(point.title().split()[0]) == pytest.approx(steps, abs=0.005)


def test_the_committed_tables_follow_from_the_committed_rows(tmp_path):
    for part in (*rounds.read_rows(), "features"):
        shutil.copy(rounds.ROWS / f"{part}.csv", tmp_path)
    list(write_results(tmp_path))
    tables = {one.name: one.read_text() for one in tmp_path.glob("*.csv")}
    assert {"contrasts.csv", "prediction-errors.csv", "interventions-orders.csv"} <= tables.keys()
    assert tables == {name: (rounds.ROWS / name).read_text() for name in tables}


def test_rates_are_judged_and_drawn_when_all_are_there(tmp_path):
    """No look before; then means and dots of the picture beside the rows."""
    rng = np.random.default_rng(0)
    rows = made_rows(
        "rates", lambda *_: ("finished", rng.uniform(0.4, 0.6), 0.5, 1.0, "", ""), rounds.COLUMNS
    )
    assert len(rows) == 96
    assert rounds.is_whole("rates", rows)
    rows[1:].to_csv(tmp_path / "rates.csv", index=False)
    assert not any("rates.png" in line or "ratio 1.75" in line for line in write_results(tmp_path))
    rows.to_csv(tmp_path / "rates.csv", index=False)
    found = list(write_results(tmp_path))
    assert sum("rates.png" in line for line in found) == 1
    assert sum("ratio 1.75" in line for line in found) == 1
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
    rows = made_rows("uniform", lambda *_: (rng.uniform(0.2, 0.6),))
    assert len(rows) == 54
    table = over_rates.table_of("uniform", rows.sample(frac=1, random_state=0))
    assert list(dict.fromkeys(table.line)) == ["uniform", "τ 10", "τ 3"]
    scores = {(label, seed): 100 * score for label, seed, score in rows.itertuples(index=False)}
    found = over_rates.differences(table)
    assert len(found) == 2 * (6 + 1)
    for rate, told in ((3e-6, "learning_rate=3e-06"), (over_rates.ALL, "")):
        own = [
            np.mean([scores[key] for key in scores if key[1] == seed and told in key[0]
                     and key[0].startswith(line)])
            for seed in (11, 12, 13)
            for line in ("τ 3", "uniform")
        ]  # fmt: skip
        own = np.subtract(own[::2], own[1::2])
        half = stats.t.ppf(0.975, 2) * own.std(ddof=1) / 3**0.5
        row = found[(found.plus == "τ 3") & (found.minus == "uniform") & (found.rate == rate)]
        expected = [own.mean(), own.mean() - half, own.mean() + half, 3]
        assert row[["mean", "low", "high", "seeds"]].to_numpy()[0] == pytest.approx(expected)
    of_rate = over_rates.means(table).query("line == 'τ 10' and rate == 1e-5")
    assert of_rate["mean"].item() == pytest.approx(
        np.mean([scores["τ 10, learning_rate=1e-05", seed] for seed in (11, 12, 13)])
    )


@pytest.mark.parametrize(("line", "margin"), [("gate", 0.3), ("no gate", 1.0)])
def test_long_runs_are_the_ends_of_the_margin_of_the_baseline(line, margin):
    points = rounds.sweep_of("long").points({})
    (first, *_) = [one.settings for one in points if one.title().startswith(f"{line},")]
    settings = unflatten(first)
    loss = gradlab.get_loss(settings["loss"], **settings["loss_settings"])
    rng = np.random.default_rng(0)
    anchors = rng.normal(size=(12, 20))
    views = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in (
        anchors, anchors + rng.normal(size=anchors.shape)
    )]  # fmt: skip
    found, expected = (
        gradlab.autograd_gradient(one, *views, side="both")
        for one in (loss, gradlab.get_loss("baseline", margin=margin, temperature=0.05))
    )
    np.testing.assert_allclose(found, expected, atol=1e-15)
    assert np.abs(expected).max() > 0.01


def test_a_gate_at_the_end_is_compared_with_stopping_early_without_one():
    at_end, at_best = {"gate": 0.60, "no gate": 0.50}, {"gate": 0.62, "no gate": 0.59}

    def score(label, seed):
        name = label.partition(",")[0]
        return at_best[name] + seed / 1e4, at_end[name] + seed / 1e4

    rows = made_rows("long", score, ("label", "seed", "sts", "sts_last"))
    assert len(rows) == 18
    found = over_rates.differences(over_rates.table_of("long", rows))
    told = {(one.plus, one.minus): one.mean for one in found.itertuples() if one.rate == 1e-4}
    last, best = " after the last step", " at the best evaluation"
    expected = {
        ("gate" + last, "no gate" + last): 10, ("gate" + best, "no gate" + best): 3,
        ("no gate" + best, "no gate" + last): 9, ("gate" + best, "gate" + last): 2,
        ("gate" + last, "no gate" + best): 1,
    }  # fmt: skip
    assert told == pytest.approx(expected)


def test_runs_that_are_evaluated_on_the_way_are_scored_at_both_places(small, tmp_path):
    text = rounds.DECLARATION.read_text(encoding="utf-8")
    for old, new in (
        ("eval_every = 1000", "eval_every = 1"),
        ("seeds = [11, 12]", "seeds = [12]"),
        ("learning_rate = 0.0001", "learning_rate = 0.01"),
    ):
        text = text.replace(old, new)
    rounds.DECLARATION.write_text(text, encoding="utf-8")
    committed = tmp_path / "rows"
    assert rounds.run_part("heads", tmp_path / "second", small, committed=committed) == 2
    rows = rounds.collect("heads", tmp_path / "second", committed)
    assert list(rows.columns) == [*rounds.COLUMNS, *rounds.SELECTED]
    for row, (run, folder) in zip(
        rows.itertuples(), runs_by_seed(tmp_path / "second/heads"), strict=True
    ):
        assert (row.label, row.seed) == (run.point.title(), run.seed)
        for place, score in (("best", row.sts), ("encoder", row.sts_last)):
            encoder = Encoder.load(folder / place)
            assert evaluate(encoder.encode, small["sts"], "sts").averages["sts"] == pytest.approx(
                score, abs=1e-6
            )
        assert (
            (row.best_step == 2) == (row.stsb_dev == row.stsb_dev_best) == (row.sts == row.sts_last)
        )
    assert set(rows.best_step) == {1, 2}
    assert rounds.collect("heads", tmp_path / "second", committed).equals(rows)
    rows.assign(sts_last=0.0).to_csv(committed / "heads.csv", index=False)
    with pytest.raises(GradlabError, match="is committed with another score"):
        rounds.collect("heads", tmp_path / "second", committed)


def runs_by_seed(folder):
    return sorted(runs_in(folder), key=lambda one: (one[0].seed, one[0].point.title()))


# Losses by what is made to tell their scores: the feature, a rival, both, or nothing.
TOLD = {
    "success": ("feature",),
    "worse than alignment and uniformity": ("alignment", "uniformity"),
    "not told apart from STS-B dev at step 10": ("feature", "stsb_dev"),
    "not told apart from mean of the softmax runs": (),
}


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Writes rows of all declared runs of the prediction, and features of all conditions.

    Some of the features tell the scores.
    """
    for other in ("surface", "interventions"):  # have tests of their own
        monkeypatch.setattr(results, f"_write_{other}", lambda *_: iter(()))

    def make(telling):
        rng, features = np.random.default_rng(0), []
        for part in ("surface", "fresh", "native"):
            rows = []
            for point in rounds.sweep_of(part, {"backbone": "bert-base"}).points({}):
                label, score = point.title(), rng.normal(50, 9)
                for seed in point.seeds:
                    sts = round((score + rng.normal()) / 100, 6)
                    rows.append((label, seed, "finished", sts, 0.5, 0.5, "", ""))
                rate = point.settings["learning_rate"]
                own = {"part": part, "label": label, "learning_rate": rate, "seed": 11}
                for name in ("feature", "alignment", "uniformity", "stsb_dev"):
                    own[name] = rng.normal()
                    if name in telling:
                        own[name] = (score - 50) / 9 + 0.3 * own[name]
                # The declared feature is their mean.
                own["feature_0"] = own["feature"] - own["uniformity"]
                own["feature_10"] = own["feature"] + own["uniformity"]
                features.append(own)
            pd.DataFrame(rows, columns=rounds.COLUMNS).to_csv(tmp_path / f"{part}.csv", index=False)
        first = pd.read_csv(rounds.ROWS / "features.csv")
        first = first[~first.part.isin(("surface", "fresh", "native"))]
        pd.concat([first, pd.DataFrame(features)]).to_csv(tmp_path / "features.csv", index=False)
        return tmp_path

    return make


def declared_rows(folder):
    """The rows that `made` wrote."""
    parts = ("surface", "fresh", "native")
    return pd.concat([pd.read_csv(folder / f"{part}.csv").assign(part=part) for part in parts])


def told_of(folder):
    """What is told of the declared prediction."""
    return [line for line in write_results(folder) if line.startswith("declared-prediction")]


def test_the_feature_of_each_step_alone_is_told(made):
    """Beside a line fitted with numpy."""
    folder = made(("feature",))
    told = [line for line in write_results(folder) if line.startswith("feature after")]
    features = pd.read_csv(folder / "features.csv")
    rows = declared_rows(folder).merge(features, on=["part", "label"])
    fitted, tested = rows[rows.part == "surface"], rows[rows.part != "surface"]
    sizes = []
    for step, line in zip((0, 10), told, strict=True):
        own = np.polyfit(fitted[f"feature_{step}"], fitted.sts, 1)
        sizes.append(
            100 * np.sqrt(((np.polyval(own, tested[f"feature_{step}"]) - tested.sts) ** 2).mean())
        )
        assert line.startswith(f"feature after {step} steps alone, not declared: {sizes[-1]:.1f}; ")
        assert "beside STS-B dev at step 10" in line
    declared = pd.read_csv(folder / "declared-prediction-errors.csv").error[0]
    assert len({f"{size:.1f}" for size in (*sizes, declared)}) == 3


@pytest.mark.parametrize(("verdict", "telling"), TOLD.items())
def test_the_declared_prediction_is_judged_as_declared(made, verdict, telling):
    """Beside errors computed in numpy, and samples of losses with all of their runs."""
    folder = made(telling)
    runs, outcome = told_of(folder)
    assert runs == "declared-prediction: 174 tested runs of 46 losses, errors in points"
    assert verdict in outcome
    assert ("no success" in outcome) == (verdict != "success")
    found = pd.read_csv(folder / "declared-prediction-errors.csv").set_index("predictor")
    features = pd.read_csv(folder / "features.csv").set_index(["part", "label"])
    rows = declared_rows(folder)
    own = features.loc[list(zip(rows.part, rows.label, strict=True))]
    score, fitted = 100 * rows.sts.to_numpy(), (rows.part == "surface").to_numpy()
    design = np.column_stack([np.ones(len(own)), own.feature])
    line = np.linalg.solve(design[fitted].T @ design[fitted], design[fitted].T @ score[fitted])
    squares = {
        "feature": (design @ line - score) ** 2,
        "mean of the softmax runs": (score[fitted].mean() - score) ** 2,
    }
    losses = rows.label.str.split("loss=").str[-1].to_numpy()
    names = np.unique(losses[~fitted])
    above = score > 41.6887
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, len(names), (2_000, len(names)))
    sizes = {}
    for name, square in squares.items():
        assert found.error[name] == pytest.approx(np.sqrt(square[~fitted].mean()), rel=1e-5)
        assert found.error_above[name] == pytest.approx(
            np.sqrt(square[~fitted & above].mean()), rel=1e-5
        )
        sums, counts = (
            np.array([values[~fitted & (losses == one)].sum() for one in names])
            for values in (square, np.ones(len(square)))
        )
        sizes[name] = np.sqrt(sums[drawn].sum(1) / counts[drawn].sum(1))
        close = 0.15 * sizes[name].std()
        low, high = np.quantile(sizes[name], [0.025, 0.975])
        assert (found.error_low[name], found.error_high[name]) == pytest.approx(
            (low, high), abs=close
        )
    parts = pd.read_csv(folder / "declared-prediction-parts.csv").set_index(["part", "predictor"])
    for part in ("fresh", "native"):
        own_part = (rows.part == part).to_numpy()
        own, ranks = (
            parts.loc[part, "feature"],
            stats.spearmanr((design @ line)[own_part], score[own_part]),
        )
        assert own.error == pytest.approx(np.sqrt(squares["feature"][own_part].mean()), rel=1e-5)
        assert own.rank_correlation == pytest.approx(ranks.statistic, abs=1e-5)
        assert (own.score, own.deviation) == pytest.approx(
            (score[own_part].mean(), score[own_part].std()), rel=1e-5
        )
    assert np.isnan(parts.rank_correlation[("native", "mean of the softmax runs")])
    rival = found.loc["mean of the softmax runs"]
    excess = sizes["feature"] - sizes["mean of the softmax runs"]
    low, high = np.quantile(excess, [0.025, 0.975])
    assert (rival.low, rival.high) == pytest.approx((low, high), abs=0.15 * excess.std())


def test_the_declared_prediction_waits_for_every_run_and_every_feature(made):
    folder = made(("feature",))
    features, native = pd.read_csv(folder / "features.csv"), pd.read_csv(folder / "native.csv")
    features.drop(features.index[-3:]).to_csv(folder / "features.csv", index=False)
    assert told_of(folder) == [
        "declared-prediction: not judged before the features of 3 more conditions are measured"
    ]
    features.to_csv(folder / "features.csv", index=False)
    native[1:].to_csv(folder / "native.csv", index=False)
    assert told_of(folder) == []
    assert not list(folder.glob("declared-*"))


def test_a_feature_that_is_no_number_is_an_error(made):
    folder = made(("feature",))
    features = pd.read_csv(folder / "features.csv")
    features.loc[features.index[-1], "feature"] = np.nan
    features.to_csv(folder / "features.csv", index=False)
    with pytest.raises(
        GradlabError, match="of 'native' has no features, or some that are no numbers"
    ):
        list(write_results(folder))


def test_a_diverged_run_counts_as_the_untrained_encoder_and_is_told(made):
    folder = made(("feature",))
    native = pd.read_csv(folder / "native.csv")
    native.loc[0, ["state", "sts"]] = "diverged", 0.416887
    native.to_csv(folder / "native.csv", index=False)
    lines = list(write_results(folder))
    assert (
        "native: 144 runs, 3 to 3 seeds a condition, 1 diverged and count as the untrained encoder"
        in lines
    )
    assert any("174 tested runs" in line for line in lines)
    table = pd.read_csv(folder / "declared-predictions.csv")
    assert (table.score == 41.6887).sum() == 1
