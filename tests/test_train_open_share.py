"""Anchors that count by the open share of another run: at random, or all at that scale."""

from __future__ import annotations

import pytest
import torch

import gradlab
from gradlab.train import train
from gradlab.train.open_share import OpenShare, read_open_shares
from tests.train_helpers import (
    final_weights,
    make_objective,
    recorded,
    small_config,
    write_shares,
)


def test_as_many_anchors_open_at_random_as_the_share_says():
    gate = OpenShare([0.25, 0.5, 0.0, 0.25], "random", seed=3)
    first = gate.factors(64)
    assert torch.equal(first, gate.factors(64))
    assert not torch.equal(OpenShare([0.25], "random", seed=4).factors(64), first)
    for gate.count, count in enumerate((16, 32, 0, 16)):
        assert gate.factors(64).sum() == count
    assert not torch.equal(gate.factors(64), first)  # others at each step
    assert torch.equal(OpenShare([0.3], "scale", seed=3).factors(5), torch.full((5,), 0.3))


def test_every_anchor_opens_as_often_as_another():
    counts = sum(OpenShare([0.25], "random", seed=seed).factors(16) for seed in range(4000))
    # Five standard deviations.
    assert torch.all((counts - 1000).abs() < 5 * (4000 * 0.25 * 0.75) ** 0.5)


@pytest.mark.parametrize("use", ["random", "scale"])
def test_the_loss_is_the_mean_of_what_is_open(bert, tmp_path, use):
    shares = write_shares(tmp_path / "shares.csv", [0.5] * 4)
    objective = make_objective(bert, open_shares=shares, open_shares_use=use)
    rows = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    each = gradlab.get_loss("infonce")(rows[0], rows[1], reduction="none", normalize=True).detach()
    expected = float(objective.open_share.factors(6) @ each) / 6
    assert float(objective.compare(rows[0], rows[1]).loss.detach()) == pytest.approx(
        expected, rel=1e-6
    )
    with torch.no_grad():  # measurements are of the loss itself
        assert float(objective.compare(rows[0], rows[1]).loss) == pytest.approx(
            float(each.mean()), rel=1e-6
        )


def test_a_gate_of_the_paired_run_opens_as_often(bert, tmp_path):
    """From the metrics of a run to the shares of its control; an open gate changes no weight."""
    gated = {"gate": "mpt(margin=0.02)", "weight": "0.05 * infonce", "ratio": 1.0}
    free = {"loss": "recombined", "max_steps": 3, "diagnostics_every": 1}
    train(small_config(bert, tmp_path, "gated", **free, loss_settings=gated))
    shares = list(recorded(tmp_path / "gated", "gradient_dissipation").values())
    assert 0 < sum(shares) < 3
    assert all(share * 8 == round(share * 8) for share in shares)
    assert read_open_shares(write_shares(tmp_path / "shares.csv", shares), 42, 3) == shares
    free["loss_settings"] = gated | {"gate": 1.0}
    for name, given in (("random", shares), ("open", [1.0] * 3)):
        path = write_shares(tmp_path / "shares.csv", given)
        train(small_config(bert, tmp_path, name, **free, open_shares=path))
    train(small_config(bert, tmp_path, "off", **free))
    random, opened, off = (final_weights(tmp_path / name) for name in ("random", "open", "off"))
    for name, weight in off.items():
        torch.testing.assert_close(opened[name], weight, rtol=0, atol=1e-5)
    assert any(not torch.equal(random[name], weight) for name, weight in off.items())
