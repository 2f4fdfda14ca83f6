"""The feature of the prediction beside what an optimiser's step really does."""

import copy

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import rankdata, spearmanr

import gradlab
from gradlab.batch import unit_rows
from gradlab.encoder import Encoder
from gradlab.evaluate import ScoredPairs
from gradlab.sweep import Point
from studies.runs import RowFile, read_rows
from studies.second_round.feature import (
    adam_direction,
    agreement,
    cosine_changes,
    drawn,
    graded_pairs,
    measure_features,
)
from studies.second_round.prediction import (
    CONSTANT,
    PREDICTORS,
    declared,
    errors,
    predicted,
    runs_of_parts,
)
from tests.senteval_folder import make_senteval
from tests.tiny_models import make_bert, make_sentences


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return Encoder.load(
        str(make_bert(tmp_path_factory.mktemp("bert"))), "cls", max_length=16
    ).double()


@pytest.fixture(scope="module")
def pairs():
    sentences = make_sentences(140)
    return ScoredPairs("made", sentences[:70], sentences[70:], [float(one) for one in range(70)])


def gradient_of(encoder, pairs, seed):
    """Of InfoNCE on sixteen pairs, without dropout: parameter by name -> gradient."""
    encoder.eval()
    rows = [
        torch.stack([encode(encoder, text) for text in texts[seed : seed + 16]])
        for texts in (pairs.first, pairs.second)
    ]
    names = dict(encoder.named_parameters())
    found = torch.autograd.grad(
        gradlab.get_loss("infonce")(*rows, normalize=True), list(names.values()), allow_unused=True
    )
    return {name: part for name, part in zip(names, found, strict=True) if part is not None}


def encode(encoder, text):
    batch = encoder.tokenizer([text], truncation=True, max_length=16, return_tensors="pt")
    return encoder(batch["input_ids"], batch["attention_mask"])[0]


def cosines(encoder, pairs):
    """Of every pair, encoded by itself."""
    with torch.no_grad():
        rows = [
            unit_rows(torch.stack([encode(encoder, text) for text in texts]))
            for texts in (pairs.first, pairs.second)
        ]
    return (rows[0] * rows[1]).sum(-1).numpy()


def test_changes_of_cosines_are_those_of_a_small_optimiser_step(encoder, pairs):
    """After two steps, so that Adam has moments.

    The third one is taken at a tiny rate, half forwards and half backwards.
    """
    encoder = copy.deepcopy(encoder)
    optimiser = torch.optim.AdamW(encoder.parameters(), lr=1e-4, weight_decay=0.0)
    named = dict(encoder.named_parameters())
    for seed in range(3):
        gradient = gradient_of(encoder, pairs, seed)
        direction = adam_direction(optimiser, named, gradient)
        before = copy.deepcopy(encoder.state_dict())
        for name, part in gradient.items():
            named[name].grad = part
        if seed == 2:
            optimiser.param_groups[0]["lr"] = 1e-6
        optimiser.step()
    moved = {name: (one.detach() - before[name]) / 1e-6 for name, one in named.items()}
    for name, part in direction.items():
        torch.testing.assert_close(part, moved[name], rtol=1e-6, atol=1e-8)
    ends = []
    for step in (5e-7, -5e-7):
        changed = {name: before[name] + step * way for name, way in moved.items()}
        encoder.load_state_dict(before | changed)
        ends.append(cosines(encoder, pairs))
    encoder.load_state_dict(before)
    cosine, change = cosine_changes(encoder, direction, pairs, 16)
    np.testing.assert_allclose(cosine, cosines(encoder, pairs), atol=1e-12)
    np.testing.assert_allclose(
        change, (ends[0] - ends[1]) / 1e-6, rtol=1e-4, atol=1e-4 * np.abs(change).max()
    )


def test_a_first_step_of_adam_is_the_sign_of_the_gradient(encoder):
    optimiser = torch.optim.AdamW(encoder.parameters())
    named = dict(encoder.named_parameters())
    gradient = {name: torch.randn_like(one).sign() for name, one in named.items()}
    for name, part in adam_direction(optimiser, named, gradient).items():
        torch.testing.assert_close(part, -gradient[name], rtol=2e-8, atol=0)  # off by eps = 1e-8


def test_agreement_is_one_where_every_pair_moves_to_its_rank():
    gold, cosine = [0.0, 1.0, 2.0, 3.0, 4.0], np.array([0.5, 0.1, 0.9, 0.2, 0.3])
    wanted = rankdata(gold) - rankdata(cosine)
    assert agreement(wanted, cosine, gold) == pytest.approx(1.0)
    assert agreement(-wanted, cosine, gold) == pytest.approx(-1.0)
    change = np.array([0.3, -0.1, 0.2, 0.0, 0.4])
    assert agreement(change, cosine, gold) == pytest.approx(spearmanr(change, wanted).statistic)


def test_the_same_pairs_are_drawn_always(pairs):
    some = drawn(pairs, 10)
    assert some == drawn(pairs, 10)
    assert len(set(some.gold)) == 10
    assert all(
        pairs.first[int(gold)] == first for gold, first in zip(some.gold, some.first, strict=True)
    )


@pytest.fixture
def table():
    """Rows of features: six fitted cells, half of them softmaxes, and five losses to be tested."""
    rng = np.random.default_rng(3)
    kinds = ("softmax .05", "uniform")
    labels = [f"none / {kind}, {number}" for kind in kinds for number in range(3)] + list("abcde")
    parts = ["factorial"] * 6 + ["atlas", "prediction", "atlas", "atlas", "prediction"]
    rows = pd.DataFrame({"part": parts, "label": labels, "seed": 1})
    for name in ("feature", "alignment", "uniformity", "stsb_dev"):
        rows[name] = rng.normal(size=len(rows))
    rows["learning_rate"] = 10 ** rng.uniform(-5, -3, len(rows))
    return rows


def runs_of(table, scores):
    """A run a row of features."""
    return table[["part", "label"]].assign(score=scores)


def test_predictions_are_lines_through_the_fitted_cells(table):
    scores = np.random.default_rng(4).normal(50, 8, len(table))
    found = predicted(table, runs_of(table, scores)).set_index("loss")
    fitted, tested = table[:6], table[6:]
    assert set(found.index) == set("abcde")
    assert found[CONSTANT].to_numpy() == pytest.approx(scores[:3].mean())
    seen = {"feature": lambda t: t.feature, "learning rate": lambda t: np.log(t.learning_rate)}
    for name, of in seen.items():
        line = np.polyfit(of(fitted), scores[:6], 1)
        assert found[name][tested.label].to_numpy() == pytest.approx(np.polyval(line, of(tested)))


def test_cells_that_are_the_same_training_count_once(table):
    runs = runs_of(table, np.random.default_rng(4).normal(50, 8, len(table)))
    names = {one: "hard / " + one[7:] for one in table.label[:2]}
    once = predicted(table, runs)
    both = (pd.concat([one[:2].replace({"label": names}), one]) for one in (table, runs))
    twice = predicted(*both)
    pd.testing.assert_frame_equal(twice, once)


def test_errors_and_their_intervals(table):
    """Where the feature is right, a rival's error is all excess; beside a loop over samples."""
    made = predicted(table, runs_of(table, 45 + 5 * table.feature.to_numpy()))
    found = errors(made).set_index("predictor")
    assert found.error["feature"] == pytest.approx(0, abs=1e-9)
    rng = np.random.default_rng(5)
    rows = rng.integers(0, 5, (10_000, 5))
    for name, one in found.drop("feature").iterrows():
        wrong = (made[name] - made.score).to_numpy()
        assert one.error == pytest.approx(np.sqrt((wrong**2).mean()))
        samples = np.sqrt((wrong[rows] ** 2).mean(1))
        low, high = np.quantile(samples, [0.025, 0.975])
        spread = samples.std()
        assert one.excess == pytest.approx(-one.error)
        assert (one.error_low, one.error_high) == pytest.approx((low, high), abs=0.1 * spread)
        assert one.low == pytest.approx(-high, abs=0.1 * spread)
        assert one.high == pytest.approx(-low, abs=0.1 * spread)
        assert one.error_above == pytest.approx(np.sqrt((wrong[made.score > 41.6887] ** 2).mean()))


def test_a_bootstrap_takes_a_loss_with_all_of_its_runs():
    """Three losses with four, two and one runs, beside a loop over samples."""
    rng = np.random.default_rng(6)
    made = pd.DataFrame({"loss": list("aaaabbc"), "score": rng.normal(50, 5, 7)})
    for name in (CONSTANT, *PREDICTORS):
        made[name] = made.score + rng.normal(0, 4, 7)
    found = errors(made).set_index("predictor")
    names = [CONSTANT, "learning rate"]
    samples = []
    for _ in range(4_000):
        drawn_losses = rng.choice(list("abc"), 3)
        rows = np.concatenate([np.flatnonzero(made.loss == one) for one in drawn_losses])
        size = np.sqrt(((made[["feature", *names]].sub(made.score, axis=0)) ** 2).iloc[rows].mean())
        samples.append(size.feature - size[names])
    samples = pd.DataFrame(samples)
    for name in names:
        low, high = samples[name].quantile([0.025, 0.975])
        assert found.low[name] == pytest.approx(low, abs=0.15 * samples[name].std())
        assert found.high[name] == pytest.approx(high, abs=0.15 * samples[name].std())


def test_the_declared_runs_are_tested_run_by_run():
    """Two recombined losses with a run each, and a published one at two rates with two seeds."""
    labels = ["0: τ=1", "1: τ=2", "2: τ=3", "0: τ=4", "rate=1, loss=met", "rate=2, loss=met"]
    features = pd.DataFrame({"part": ["surface"] * 3 + ["fresh"] + ["native"] * 2, "label": labels})
    rng = np.random.default_rng(7)
    for name in ("feature", "alignment", "uniformity", "stsb_dev"):
        features[name] = rng.normal(size=6)
    features["learning_rate"] = [1e-5, 1e-4, 1e-3, 3e-4, 1e-4, 1e-3]
    rows = {
        "surface": pd.DataFrame({"label": labels[:3], "sts": [0.3, 0.5, 0.4]}),
        "fresh": pd.DataFrame({"label": labels[3:4], "sts": [0.45]}),
        "native": pd.DataFrame({"label": labels[4:] * 2, "sts": [0.5, 0.2, 0.52, 0.22]}),
    }
    found = predicted(features, runs_of_parts(rows, declared()), declared())
    assert sorted(found.loss) == ["0: τ=4"] + ["met"] * 4
    assert sorted(found.score) == pytest.approx([20, 22, 45, 50, 52])
    assert found[CONSTANT].to_numpy() == pytest.approx(40)
    line = np.polyfit(np.log([1e-5, 1e-4, 1e-3]), [30, 50, 40], 1)
    one = found[found.score.round() == 20]
    assert one["learning rate"].item() == pytest.approx(np.polyval(line, np.log(1e-3)))


def test_a_row_a_loss_and_none_twice(tmp_path):
    sentences = make_sentences(120)
    (tmp_path / "train.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    settings = {
        "model": str(make_bert(tmp_path / "bert")), "train_file": str(tmp_path / "train.txt"),
        "precision": "float32", "sts": str(make_senteval(tmp_path / "senteval")), "batch_size": 8,
        "max_steps": 12, "max_length": 16, "eval_every": 100, "eval_start": False, "pooler": "cls",
        "device": "cpu", "loss": "infonce", "learning_rate": 1e-3,
    }  # fmt: skip
    point, table = Point({}, settings, (1,), label="mine"), RowFile(tmp_path / "features.csv")
    pairs = graded_pairs(tmp_path / "senteval")
    measure_features([point], "atlas", table, 1, pairs)
    # Its first seed.
    measure_features([point], "atlas", RowFile(tmp_path / "features.csv"), None, pairs)
    (row,) = read_rows(tmp_path / "features.csv")
    assert (row["part"], row["label"], row["learning_rate"]) == ("atlas", "mine", "0.001")
    found = [float(row[name]) for name in ("feature", "feature_0", "feature_10")]
    assert found[0] == pytest.approx(np.mean(found[1:]), abs=1e-5)
    assert all(-1 <= one <= 1 for one in found)
    assert float(row["uniformity"]) < 0 < float(row["alignment"])


def test_rows_that_two_processes_add_are_all_kept(tmp_path):
    first, second = (RowFile(tmp_path / "rows.csv") for _ in range(2))
    first.add({"part": "surface"}, {"value": 1.0})
    second.add({"part": "native"}, {"value": 2.0})
    assert [row["part"] for row in read_rows(tmp_path / "rows.csv")] == ["surface", "native"]
    assert second.has(part="surface")
