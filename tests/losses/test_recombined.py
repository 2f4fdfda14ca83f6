"""Recombination: its parts against the losses they come from, and published losses it yields."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle

import numpy as np
import pytest
import torch

import gradlab
from gradlab.losses.batch_loss import BatchLoss
from gradlab.losses.infonce import InfoNCE
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.recombined import RecombinedOnViews
from gradlab.losses.registry import loss_class
from tests.losses.naive_losses import KINDS, assert_same, batch, dots, plain_gradients, tangent

NAMES = [
    name
    for name in gradlab.loss_names()
    if name not in ("recombined", "supcon", "sincere", "mil_nce", "triplet")
]
kinds = pytest.mark.parametrize("kind", KINDS)


def assert_same_components(left: gradlab.Components, right: gradlab.Components) -> None:
    assert left.negative_view == right.negative_view
    for name in ("gradient_dissipation", "weight", "positive_weight"):
        torch.testing.assert_close(
            getattr(left, name), getattr(right, name), rtol=1e-12, atol=1e-300
        )


@kinds
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("gauge", ["declared", "unit"])
def test_a_loss_recombined_of_its_own_parts_has_its_gradient(
    name: str, kind: str, gauge: str
) -> None:
    anchors, positives = batch(kind)
    loss = gradlab.recombine(gate=name, weight=name, ratio=name, gauge=gauge)
    components, own = (gradlab.components(source, anchors, positives) for source in (loss, name))
    if gauge == "declared":
        assert isinstance(loss, PairLoss if issubclass(loss_class(name), PairLoss) else BatchLoss)
        assert_same_components(components, own)
    else:
        sizes, pushed = (source.weight.abs().sum(-1) for source in (components, own))
        torch.testing.assert_close(sizes, (pushed > 0).to(sizes.dtype), rtol=1e-12, atol=0)
        assert_same(components.gradient(), own.gradient(), own)
    for tangential in (True, False):
        gradient = gradlab.autograd_gradient(loss, anchors, positives, tangent=tangential)
        assert_same(gradient, own.gradient(tangent=tangential), own)


FALL_OUT = {
    "baseline": {"weight": "infonce", "ratio": 1.0, "factor": 0.05},
    "modified_mhe": {"weight": "mhe(nu=1, temperature=0.05)", "ratio": 1.75},
    "modified_mhs": {"weight": "mhs", "ratio": 1.75},
    "modified_barlow_twins": {"weight": "modified_barlow_twins", "ratio": 1.5},
    "modified_vicreg": {"weight": "mhe(nu=1, temperature=0.05)", "ratio": 1.5, "factor": 0.05 / 2},
}


@kinds
@pytest.mark.parametrize("effective_ratio", ["r", "2r"])
@pytest.mark.parametrize("name", FALL_OUT)
def test_the_baseline_and_the_repairs_fall_out(name: str, effective_ratio: str, kind: str) -> None:
    """Components, and the gradients of a sum over the anchors in both views."""
    anchors, positives = batch(kind, count=9)
    loss = gradlab.recombine(
        gate="mpt(margin=0.3)", effective_ratio=effective_ratio, **FALL_OUT[name]
    )
    published = gradlab.get_loss(name, effective_ratio=effective_ratio)
    components = gradlab.components(published, anchors, positives)
    assert_same_components(gradlab.components(loss, anchors, positives), components)
    ours, published_gradients = (
        plain_gradients(
            lambda h, second_view, recombined=recombined: recombined(
                h, second_view, normalize=True, reduction="sum"
            ),
            anchors,
            positives,
        )
        for recombined in (loss, published)
    )
    for left, right in zip(ours, published_gradients, strict=True):
        assert_same(left, right, components)


@kinds
def test_infonces_gate_with_mhes_weight(kind: str) -> None:
    """Parts of both families; the surrogate of Eq. 5 with ArcCon's ratio."""
    anchors, positives = batch(kind)
    tau, u = 0.2, math.radians(10)
    loss = gradlab.recombine(
        gate="infonce(temperature=0.2)", weight="mhe", ratio="arccon", factor=2
    )
    across, within = (
        torch.tensor(dots(anchors, columns), dtype=torch.float64)
        for columns in (positives, anchors)
    )
    components = gradlab.components(loss, anchors, positives)
    assert components.negative_view == "same"
    gate = 1 - torch.softmax(across / tau, dim=1).diagonal()
    energy = torch.exp(2 * within).fill_diagonal_(0)
    weight = 2 * 20 * energy / (energy.sum() / 2)
    angle = 2 * torch.atan2((anchors - positives).norm(dim=1), (anchors + positives).norm(dim=1))
    ratio = torch.sin(angle + u) / torch.sin(angle)
    torch.testing.assert_close(components.gradient_dissipation, gate, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(components.weight, weight, rtol=1e-12, atol=0)
    torch.testing.assert_close(components.ratio, ratio, rtol=1e-12, atol=0)
    expected = gate[:, None] * (weight @ anchors - (weight.sum(1) * ratio)[:, None] * positives)
    assert_same(
        gradlab.autograd_gradient(loss, anchors, positives, tangent=False), expected, components
    )
    value = gate * (weight * (within - (ratio * across.diagonal())[:, None])).sum(1)
    assert_same(loss(anchors, positives, reduction="none"), value, components)


@pytest.mark.parametrize("effective_ratio", ["r", "2r"])
def test_weights_of_the_other_view_in_a_loss_of_whole_views(effective_ratio: str) -> None:
    """MHE's ratio makes it a loss of whole views; negatives stay InfoNCE's and receive gradient."""
    anchors, positives = batch()
    loss = gradlab.recombine(
        gate="mpt", weight="infonce", ratio="mhe", effective_ratio=effective_ratio
    )
    assert isinstance(loss, RecombinedOnViews)
    components = gradlab.components(loss, anchors, positives)
    assert components.negative_view == loss.negative_view == "other"
    torch.testing.assert_close(
        components.ratio, gradlab.components("mhe", anchors, positives).ratio
    )
    _, slopes = plain_gradients(lambda h, o: loss(h, o, reduction="sum"), anchors, positives)
    push = components.gradient_dissipation[:, None] * components.weight
    expected = -(components.gradient_dissipation * components.positive_weight)[:, None] * anchors
    if effective_ratio == "r":
        expected = expected + push.T @ anchors
    assert_same(tangent(slopes, positives), tangent(expected, positives), components)
    assert_same(gradlab.autograd_gradient(loss, anchors, positives), components.gradient())


def test_constants() -> None:
    anchors, positives = batch()
    queue, _ = batch("random", count=5, seed=1)
    loss = gradlab.recombine(gate=0.5, weight="uniform", ratio=1.25)
    components = gradlab.components(loss, anchors, positives, queue)
    assert components.gradient_dissipation.tolist() == [0.5] * 7
    expected = torch.ones(7, 12, dtype=torch.float64).fill_diagonal_(0) / 11
    torch.testing.assert_close(components.weight, expected)
    torch.testing.assert_close(components.ratio, torch.full((7,), 1.25, dtype=torch.float64))
    components = gradlab.components(
        gradlab.recombine(gate=0.5, weight=3, ratio=0, factor=2), anchors, positives
    )
    torch.testing.assert_close(
        components.weight, 6 * torch.ones(7, 7, dtype=torch.float64).fill_diagonal_(0)
    )
    assert not components.ratio.any()


LOSSES = [
    gradlab.recombine(gate="mpt(margin=0.3)", weight="infonce", ratio=1.25, factor=0.05),
    gradlab.recombine(gate=1.0, weight="uniform", ratio="met"),
    gradlab.recombine(gate=gradlab.get_loss("arccon", margin=0.1), weight="met", ratio=InfoNCE()),
    gradlab.recombine(
        gate="modified_mhe(margin=0.2, gate=one_view)", weight="0.5 * mhe", ratio=1.25
    ),
    gradlab.recombine(gate="mpt", weight="infonce", ratio=1.25, gauge="unit"),
]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_recombined_losses_are_values(loss: gradlab.Loss) -> None:
    saved = json.loads(json.dumps(dataclasses.asdict(loss)))
    for copy in (pickle.loads(pickle.dumps(loss)), gradlab.get_loss("recombined", **saved)):
        assert copy == loss
        assert hash(copy) == hash(loss)
        assert type(copy) is type(loss)
    assert all(check.passed for check in gradlab.verify(loss, batch_size=8, dim=6))


@dataclasses.dataclass(frozen=True)
class Doubled(InfoNCE):
    """A user's own loss, not registered."""

    def weight(self, negatives):
        return 2 * super().weight(negatives)


def test_a_users_own_loss_is_a_part() -> None:
    anchors, positives = batch()
    loss = gradlab.recombine(gate="mpt", weight=Doubled(), ratio=1)
    plain = gradlab.recombine(gate="mpt", weight="infonce", ratio=1)
    doubled = gradlab.components(loss, anchors, positives).weight
    torch.testing.assert_close(doubled, 2 * gradlab.components(plain, anchors, positives).weight)
    assert pickle.loads(pickle.dumps(loss)) == loss != plain


@pytest.mark.parametrize(
    ("quantity", "engine", "source"),
    [
        ("gradient_dissipation", "exact", "arccon"),
        ("gradient_dissipation", "monte_carlo", "arccon"),
        ("ratio", "exact", "met"),
        ("hardest_share", "monte_carlo", "arccon"),
    ],
)
def test_simulated_like_the_losses_it_is_made_of(quantity: str, engine: str, source: str) -> None:
    loss = gradlab.recombine(gate="arccon", weight="infonce", ratio="met")
    drawn = {"batches": 200} if engine == "monte_carlo" else {}
    simulated, expected = (
        gradlab.simulate(simulated_loss, quantity, engine, grid=4, **drawn).value
        for simulated_loss in (loss, source)
    )
    np.testing.assert_allclose(simulated, expected, rtol=1e-12)


def test_a_ratio_that_does_not_exist_is_refused() -> None:
    anchors, positives = batch()
    anchors[2] = anchors[4]
    with pytest.raises(gradlab.GradlabError, match="has no ratio"):
        gradlab.components(gradlab.recombine(gate=1, weight="mhe", ratio="mhs"), anchors, positives)


# --- the unit gauge: weights whose sizes sum to 1, dissipation the total push, ratio pull over push


@pytest.mark.parametrize(
    ("gate", "weight", "ratio"),
    [("mhe", "barlow_twins", "met"), ("met", "vicreg", "mhs"), ("modified_mhe", "infonce", "mhe")],
)
def test_exchanged_parts_in_the_unit_gauge(gate: str, weight: str, ratio: str) -> None:
    anchors, positives = batch("paired")
    loss = gradlab.recombine(gate=gate, weight=weight, ratio=ratio, gauge="unit")
    recombined, gates, weights, ratios = (
        gradlab.components(source, anchors, positives) for source in (loss, gate, weight, ratio)
    )
    push = gates.gradient_dissipation * gates.weight.abs().sum(1)
    torch.testing.assert_close(recombined.gradient_dissipation, push, rtol=1e-11, atol=0)
    shares = weights.weight / weights.weight.abs().sum(1, keepdim=True)
    torch.testing.assert_close(recombined.weight, shares, rtol=1e-11, atol=1e-15)
    pull = ratios.positive_weight / ratios.weight.abs().sum(1)
    torch.testing.assert_close(recombined.positive_weight, pull, rtol=1e-11, atol=0)


def test_constants_and_factors_in_the_unit_gauge() -> None:
    """A number is the push or the ratio itself; a factor of the weights changes nothing."""
    views = batch("random")
    flat = gradlab.components(
        gradlab.recombine(gate=1, weight="uniform", ratio=1.75, gauge="unit"), *views
    )
    assert flat.gradient_dissipation.tolist() == [1] * 7
    torch.testing.assert_close(flat.positive_weight, torch.full((7,), 1.75, dtype=torch.float64))

    def gradient(weight: str, gauge: str) -> torch.Tensor:
        loss = gradlab.recombine(gate="infonce", weight=weight, ratio="mhs", gauge=gauge)
        return gradlab.components(loss, *views).gradient()

    unit_gradient = gradient("mhe", "unit")
    torch.testing.assert_close(gradient("7 * mhe", "unit"), unit_gradient, rtol=1e-12, atol=1e-15)
    assert not torch.allclose(gradient("7 * mhe", "declared"), unit_gradient, rtol=0.1)
