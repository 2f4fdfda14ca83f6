"""Barlow Twins against loops over its definition and Table 2."""

from __future__ import annotations

import pytest
import torch
from naive_losses import KINDS, assert_same, batch, dots, others, plain_gradients, tangent

import gradlab


def naive(nu: float):
    """``Σ_c (1 - C_cc)² + ν Σ_{c≠d} C_cd²`` with ``C_cd = 1/N Σ_i h_ic h_id'``."""

    def value(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        n, dim = anchors.shape
        total = 0
        for c in range(dim):
            for d in range(dim):
                correlation = sum(anchors[i, c] * positives[i, d] for i in range(n)) / n
                total = total + ((1 - correlation) ** 2 if c == d else nu * correlation**2)
        return total

    return value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nu", [30.0, 0.4])
def test_value_and_gradients_of_the_definition(kind: str, nu: float) -> None:
    anchors, positives = batch(kind)
    loss = gradlab.get_loss("barlow_twins", nu=nu)
    assert_same(loss(anchors, positives), naive(nu)(anchors, positives))
    by_anchors, by_positives = plain_gradients(naive(nu), anchors, positives)
    parts = gradlab.components(loss, anchors, positives)
    assert_same(parts.gradient(), tangent(by_anchors, anchors))
    assert_same(gradlab.autograd_gradient(loss, anchors, positives), tangent(by_anchors, anchors))
    assert_same(parts.gradient(tangent=False, exact=True), by_anchors)
    assert_same(gradlab.autograd_gradient(loss, anchors, positives, tangent=False), by_anchors)
    assert_same(plain_gradients(loss, anchors, positives)[1], by_positives)
    missing = by_anchors - parts.gradient(tangent=False)
    assert_same(missing, 2 * nu / len(anchors) ** 2 * anchors)


def test_components_of_table_2() -> None:
    anchors, positives = batch()
    (n, dim), nu = anchors.shape, 30.0
    within = dots(positives, positives)
    parts = gradlab.components("barlow_twins", anchors, positives)
    assert parts.ratio.shape == (n, dim)
    for i in range(n):
        assert float(parts.gradient_dissipation[i]) == 1
        assert float(parts.weight[i, i]) == 0
        total = sum(within[i][k] for k in others(i, n))
        diagonal = []
        for c in range(dim):
            correlation = sum(float(anchors[k, c] * positives[k, c]) for k in range(n)) / n
            diagonal.append(n * (1 - (1 - nu) * correlation) / (nu * total))
            assert float(parts.ratio[i, c]) == pytest.approx(diagonal[c], rel=1e-12)
        summary = sum(r * float(h) ** 2 for r, h in zip(diagonal, positives[i], strict=True))
        assert float(parts.scalar_ratio[i]) == pytest.approx(summary, rel=1e-12)
        for j in others(i, n):
            assert float(parts.weight[i, j]) == pytest.approx(2 * nu * within[i][j] / n**2, rel=1e-13)


def test_extremes() -> None:
    anchors, positives = batch(count=2)
    assert_same(gradlab.get_loss("barlow_twins")(anchors, positives), naive(30)(anchors, positives))
    same = anchors[:1].repeat(5, 1)
    gradient = gradlab.autograd_gradient("barlow_twins", same, same.clone())
    assert_same(gradient, gradlab.components("barlow_twins", same, same.clone()).gradient())
