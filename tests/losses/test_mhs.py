"""Alignment and maximum hyperspherical separation against loops over its definition and Table 2."""

from __future__ import annotations

import math

import pytest
import torch
from naive_losses import KINDS, assert_same, batch, dots, nearest, others, plain_gradients, tangent

import gradlab


def naive(nu: float, view: str = "same", floor: float = 0.0):
    """``1/N Σ |h - h'|² - ν Σ_i min_{j≠i} |h_i - sg(n_j)|``, squared distances at least ``floor``."""

    def value(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        n = len(anchors)
        alignment = sum(((anchors[i] - positives[i]) ** 2).sum() for i in range(n)) / n
        negatives = (anchors if view == "same" else positives).detach()
        separation = 0
        for i in range(n):
            squared = torch.stack([((anchors[i] - negatives[j]) ** 2).sum() for j in others(i, n)]).min()
            separation = separation + torch.sqrt(torch.clamp(squared, min=floor))
        return alignment - nu * separation

    return value


SETTINGS = [
    ({}, (1.0,)),
    ({"nu": 0.3}, (0.3,)),
    ({"neighbour_view": "other"}, (1.0, "other")),
    ({"preset": "as_published"}, (1.0, "other", 1e-4)),
    ({"squared_distance_floor": 0.3}, (1.0, "same", 0.3)),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("settings", "reference"), SETTINGS)
def test_value_and_gradients_of_the_definition(kind: str, settings: dict, reference: tuple) -> None:
    anchors, positives = batch(kind, count=9)
    loss = gradlab.get_loss("mhs", **settings)
    assert_same(loss(anchors, positives), naive(*reference)(anchors, positives))
    by_anchors, by_positives = plain_gradients(naive(*reference), anchors, positives)
    parts = gradlab.components(loss, anchors, positives)
    assert parts.negative_view == loss.negative_view == loss.neighbour_view
    assert_same(parts.gradient(), tangent(by_anchors, anchors), parts)
    assert_same(gradlab.autograd_gradient(loss, anchors, positives), tangent(by_anchors, anchors), parts)
    similarity = gradlab.autograd_gradient(loss, anchors, positives, tangent=False)
    assert_same(similarity, parts.gradient(tangent=False), parts)
    assert_same(plain_gradients(loss, anchors, positives)[1], by_positives)


def test_components_of_table_2() -> None:
    anchors, positives = batch()
    n, nu = len(anchors), 0.7
    q = dots(anchors, anchors)
    parts = gradlab.components(gradlab.get_loss("mhs", nu=nu), anchors, positives)
    for i in range(n):
        chosen = nearest(q, i)
        distance = math.dist(anchors[i].tolist(), anchors[chosen].tolist())
        assert float(parts.gradient_dissipation[i]) == 1
        assert parts.weight[i].nonzero().flatten().tolist() == [chosen]
        assert float(parts.weight[i, chosen]) == pytest.approx(nu / distance, rel=1e-13)
        assert float(parts.ratio[i]) == pytest.approx(2 * distance / (nu * n), rel=1e-13)


def test_of_equally_near_neighbours_the_first_counts() -> None:
    rows = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0, -1, 0]], dtype=torch.float64)
    parts = gradlab.components("mhs", rows, rows.clone())
    assert [row.nonzero().flatten().tolist() for row in parts.weight] == [[1], [0], [0], [0]]
    for tangential in (True, False):
        gradient = gradlab.autograd_gradient("mhs", rows, rows.clone(), tangent=tangential)
        assert_same(gradient, parts.gradient(tangent=tangential))


@pytest.mark.parametrize("name", ["mhs", "modified_mhs"])
def test_equal_rows_get_the_subgradient_zero(name: str) -> None:
    anchors, positives = batch(count=6)
    anchors[3] = anchors[1]
    for first, second in ((anchors, positives), (anchors[:1].repeat(4, 1), anchors[:1].repeat(4, 1))):
        parts = gradlab.components(name, first, second)
        assert bool(torch.isfinite(gradlab.get_loss(name)(first, second)))
        assert not parts.weight[1].any()
        assert bool(torch.isfinite(parts.weight).all())
        for tangential in (True, False):
            gradient = gradlab.autograd_gradient(name, first, second, tangent=tangential)
            assert_same(gradient, parts.gradient(tangent=tangential))


@pytest.mark.parametrize("temperature", [1e-2, 1e-3, 1e-5])
def test_the_single_minimum_is_a_limit_of_mhe(temperature: float) -> None:
    """``-λ min |h_k - h_l|²`` of all pairs, whose two rows alone move, beside the alignment."""
    views = torch.nn.functional.normalize(
        torch.randn(2, 9, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64), dim=-1
    )
    strength = 0.7
    x, y = views[0].clone().requires_grad_(), views[1]
    theirs = ((x - y) ** 2).sum(1).mean() - strength * torch.pdist(x).min() ** 2
    leaf = views[0].clone().requires_grad_()
    loss = gradlab.get_loss("mhe", nu=2 * strength * temperature, temperature=temperature)
    ours = loss(leaf, y)
    assert float((ours - theirs).detach()) <= 1e-12
    assert float((theirs - ours).detach()) <= 2 * strength * temperature * math.log(9 * 8 / 2) + 1e-12
    if temperature == 1e-5:
        (expected,), (found,) = torch.autograd.grad(theirs, x), torch.autograd.grad(ours, leaf)
        radial = ((found - expected) * views[0]).sum(1, keepdim=True) * views[0]
        torch.testing.assert_close(found - radial, expected, rtol=1e-9, atol=1e-9)
