"""Anchors that count by the open share of another run: at random, or all at that scale."""

from __future__ import annotations

import pytest
import torch

import gradlab
from gradlab import GradlabError
from gradlab.encoder.model import Encoder
from gradlab.monitor.metrics import read_metrics
from gradlab.train import Objective, train
from gradlab.train.open_share import OpenShare, read_open_shares
from gradlab.train.parts import Parts
from tests.train_helpers import final_weights, same_weights, small_config


def write_shares(folder, shares, seed=42):
    path = folder / "shares.csv"
    lines = [f"{seed},{step},{share}" for step, share in enumerate(shares, start=1)]
    path.write_text("\n".join(["seed,step,share", "7,1,0.9", *lines]) + "\n", encoding="utf-8")
    return str(path)


def test_as_many_anchors_open_at_random_as_the_share_says():
    gate = OpenShare([0.25, 0.5, 0.0], "random", seed=3)
    first = gate.factors(64)
    assert first.sum() == 16
    assert torch.equal(first, gate.factors(64))
    gate.step = 1
    assert gate.factors(64).sum() == 32
    assert not torch.equal(OpenShare([0.25], "random", seed=4).factors(64), first)
    gate.step = 2
    assert gate.factors(64).sum() == 0
    assert torch.equal(OpenShare([0.3], "scale", seed=3).factors(5), torch.full((5,), 0.3))


def test_every_anchor_opens_as_often_as_another():
    counts = sum(OpenShare([0.25], "random", seed=seed).factors(16) for seed in range(4000))
    assert torch.all((counts - 1000).abs() < 5 * (4000 * 0.25 * 0.75) ** 0.5)  # five standard deviations


@pytest.mark.parametrize("use", ["random", "scale"])
def test_the_loss_is_the_mean_of_what_is_open(bert, use):
    gate = OpenShare([0.5], use, seed=1)
    encoder = Encoder.load(bert)
    objective = Objective(encoder, gradlab.get_loss("infonce"), parts=Parts(open_share=gate))
    rows = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    each = gradlab.get_loss("infonce")(rows[0], rows[1], reduction="none", normalize=True)
    expected = sum(float(f) * float(one.detach()) for f, one in zip(gate.factors(6), each, strict=True)) / 6
    assert float(objective.compare(rows[0], rows[1]).loss.detach()) == pytest.approx(expected, rel=1e-6)
    with torch.no_grad():  # measurements are of the loss itself
        assert float(objective.compare(rows[0], rows[1]).loss) == pytest.approx(float(each.mean()), rel=1e-6)


def test_a_gate_of_the_paired_run_opens_as_often(bert, tmp_path):
    """From the metrics of a run to the shares of its control; an open gate changes no weight."""
    gated = small_config(bert, tmp_path, "gated", loss="recombined", diagnostics_every=1,
                         loss_settings={"gate": "mpt(margin=0.02)", "weight": "0.05 * infonce", "ratio": 1.0})  # fmt: skip
    train(gated)
    shares = [
        v
        for _, group, name, v in read_metrics(tmp_path / "gated/metrics.csv")
        if (group, name) == ("diagnostics", "gradient_dissipation")
    ]
    assert len(shares) == 6
    assert 0 < sum(shares) < 6
    assert all(share * 8 == round(share * 8) for share in shares)
    path = write_shares(tmp_path, shares)
    assert read_open_shares(path, 42, 6) == shares
    free = {"loss": "recombined", "loss_settings": {"gate": 1.0, "weight": "0.05 * infonce", "ratio": 1.0}}
    train(small_config(bert, tmp_path, "random", **free, open_shares=path))
    train(small_config(bert, tmp_path, "off", **free))
    train(small_config(bert, tmp_path, "open", **free, open_shares=write_shares(tmp_path, [1.0] * 6)))
    assert not same_weights(tmp_path / "random", tmp_path / "off")
    for name, weight in final_weights(tmp_path / "open").items():
        torch.testing.assert_close(weight, final_weights(tmp_path / "off")[name], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seed,step,share\n42,1,0.5\n", "no share between 0 and 1 for step 2 of seed 42"),
        ("seed,step,share\n42,1,1.5\n42,2,1\n", "for step 1 of seed 42"),
        ("seed,step\n42,1\n", "a CSV with seed, step, share"),
        ("seed,step,share\n42,1,x\n", "a CSV with seed, step, share"),
    ],
)
def test_shares_that_are_none(tmp_path, text, words):
    path = tmp_path / "shares.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(GradlabError, match=words):
        read_open_shares(path, 42, 2)


def test_a_loss_of_the_whole_batch_has_no_anchors_to_choose(bert, tmp_path):
    config = small_config(bert, tmp_path, loss="mhe", open_shares=write_shares(tmp_path, [0.5] * 6))
    with pytest.raises(GradlabError, match="one loss of the whole batch"):
        train(config)
