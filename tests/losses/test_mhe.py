"""Alignment and minimum hyperspherical energy against loops over its definition and Table 2."""

from __future__ import annotations

import math

import pytest
import torch

import gradlab
from tests.losses.naive_losses import (
    KINDS,
    assert_defined_by,
    assert_same,
    batch,
    dots,
    others,
    plain_gradients,
    tangent,
    unordered_pairs,
)


def naive(nu: float, exponent: float):
    """``1/N Σ |h - h'|² + ν log(2/(N(N-1)) Σ_{k<l} exp(-exponent |h_k - h_l|²))``."""

    def value(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        n = len(anchors)
        alignment = sum(((anchors[i] - positives[i]) ** 2).sum() for i in range(n)) / n
        energies = [-exponent * ((anchors[k] - anchors[m]) ** 2).sum() for k, m in unordered_pairs(n)]
        return alignment + nu * (torch.logsumexp(torch.stack(energies), 0) - math.log(len(energies)))

    return value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("settings", "nu", "exponent"), [({}, 10, 1), ({"nu": 3.0, "temperature": 0.1}, 3, 5)]
)
def test_value_and_gradients_of_the_definition(kind: str, settings: dict, nu: float, exponent: float) -> None:
    assert_defined_by(naive(nu, exponent), gradlab.get_loss("mhe", **settings), *batch(kind))


@pytest.mark.parametrize(("preset", "exponent"), [(None, 2), ("as_published", 1)])
def test_components_of_table_2(preset: str | None, exponent: float) -> None:
    """As published, the energy is the exponential of the dot product, which adds a constant to the value."""
    anchors, positives = batch()
    n, nu = len(anchors), 10.0
    q = dots(anchors, anchors)
    z = sum(math.exp(exponent * q[k][m]) for k, m in unordered_pairs(n))
    loss = gradlab.get_loss("mhe", preset=preset)
    parts = gradlab.components(loss, anchors, positives)
    assert parts.negative_view == "same"
    for i in range(n):
        row = sum(math.exp(exponent * q[i][k]) for k in others(i, n))
        assert float(parts.gradient_dissipation[i]) == 1
        assert float(parts.weight[i, i]) == 0
        assert float(parts.ratio[i]) == pytest.approx(2 * z / (exponent * nu * n * row), rel=1e-13)
        for j in others(i, n):
            expected = exponent * nu * math.exp(exponent * q[i][j]) / z
            assert float(parts.weight[i, j]) == pytest.approx(expected, rel=1e-13)
    alignment = float(((anchors - positives) ** 2).sum()) / n
    value = alignment + nu * (math.log(2 / (n * (n - 1)) * z) - exponent)
    assert float(loss(anchors, positives)) == pytest.approx(value, rel=1e-13)


def test_wang_and_isola_over_both_views() -> None:
    """``align + (uniform(x) + uniform(y))/2`` with ``uniform(x) = log mean_k<l exp(-2|x_k - x_l|²)``."""
    views = batch("random")

    def theirs(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        uniform = [torch.pdist(view).pow(2).mul(-2).exp().mean().log() for view in (x, y)]
        return (x - y).norm(dim=1).pow(2).mean() + sum(uniform) / 2

    loss = gradlab.get_loss("symmetric(mhe(nu=1, temperature=0.25))")
    assert_same(loss(*views), theirs(*views))
    gradients = zip(plain_gradients(loss, *views), plain_gradients(theirs, *views), views, strict=True)
    for one, other, rows in gradients:  # |h_k - h_l|² is 2 - 2 h_k·h_l on the sphere alone
        assert_same(tangent(one, rows), tangent(other, rows))
