"""Alignment and minimum hyperspherical energy against loops over its definition and Table 2."""

from __future__ import annotations

import math

import pytest
import torch
from naive_losses import KINDS, assert_same, batch, dots, others, plain_gradients, tangent, unordered_pairs

import gradlab


def naive(nu: float, exponent: float):
    """``1/N Σ |h - h'|² + ν log(2/(N(N-1)) Σ_{k<l} exp(-exponent |h_k - h_l|²))``."""

    def value(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        n = len(anchors)
        alignment = sum(((anchors[i] - positives[i]) ** 2).sum() for i in range(n)) / n
        energy = sum(
            torch.exp(-exponent * ((anchors[k] - anchors[m]) ** 2).sum()) for k, m in unordered_pairs(n)
        )
        return alignment + nu * torch.log(2 / (n * (n - 1)) * energy)

    return value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("settings", "nu", "exponent"), [({}, 10, 1), ({"nu": 3.0, "temperature": 0.1}, 3, 5)]
)
def test_value_and_gradients_of_the_definition(kind: str, settings: dict, nu: float, exponent: float) -> None:
    anchors, positives = batch(kind)
    loss = gradlab.get_loss("mhe", **settings)
    reference = naive(nu, exponent)
    assert_same(loss(anchors, positives), reference(anchors, positives))
    by_anchors, by_positives = plain_gradients(reference, anchors, positives)
    parts = gradlab.components(loss, anchors, positives)
    assert_same(parts.gradient(), tangent(by_anchors, anchors), parts)
    assert_same(gradlab.autograd_gradient(loss, anchors, positives), tangent(by_anchors, anchors), parts)
    assert_same(
        gradlab.autograd_gradient(loss, anchors, positives, tangent=False), parts.gradient(tangent=False)
    )
    both = plain_gradients(loss, anchors, positives)
    assert_same(both[1], by_positives)


def test_components_of_table_2() -> None:
    anchors, positives = batch()
    n, nu = len(anchors), 10.0
    q = dots(anchors, anchors)
    z = sum(math.exp(2 * q[k][m]) for k, m in unordered_pairs(n))
    parts = gradlab.components("mhe", anchors, positives)
    assert parts.negative_view == "same"
    for i in range(n):
        row = sum(math.exp(2 * q[i][k]) for k in others(i, n))
        assert float(parts.gradient_dissipation[i]) == 1
        assert float(parts.weight[i, i]) == 0
        assert float(parts.ratio[i]) == pytest.approx(z / (nu * n * row), rel=1e-13)
        for j in others(i, n):
            assert float(parts.weight[i, j]) == pytest.approx(2 * nu * math.exp(2 * q[i][j]) / z, rel=1e-13)


def test_as_published_the_energy_is_the_exponential_of_the_dot_product() -> None:
    anchors, positives = batch()
    loss = gradlab.get_loss("mhe", preset="as_published")
    assert loss == gradlab.get_loss("mhe", temperature=1.0)
    assert loss != gradlab.get_loss("mhe")
    n, q = len(anchors), dots(anchors, anchors)
    z = sum(math.exp(q[k][m]) for k, m in unordered_pairs(n))
    parts = gradlab.components(loss, anchors, positives)
    assert float(parts.weight[2, 3]) == pytest.approx(10 * math.exp(q[2][3]) / z, rel=1e-13)
    alignment = float(((anchors - positives) ** 2).sum()) / n
    published = alignment + 10 * math.log(2 / (n * (n - 1)) * z)
    assert float(loss(anchors, positives)) == pytest.approx(published - 10, rel=1e-13)


def test_two_sentences_and_equal_rows() -> None:
    anchors, positives = batch(count=2)
    assert_same(gradlab.get_loss("mhe")(anchors, positives), naive(10, 1)(anchors, positives))
    same = anchors[:1].repeat(5, 1)
    assert float(gradlab.get_loss("mhe")(same, same.clone())) == pytest.approx(0, abs=1e-14)
    for tangential in (True, False):
        gradient = gradlab.autograd_gradient("mhe", same, same.clone(), tangent=tangential)
        assert_same(gradient, gradlab.components("mhe", same, same.clone()).gradient(tangent=tangential))


def test_wang_and_isola_over_both_views() -> None:
    """``align + (uniform(x) + uniform(y))/2`` with ``uniform(x) = log mean_k<l exp(-2|x_k - x_l|²)``."""
    views = torch.nn.functional.normalize(
        torch.randn(2, 7, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64), dim=-1
    )
    x, y = (part.clone().requires_grad_() for part in views)
    uniform = [torch.pdist(view).pow(2).mul(-2).exp().mean().log() for view in (x, y)]
    theirs = (x - y).norm(dim=1).pow(2).mean() + sum(uniform) / 2
    leaves = [part.clone().requires_grad_() for part in views]
    ours = gradlab.get_loss("symmetric(mhe(nu=1, temperature=0.25))")(*leaves)
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()), rel=1e-13)
    expected, found = torch.autograd.grad(theirs, (x, y)), torch.autograd.grad(ours, leaves)
    for one, other, rows in zip(found, expected, views, strict=True):
        radial = ((one - other) * rows).sum(
            1, keepdim=True
        ) * rows  # |h_k - h_l|² is 2 - 2 h_k·h_l on the sphere alone
        torch.testing.assert_close(one - radial, other, rtol=1e-11, atol=1e-13)
