"""The unit gauge: weights whose sizes sum to 1, dissipation the total push, ratio pull over push."""

from __future__ import annotations

import pickle

import pytest
import torch

import gradlab
from gradlab import GradlabError
from gradlab.losses.recombined import RecombinedOnViews
from tests.losses.naive_losses import KINDS, assert_same, batch
from tests.losses.test_recombined import NAMES


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


@pytest.mark.parametrize(
    ("gate", "weight", "ratio"),
    [("mhe", "barlow_twins", "met"), ("met", "vicreg", "mhs"), ("modified_mhe", "infonce", "mhe")],
)
def test_exchanged_parts_from_the_definition(gate: str, weight: str, ratio: str) -> None:
    anchors, positives = batch("paired")
    loss = gradlab.recombine(gate=gate, weight=weight, ratio=ratio, gauge="unit")
    made, gates, weights, ratios = (
        gradlab.components(one, anchors, positives) for one in (loss, gate, weight, ratio)
    )
    push = gates.gradient_dissipation * gates.weight.abs().sum(1)
    torch.testing.assert_close(made.gradient_dissipation, push, rtol=1e-11, atol=0)
    shares = weights.weight / weights.weight.abs().sum(1, keepdim=True)
    torch.testing.assert_close(made.weight, shares, rtol=1e-11, atol=1e-15)
    pull = ratios.positive_weight / ratios.weight.abs().sum(1)
    torch.testing.assert_close(made.positive_weight, pull, rtol=1e-11, atol=0)


def test_constants_and_factors() -> None:
    """A number is the push or the ratio itself; a factor of the weights changes nothing."""
    views = batch("random")
    flat = gradlab.components(gradlab.recombine(gate=1, weight="uniform", ratio=1.75, gauge="unit"), *views)
    assert flat.gradient_dissipation.tolist() == [1] * 7
    torch.testing.assert_close(flat.positive_weight, torch.full((7,), 1.75, dtype=torch.float64))

    def gradient(weight: str, gauge: str) -> torch.Tensor:
        loss = gradlab.recombine(gate="infonce", weight=weight, ratio="mhs", gauge=gauge)
        return gradlab.components(loss, *views).gradient()

    one = gradient("mhe", "unit")
    torch.testing.assert_close(gradient("7 * mhe", "unit"), one, rtol=1e-12, atol=1e-15)
    assert not torch.allclose(gradient("7 * mhe", "declared"), one, rtol=0.1)


def test_the_unit_gauge_is_of_whole_views_and_is_saved() -> None:
    loss = gradlab.get_loss("recombined", gate="mpt", gauge="unit")
    assert isinstance(loss, RecombinedOnViews)
    assert loss.exact_gate() is None
    assert pickle.loads(pickle.dumps(loss)) == loss != gradlab.get_loss("recombined", gate="mpt")
    with pytest.raises(GradlabError, match="gauge must be"):
        gradlab.recombine(gate=1, weight="mpt", ratio=1, gauge="units")
