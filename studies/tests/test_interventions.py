"""Interventions: equal angles, the same batches, and what the rows say, beside naive loops."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import spearmanr

import gradlab
from gradlab.evaluate import ScoredPairs
from studies.runs import read_rows
from studies.second_round import interventions
from studies.second_round.interventions import Bench, correlations, declaration, intervene, left_out
from studies.second_round.results import _write_interventions
from tests.senteval_folder import make_senteval
from tests.tiny_models import make_bert, make_sentences

DECLARED = {
    "seeds": [3], "kept": [0, 2], "steps": 2, "batch_size": 8, "max_length": 16, "pooler": "cls",
    "shared": {"loss": "infonce", "learning_rate": 1e-3},
    "rotation": {"degrees": 2.0, "pairs": 20, "within": 0.05, "tries": 8},
    "losses": {"names": ["infonce", "siglip", "met"]},
}  # fmt: skip


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("interventions")
    sentences = make_sentences(120)
    (folder / "train.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    pairs = ScoredPairs(
        "made", sentences[:40], sentences[40:80], [float(one % 6) for one in range(40)]
    )
    return (
        str(make_bert(folder / "bert")),
        folder / "train.txt",
        make_senteval(folder / "sts"),
        pairs,
    )


@pytest.fixture
def bench(places):
    model, file, sts, pairs = places
    return Bench(model, file.read_text(encoding="utf-8").splitlines(), pairs, sts, DECLARED)


def test_declared_losses_have_a_gradient_on_a_batch():
    declared = declaration()
    torch.manual_seed(0)
    views = torch.randn(2, declared["batch_size"], 312, requires_grad=True)
    assert len(declared["losses"]["names"]) == len(set(declared["losses"]["names"])) == 24
    for name in declared["losses"]["names"]:
        (found,) = torch.autograd.grad(gradlab.get_loss(name)(*views, normalize=True), views)
        assert found.isfinite().all(), name
        assert found.any(), name


def test_a_kept_state_is_that_many_steps_of_the_shared_loss(bench):
    begin = bench.state()
    kept = bench.shared_run(3)
    bench.take(begin, gradlab.get_loss("infonce"), 1e-3, 3)
    for name, value in bench.state().items():
        torch.testing.assert_close(value, kept[2][name], rtol=0, atol=0)
    assert all(torch.equal(value, kept[0][name]) for name, value in begin.items())


def test_the_size_of_a_loss_changes_nothing(bench):
    begin = bench.state()
    one, other = (
        bench.take(begin, gradlab.get_loss(name), 1e-3, 5)
        for name in ("met", "sum(met, weights=1000)")
    )
    assert other.rotation == pytest.approx(one.rotation, rel=1e-3)  # but for Adam's eps
    assert other.components["push"] == pytest.approx(1000 * one.components["push"], rel=1e-5)
    assert other.components["pull"] == pytest.approx(one.components["pull"], rel=1e-5)


@pytest.mark.parametrize("name", ["siglip", "arccon"])
def test_rates_are_matched_by_the_angle(bench, name):
    begin, loss = bench.state(), gradlab.get_loss(name)
    rate, taken = bench.matched(begin, loss, 1e-5, 5)
    after = bench.rows()
    bench.encoder.load_state_dict(begin)
    angles = np.degrees(np.arccos((after * bench.rows()).sum(1)))
    assert taken.rotation == pytest.approx(angles.mean(), rel=1e-4)
    assert taken.rotation == pytest.approx(2.0, rel=0.05)
    assert bench.take(begin, loss, rate, 5).rotation == pytest.approx(taken.rotation)


def test_a_loss_whose_gates_are_closed_stays(bench):
    rate, taken = bench.matched(bench.state(), gradlab.get_loss("mpt(margin=-1)"), 1e-5, 5)
    assert (rate, taken.rotation, taken.components["push"]) == (1e-5, 0.0, 0.0)


def test_a_row_an_intervention_and_none_twice(places, tmp_path):
    path = tmp_path / "interventions.csv"
    for seeds in ([4], [], []):
        intervene(*places, path=path, declared=DECLARED | {"seeds": [3, 4]}, seeds=seeds)
    rows = read_rows(path)
    assert [(row["seed"], row["step"], row["loss"]) for row in rows] == [
        (seed, step, name) for seed in "43" for step in "02" for name in DECLARED["losses"]["names"]
    ]
    assert all(float(row["rotation"]) == pytest.approx(2.0, rel=0.05) for row in rows)


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    made = pd.DataFrame(
        [(seed, step, loss) for seed in (1, 2, 3) for step in (0, 5) for loss in "abcdefghij"],
        columns=["seed", "step", "loss"],
    )
    for name in ("stsb_dev", "alignment", "uniformity", "pull", "hardest_share"):
        made[name] = rng.normal(size=len(made))
    return made


def test_correlations_are_within_a_seed_and_a_kept_encoder(table):
    found = correlations(table).set_index(["step", "what"])
    for (step, what), one in found.iterrows():
        parts = [table[(table.step == step) & (table.seed == seed)] for seed in (1, 2, 3)]
        by_seed = [spearmanr(part[what], part.stsb_dev).statistic for part in parts]
        assert one["mean"] == pytest.approx(np.mean(by_seed))
        assert one.high - one["mean"] == pytest.approx(
            4.302653 * np.std(by_seed, ddof=1) / np.sqrt(3)
        )


def test_what_a_line_leaves_out_beside_a_loop_over_losses(table):
    table["stsb_dev"] += 3 * table.alignment
    found = left_out(table).set_index(["step", "fitted"])["mean"]
    shares = []
    for seed in (1, 2, 3):
        part = table[(table.step == 5) & (table.seed == seed)].reset_index()
        errors = []
        for row in range(len(part)):
            others = part.drop(row)
            design = np.column_stack([np.ones(9), others.alignment, others.uniformity])
            line = np.linalg.lstsq(design, others.stsb_dev, rcond=None)[0]
            guess = line @ [1, part.alignment[row], part.uniformity[row]]
            errors.append([part.stsb_dev[row] - guess, part.stsb_dev[row] - others.stsb_dev.mean()])
        line, mean = (np.array(errors) ** 2).mean(0)
        shares.append(line / mean)
    assert found[5, "changes"] == pytest.approx(np.mean(shares))
    assert found[5, "changes"] < 0.5 < found[5, "components"]


def test_interventions_are_judged_when_all_are_made(table, tmp_path, monkeypatch):
    made = {"seeds": [1, 2, 3], "kept": [0, 5], "losses": {"names": list("abcdefghij")}}
    monkeypatch.setattr(interventions, "declaration", lambda: made)
    assert list(_write_interventions(table[:-1], tmp_path)) == ["interventions: 59 of 60 are made"]
    assert not list(tmp_path.iterdir())
    list(_write_interventions(table, tmp_path))
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "interventions-left-out.csv", "interventions-orders.csv", "interventions.png"
    ]  # fmt: skip
