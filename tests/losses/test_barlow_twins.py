"""Barlow Twins against its definition and Table 2."""

from __future__ import annotations

import pytest
import torch

import gradlab
from tests.losses.naive_losses import KINDS, assert_defined_by, assert_same, batch


def naive(nu: float):
    """``Σ_c (1 - C_cc)² + ν Σ_{c≠d} C_cd²`` with ``C_cd = 1/N Σ_i h_ic h_id'``."""

    def value(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        correlation = sum(torch.outer(*pair) for pair in zip(anchors, positives, strict=True)) / len(anchors)
        own = correlation.diagonal()
        return ((1 - own) ** 2).sum() + nu * ((correlation - torch.diag(own)) ** 2).sum()

    return value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nu", [30.0, 0.4])
def test_value_and_gradients_of_the_definition(kind: str, nu: float) -> None:
    anchors, positives = batch(kind)
    loss = gradlab.get_loss("barlow_twins", nu=nu)
    parts, whole = assert_defined_by(naive(nu), loss, anchors, positives)
    assert_same(parts.gradient(tangent=False, exact=True), whole)
    assert_same(whole - parts.gradient(tangent=False), 2 * nu / len(anchors) ** 2 * anchors)


def test_components_of_table_2() -> None:
    anchors, positives = batch()
    n, nu = len(anchors), 30.0
    parts = gradlab.components("barlow_twins", anchors, positives)
    within = (positives @ positives.T).fill_diagonal_(0)
    diagonal = (anchors * positives).mean(0)
    ratio = n * (1 - (1 - nu) * diagonal) / (nu * within.sum(1, keepdim=True))
    assert parts.gradient_dissipation.tolist() == [1] * n
    torch.testing.assert_close(parts.weight, 2 * nu * within / n**2, rtol=1e-13, atol=0)
    torch.testing.assert_close(parts.ratio, ratio, rtol=1e-12, atol=0)
    torch.testing.assert_close(parts.scalar_ratio, (ratio * positives**2).sum(1), rtol=1e-12, atol=0)
