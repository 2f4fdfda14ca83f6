"""The unit gauge: weights whose sizes sum to 1, dissipation the total push, ratio pull over push."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from naive_losses import KINDS, assert_same, batch

import gradlab
from gradlab import GradlabError
from gradlab.losses.recombined import Recombined, RecombinedOnViews

NAMES = [
    name
    for name in gradlab.loss_names()
    if name not in ("recombined", "supcon", "sincere", "mil_nce", "triplet")
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_losss_own_parts_make_its_gradient_in_any_gauge(name: str, kind: str) -> None:
    anchors, positives = batch(kind)
    loss = gradlab.recombine(gate=name, weight=name, ratio=name, gauge="unit")
    own, parts = (gradlab.components(one, anchors, positives) for one in (name, loss))
    assert_same(parts.gradient(), own.gradient(), own)
    assert_same(gradlab.autograd_gradient(loss, anchors, positives), own.gradient(), own)
    sizes = parts.weight.abs().sum(-1)
    pushed = own.weight.abs().sum(-1) > 0
    torch.testing.assert_close(sizes, pushed.to(sizes.dtype), rtol=1e-12, atol=0)


@pytest.mark.parametrize(("gate", "weight", "ratio"), [("mhe", "barlow_twins", "met"), ("met", "vicreg", "mhs"),
                                                       ("modified_mhe", "infonce", "mhe"), (1, "uniform", 1.75)])  # fmt: skip
def test_exchanged_parts_against_loops_from_the_definition(gate, weight, ratio) -> None:
    anchors, positives = batch("paired")
    n = len(anchors)
    made = gradlab.components(
        gradlab.recombine(gate=gate, weight=weight, ratio=ratio, gauge="unit"), anchors, positives
    )

    def of(name):
        return gradlab.components(name, anchors, positives)

    for i in range(n):
        if isinstance(gate, str):
            push = float(of(gate).gradient_dissipation[i]) * sum(abs(float(w)) for w in of(gate).weight[i])
        else:
            push = gate
        if weight == "uniform":
            shares = [0.0 if j == i else 1 / (n - 1) for j in range(n)]
        else:
            sizes = sum(abs(float(w)) for w in of(weight).weight[i])
            shares = [float(w) / sizes for w in of(weight).weight[i]]
        if isinstance(ratio, str):
            pull = float(of(ratio).positive_weight[i]) / sum(abs(float(w)) for w in of(ratio).weight[i])
        else:
            pull = ratio
        assert float(made.gradient_dissipation[i]) == pytest.approx(push, rel=1e-11)
        np.testing.assert_allclose(made.weight[i].numpy(), shares, rtol=1e-11, atol=1e-15)
        assert float(made.positive_weight[i]) == pytest.approx(pull, rel=1e-11)


def test_a_factor_on_weights_changes_nothing_and_on_the_gates_loss_the_push() -> None:
    anchors, positives = batch("random")

    def gradient(**parts):
        return gradlab.components(gradlab.recombine(**parts, gauge="unit"), anchors, positives).gradient()

    one = gradient(gate="infonce", weight="mhe", ratio="mhs")
    torch.testing.assert_close(
        gradient(gate="infonce", weight="7 * mhe", ratio="mhs"), one, rtol=1e-12, atol=1e-15
    )
    declared = gradlab.components(
        gradlab.recombine(gate="infonce", weight="7 * mhe", ratio="mhs"), anchors, positives
    )
    assert not torch.allclose(declared.gradient(), one, rtol=0.1)
    # InfoNCE's weights sum to 1/τ, which is its push where nothing dissipates.
    soft = gradlab.components(
        gradlab.recombine(gate="infonce", weight="uniform", ratio=1, gauge="unit"), anchors, positives
    )
    own = gradlab.components("infonce", anchors, positives)
    torch.testing.assert_close(soft.gradient_dissipation, own.gradient_dissipation / 0.05, rtol=1e-12, atol=0)


def test_the_unit_gauge_is_of_whole_views_and_is_saved() -> None:
    loss = gradlab.get_loss("recombined", gate="mpt", gauge="unit")
    assert isinstance(loss, RecombinedOnViews)
    assert loss.exact_gate() is None
    assert "gauge='unit'" in repr(loss)
    assert isinstance(gradlab.get_loss("recombined", gate="mpt"), Recombined)
    with pytest.raises(GradlabError, match="unit gauge needs whole views"):
        Recombined(gauge="unit")
    with pytest.raises(GradlabError, match="gauge must be"):
        gradlab.recombine(gate=1, weight="mpt", ratio=1, gauge="units")
