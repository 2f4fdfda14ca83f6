"""The four repaired losses against loops over Eqs 16 to 19 and Table 2, and their named options."""

from __future__ import annotations

import math

import pytest
import torch

import gradlab
from tests.losses.naive_losses import (
    KINDS,
    assert_same,
    batch,
    dots,
    nearest,
    ordered_pairs,
    other_indices,
    plain_gradients,
    tangent,
    unordered_pairs,
)

NAMES = ["modified_mhe", "modified_mhs", "modified_barlow_twins", "modified_vicreg"]
modified = pytest.mark.parametrize("name", NAMES)
kinds = pytest.mark.parametrize("kind", KINDS)
TAU = 0.05


def naive_gaps(anchors: torch.Tensor, positives: torch.Tensor, one_view: bool) -> list[float]:
    """``p_i - max_k S_ik``, or as published ``1 - max_k Q_ik``; below the margin a gate is open."""
    if one_view:
        within = dots(anchors, anchors)
        return [1 - within[i][nearest(within, i)] for i in range(len(anchors))]
    across = dots(anchors, positives)
    return [across[i][i] - across[i][nearest(across, i)] for i in range(len(anchors))]


def naive_gate(
    anchors: torch.Tensor, positives: torch.Tensor, margin: float, one_view: bool
) -> list[float]:
    return [1.0 if gap < margin else 0.0 for gap in naive_gaps(anchors, positives, one_view)]


def naive_weight(name: str, anchors: torch.Tensor, positives: torch.Tensor) -> list[list[float]]:
    """Table 2."""
    n = len(anchors)
    within, across = dots(anchors, anchors), dots(positives, positives)
    weight = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in other_indices(i, n):
            if name == "modified_mhe":
                z = sum(
                    math.exp((within[k][m] - within[i][j]) / TAU) for k, m in unordered_pairs(n)
                )
                weight[i][j] = 1 / (TAU * z)
            elif name == "modified_mhs":
                distance = math.dist(anchors[i].tolist(), anchors[j].tolist())
                weight[i][j] = 1 / distance if j == nearest(within, i) else 0.0
            else:
                q = across if name == "modified_barlow_twins" else within
                weight[i][j] = 1 / sum(
                    math.exp((q[k][m] - q[i][j]) / TAU) for k, m in ordered_pairs(n)
                )
    return weight


def naive_value(
    name: str, ratio: float, margin: float, one_view: bool = False, both_ways: bool = False
):
    """The published losses with their stop-gradients, in loops; one value an anchor or a batch."""

    def value(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        n = len(anchors)
        gate = naive_gate(anchors, positives, margin, one_view)
        weight = naive_weight(name, anchors.detach(), positives.detach())
        target = positives if both_ways else positives.detach()
        if name == "modified_mhe":
            own = [h if d else h.detach() for h, d in zip(anchors, gate, strict=True)]
            energy = sum(
                torch.exp(-((own[k] - own[m]) ** 2).sum() / (2 * TAU))
                for k, m in unordered_pairs(n)
            )
            total = torch.log(2 / (n * (n - 1)) * energy)
            for i in range(n):
                to = target[i] if gate[i] else target[i].detach()
                total = total + ratio / 2 * sum(weight[i]) * ((own[i] - to) ** 2).sum()
            return total
        values = []
        for i in range(n):
            if name == "modified_mhs":
                distance = torch.stack(
                    [(anchors[i] - anchors[j].detach()).norm() for j in other_indices(i, n)]
                ).min()
                aligned = ratio / (2 * distance.detach()) * ((anchors[i] - target[i]) ** 2).sum()
                values.append(gate[i] * (aligned - distance))
            else:
                pushed = sum(
                    weight[i][j] * (anchors[i] @ anchors[j].detach()) for j in other_indices(i, n)
                )
                values.append(
                    gate[i] * (pushed - ratio * sum(weight[i]) * (anchors[i] @ target[i]))
                )
        return torch.stack(values)

    return value


def half_open(kind: str, one_view: bool = False) -> tuple[torch.Tensor, torch.Tensor, float]:
    """A batch of 8, and a margin at which about half of its gates are open."""
    anchors, positives = batch(kind, count=8)
    gaps = sorted(naive_gaps(anchors, positives, one_view))
    return anchors, positives, (gaps[3] + gaps[4 + one_view]) / 2


@modified
@kinds
@pytest.mark.parametrize(
    ("one_view", "both_ways"),
    [(False, False), (False, True), (True, False)],
    ids=["r", "2r", "one view"],
)
def test_equations_16_to_19(name: str, kind: str, one_view: bool, both_ways: bool) -> None:
    """Components of Table 2, and values and both gradients of the definition.

    One view is the published results' gate.
    """
    anchors, positives, margin = half_open(kind, one_view)
    options = {
        "effective_ratio": "2r" if both_ways else "r",
        "gate": "one_view" if one_view else "two_view",
    }
    loss = gradlab.get_loss(name, margin=margin, static_ratio=1.3, **options)
    components = gradlab.components(loss, anchors, positives)
    gate = naive_gate(anchors, positives, margin, one_view)
    assert 0 < sum(gate) < 8
    assert components.gradient_dissipation.tolist() == gate
    weight = torch.tensor(naive_weight(name, anchors, positives), dtype=torch.float64)
    torch.testing.assert_close(components.weight, weight, rtol=1e-11, atol=1e-300)
    torch.testing.assert_close(
        components.ratio, torch.full((8,), 1.3, dtype=torch.float64), rtol=1e-13, atol=0
    )
    pushed = weight @ anchors - 1.3 * weight.sum(1, keepdim=True) * positives
    expected = torch.tensor(gate, dtype=torch.float64)[:, None] * pushed
    assert_same(components.gradient(tangent=False), expected, components)
    assert_same(
        gradlab.autograd_gradient(loss, anchors, positives, tangent=False), expected, components
    )
    reference = naive_value(name, 1.3, margin, one_view, both_ways)
    value = loss.value_of(gradlab.batch.batch.Batch(anchors, positives))
    assert_same(value, reference(anchors, positives), components)
    ours = plain_gradients(
        lambda h, second_view: loss(h, second_view, reduction="sum"), anchors, positives
    )
    reference_gradients = plain_gradients(reference, anchors, positives)
    for left, right, rows in zip(ours, reference_gradients, (anchors, positives), strict=True):
        assert_same(tangent(left, rows), tangent(right, rows), components)
    assert bool(ours[1].any()) == both_ways


@modified
def test_the_exact_simulator_takes_the_gate_of_two_views_only(name: str) -> None:
    simulation = gradlab.simulate(gradlab.get_loss(name, margin=0.27), grid=3)
    assert simulation.engine == "exact"
    assert (simulation.value == gradlab.simulate("mpt(margin=0.27)", grid=3).value).all()
    assert gradlab.get_loss(name, gate="one_view").exact_gate() is None


def test_a_floor_on_the_distance() -> None:
    anchors, positives = batch(count=9)
    plain = gradlab.components("modified_mhs", anchors, positives)
    floor = float((1 / plain.total_weight).median()) ** 2
    loss = gradlab.get_loss("modified_mhs", squared_distance_floor=floor)
    components = gradlab.components(loss, anchors, positives)
    near = (1 / plain.total_weight) ** 2 <= floor
    assert 0 < int(near.sum()) < 9
    assert torch.equal(components.weight, torch.where(near[:, None], 0, plain.weight))
    gradient = gradlab.autograd_gradient(loss, anchors, positives, tangent=False)
    assert_same(gradient, components.gradient(tangent=False), components)


@modified
def test_equal_rows_and_one_sentence(name: str) -> None:
    anchors, _ = batch(count=2)
    same = anchors[:1].repeat(4, 1)
    assert bool(torch.isfinite(gradlab.get_loss(name)(same, same.clone())))
    gradient = gradlab.autograd_gradient(name, same, same.clone())
    assert_same(gradient, gradlab.components(name, same, same.clone()).gradient())
    with pytest.raises(gradlab.GradlabError, match="no negatives"):
        gradlab.components(name, anchors[:1], anchors[1:])
