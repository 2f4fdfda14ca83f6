"""Recombination: its parts against the losses they come from, and the published losses that fall out of it."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from naive_losses import KINDS, assert_same, batch, dots, others, plain_gradients, unordered_pairs

import gradlab
from gradlab.cli.options import build_loss
from gradlab.losses.base import BatchLoss, PairLoss
from gradlab.losses.infonce import InfoNCE
from gradlab.losses.recombined import Recombined, RecombinedOnViews
from gradlab.losses.registry import loss_class

NAMES = [
    name
    for name in gradlab.loss_names()
    if name not in ("recombined", "supcon", "sincere", "mil_nce", "triplet")
]
kinds = pytest.mark.parametrize("kind", KINDS)


def assert_same_components(left: gradlab.Components, right: gradlab.Components) -> None:
    assert left.negative_view == right.negative_view
    for name in ("gradient_dissipation", "weight", "positive_weight"):
        torch.testing.assert_close(getattr(left, name), getattr(right, name), rtol=1e-12, atol=1e-300)


@kinds
@pytest.mark.parametrize("name", NAMES)
def test_a_loss_recombined_of_its_own_parts_has_its_gradient(name: str, kind: str) -> None:
    anchors, positives = batch(kind)
    loss = gradlab.recombine(gate=name, weight=name, ratio=name)
    assert isinstance(loss, PairLoss if issubclass(loss_class(name), PairLoss) else BatchLoss)
    parts, own = (gradlab.components(one, anchors, positives) for one in (loss, name))
    assert_same_components(parts, own)
    for tangent in (True, False):
        gradient = gradlab.autograd_gradient(loss, anchors, positives, tangent=tangent)
        assert_same(gradient, own.gradient(tangent=tangent), own)


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
    loss = gradlab.recombine(gate="mpt(margin=0.3)", effective_ratio=effective_ratio, **FALL_OUT[name])
    published = gradlab.get_loss(name, effective_ratio=effective_ratio)
    parts = gradlab.components(published, anchors, positives)
    assert_same_components(gradlab.components(loss, anchors, positives), parts)
    ours, theirs = (
        plain_gradients(
            lambda h, other, one=one: one(h, other, normalize=True, reduction="sum"), anchors, positives
        )
        for one in (loss, published)
    )
    for left, right in zip(ours, theirs, strict=True):
        assert_same(left, right, parts)


@kinds
def test_infonces_gate_with_mhes_weight(kind: str) -> None:
    """Parts of both families, in loops; the surrogate of Eq. 5 with ArcCon's ratio."""
    anchors, positives = batch(kind)
    n, tau, u = len(anchors), 0.2, math.radians(10)
    loss = gradlab.recombine(gate="infonce(temperature=0.2)", weight="mhe", ratio="arccon", factor=2)
    across, within = dots(anchors, positives), dots(anchors, anchors)
    z = sum(math.exp(2 * within[k][m]) for k, m in unordered_pairs(n))
    parts = gradlab.components(loss, anchors, positives)
    assert parts.negative_view == "same"
    expected = torch.zeros_like(anchors)
    for i in range(n):
        others_sum = sum(math.exp((across[i][k] - across[i][i]) / tau) for k in others(i, n))
        gate = others_sum / (1 + others_sum)
        angle = 2 * math.atan2(
            float((anchors[i] - positives[i]).norm()), float((anchors[i] + positives[i]).norm())
        )
        ratio = math.sin(angle + u) / math.sin(angle)
        assert float(parts.gradient_dissipation[i]) == pytest.approx(gate, rel=1e-12)
        assert float(parts.ratio[i]) == pytest.approx(ratio, rel=1e-12)
        for j in others(i, n):
            weight = 2 * 20 * math.exp(2 * within[i][j]) / z
            assert float(parts.weight[i, j]) == pytest.approx(weight, rel=1e-12)
            expected[i] += gate * weight * (anchors[j] - ratio * positives[i])
    assert_same(gradlab.autograd_gradient(loss, anchors, positives, tangent=False), expected, parts)
    value = [
        sum(float(parts.gradient_dissipation[i] * parts.weight[i, j])
            * (within[i][j] - float(parts.ratio[i]) * across[i][i]) for j in others(i, n))
        for i in range(n)
    ]  # fmt: skip
    assert_same(loss(anchors, positives, reduction="none"), torch.tensor(value, dtype=torch.float64), parts)


def test_weights_of_the_other_view_in_a_loss_of_whole_views() -> None:
    """The ratio of MHE makes it a loss of whole views; negatives stay those of InfoNCE and receive gradient."""
    anchors, positives = batch()
    n = len(anchors)
    for effective_ratio in ("r", "2r"):
        loss = gradlab.recombine(gate="mpt", weight="infonce", ratio="mhe", effective_ratio=effective_ratio)
        assert isinstance(loss, RecombinedOnViews)
        parts = gradlab.components(loss, anchors, positives)
        assert parts.negative_view == loss.negative_view == "other"
        torch.testing.assert_close(parts.ratio, gradlab.components("mhe", anchors, positives).ratio)
        ours = plain_gradients(lambda h, o, one=loss: one(h, o, reduction="sum"), anchors, positives)
        push = parts.gradient_dissipation[:, None] * parts.weight
        expected = -(parts.gradient_dissipation * parts.positive_weight)[:, None] * anchors
        if effective_ratio == "r":
            expected = expected + push.T @ anchors
        for i in range(n):
            across = expected[i] - (expected[i] @ positives[i]) * positives[i]
            torch.testing.assert_close(ours[1][i] - (ours[1][i] @ positives[i]) * positives[i], across)
        assert_same(gradlab.autograd_gradient(loss, anchors, positives), parts.gradient())


def test_constants() -> None:
    anchors, positives = batch()
    n = len(anchors)
    parts = gradlab.components(gradlab.recombine(gate=1, weight="uniform", ratio=1.25), anchors, positives)
    assert parts.gradient_dissipation.tolist() == [1.0] * n
    expected = (torch.ones(n, n) - torch.eye(n)).double() / (n - 1)
    torch.testing.assert_close(parts.weight, expected)
    torch.testing.assert_close(parts.ratio, torch.full((n,), 1.25, dtype=torch.float64))
    parts = gradlab.components(gradlab.recombine(gate=0.5, weight=3, ratio=0, factor=2), anchors, positives)
    assert parts.gradient_dissipation.tolist() == [0.5] * n
    assert float(parts.weight[0, 1]) == 6
    assert float(parts.weight[1, 1]) == 0
    assert not parts.ratio.any()
    hot = gradlab.get_loss("baseline", temperature=1e9)
    uniform = gradlab.recombine(gate="mpt(margin=0.3)", weight="uniform", ratio=1)
    torch.testing.assert_close(
        gradlab.components(uniform, anchors, positives).weight,
        gradlab.components(hot, anchors, positives).weight,
    )


def test_uniform_weights_count_a_queue_too() -> None:
    anchors, positives = batch()
    queue, _ = batch("random", count=5, seed=1)
    parts = gradlab.components(
        gradlab.recombine(gate="mpt", weight="uniform", ratio=1), anchors, positives, queue
    )
    assert parts.weight.shape == (7, 12)
    torch.testing.assert_close(parts.total_weight, torch.ones(7, dtype=torch.float64))
    assert float(parts.weight[0, 8]) == pytest.approx(1 / 11)
    energy = gradlab.components(
        gradlab.recombine(gate="mpt", weight="mhe", ratio=1), anchors, positives, queue
    )
    mhe = gradlab.components("mhe", anchors, positives, queue)
    torch.testing.assert_close(energy.weight, mhe.weight)
    same_view = torch.cat([anchors, queue])
    torch.testing.assert_close(
        energy.gradient(tangent=False),
        energy.gradient_dissipation[:, None]
        * (mhe.weight @ same_view - mhe.weight.sum(1, keepdim=True) * positives),
    )


LOSSES = [
    gradlab.recombine(gate="mpt(margin=0.3)", weight="infonce", ratio=1.25, factor=0.05),
    gradlab.recombine(gate=1.0, weight="uniform", ratio="met"),
    gradlab.recombine(gate=gradlab.get_loss("arccon", margin=0.1), weight="met", ratio=InfoNCE()),
    gradlab.recombine(gate="modified_mhe(margin=0.2, gate=one_view)", weight="0.5 * mhe", ratio=1.25),
]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_recombined_losses_are_values(loss: gradlab.Loss) -> None:
    assert loss.name == "recombined"
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert copy.deepcopy(loss) == loss
    assert len({loss, pickle.loads(pickle.dumps(loss))}) == 1
    saved = json.loads(json.dumps(dataclasses.asdict(loss)))
    assert gradlab.get_loss("recombined", **saved) == loss
    anchors, positives = batch()
    for other in (pickle.loads(pickle.dumps(loss)), gradlab.get_loss("recombined", **saved)):
        assert type(other) is type(loss)
        assert_same_components(
            gradlab.components(other, anchors, positives), gradlab.components(loss, anchors, positives)
        )
    assert all(check.passed for check in gradlab.verify(loss, batch_size=8, dim=6))


def test_it_reads_as_it_was_written() -> None:
    assert repr(LOSSES[0]) == (
        "Recombined(gate='mpt(margin=0.3)', weight='0.05 * infonce', ratio=1.25, effective_ratio='r', gauge='declared')"
    )
    assert LOSSES[0] == gradlab.recombine(
        gate=gradlab.get_loss("mpt", margin=0.3), weight="0.05*infonce", ratio="1.25"
    )
    assert LOSSES[0] != gradlab.recombine(gate="mpt(margin=0.3)", weight="infonce", ratio=1.25)


def test_from_the_command_line() -> None:
    made = build_loss("recombined", ["gate=mpt(margin=0.3)", "weight=0.05*infonce", "ratio=1.25"])
    assert made == LOSSES[0]
    assert gradlab.get_loss("recombined", gate="mpt", weight="infonce", ratio=1.25).ratio == "1.25"
    made = build_loss("recombined", ["gate=mpt", "weight=modified_mhe(preset=roberta)"])
    assert isinstance(made, RecombinedOnViews)
    assert made.weight.source == gradlab.get_loss("modified_mhe", preset="roberta")
    text = "recombined(gate=mpt(margin=0.3), weight=0.05 * infonce, ratio=1.25)"
    assert gradlab.get_loss(text) == LOSSES[0]


def test_parts_of_a_recombined_loss_are_its_parts() -> None:
    again = gradlab.recombine(gate=LOSSES[0], weight=LOSSES[0], ratio=LOSSES[0])
    assert again == LOSSES[0]
    assert gradlab.recombine(gate=1, weight=LOSSES[0], ratio=1, factor=2).weight == "0.1 * infonce"
    changed = gradlab.get_loss(LOSSES[0], weight="mhe")
    assert isinstance(changed, RecombinedOnViews)
    assert isinstance(gradlab.get_loss(changed, weight="infonce"), Recombined)


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


def test_simulated_like_the_losses_it_is_made_of() -> None:
    loss = gradlab.recombine(gate="arccon", weight="infonce", ratio="met")
    exact = gradlab.simulate(loss, grid=6)
    assert exact.engine == "exact"
    np.testing.assert_array_equal(exact.value, gradlab.simulate("arccon", grid=6).value)
    sampled = gradlab.simulate(loss, grid=6, engine="monte_carlo", batches=200)
    reference = gradlab.simulate("arccon", grid=6, engine="monte_carlo", batches=200)
    np.testing.assert_allclose(sampled.value, reference.value, rtol=1e-12)
    ratio = gradlab.simulate(loss, quantity="ratio", grid=6)
    np.testing.assert_array_equal(ratio.value, gradlab.simulate("met", quantity="ratio", grid=6).value)
    flat = gradlab.simulate(gradlab.recombine(gate=0.5, weight="mpt", ratio=1), grid=4)
    assert (flat.value == 0.5).all()
    share = {
        weight: gradlab.simulate(gradlab.recombine(gate="mpt", weight=weight, ratio=1), quantity="hardest_share", grid=4)
        for weight in ("met", "uniform")
    }  # fmt: skip
    counted = np.isfinite(share["uniform"].value)
    assert counted.any()
    np.testing.assert_allclose(share["met"].value[np.isfinite(share["met"].value)], 1)
    np.testing.assert_allclose(share["uniform"].value[counted], 1 / 127)
    with pytest.raises(gradlab.GradlabError, match="whole batches"):
        gradlab.simulate(gradlab.recombine(gate="mpt", weight="mhe", ratio=1), quantity="hardest_share")


def test_a_ratio_that_does_not_exist_is_refused() -> None:
    anchors, positives = batch()
    anchors[2] = anchors[4]
    with pytest.raises(gradlab.GradlabError, match="has no ratio"):
        gradlab.components(gradlab.recombine(gate=1, weight="mhe", ratio="mhs"), anchors, positives)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"gate": "mtp"}, "Did you mean 'mpt'"),
        ({"gate": None}, "gate must be a loss, its name or a finite number"),
        ({"ratio": True}, "ratio must be a loss"),
        ({"ratio": math.nan}, "ratio must be a loss"),
        ({"gate": "uniform"}, "unknown loss 'uniform'"),
        ({"weight": "twice * infonce"}, "is not a number"),
        ({"factor": 0.0}, "greater than 0"),
        ({"effective_ratio": "3r"}, "effective_ratio must be 'r' or '2r'"),
    ],
)
def test_bad_parts(parts: dict, message: str) -> None:
    with pytest.raises(gradlab.GradlabError, match=message):
        gradlab.recombine(**{"gate": "mpt", "weight": "infonce", "ratio": 1.0, **parts})


def test_the_example_of_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "design-a-loss.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    first = blocks[0].replace(
        'gradlab.simulate(loss, quantity="ratio").plot()', "gradlab.simulate(loss, grid=4)"
    )
    assert len(first.strip().splitlines()) == 5
    names: dict = {}
    exec(first, names)
    exec(blocks[1], names)
    anchors, positives = batch(count=9)
    for name in FALL_OUT:
        parts = gradlab.components(name, anchors, positives)
        assert_same_components(gradlab.components(names[name], anchors, positives), parts)
