"""Alignment and maximum hyperspherical separation against loops over its definition and Table 2."""

from __future__ import annotations

import math

import pytest
import torch

import gradlab
from tests.losses.naive_losses import KINDS, assert_defined_by, assert_same, batch, dots, nearest, others


def naive(nu: float, view: str = "same", floor: float = 0.0):
    """``1/N Σ |h - h'|² - ν Σ_i min_{j≠i} |h_i - sg(n_j)|``, squared distances at least ``floor``."""

    def value(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        n = len(anchors)
        total = sum(((anchors[i] - positives[i]) ** 2).sum() for i in range(n)) / n
        negatives = (anchors if view == "same" else positives).detach()
        for i in range(n):
            squared = torch.stack([((anchors[i] - negatives[j]) ** 2).sum() for j in others(i, n)]).min()
            if float(squared.detach()) > 0:
                total = total - nu * torch.sqrt(torch.clamp(squared, min=floor))
        return total

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
    loss = gradlab.get_loss("mhs", **settings)
    parts, _ = assert_defined_by(naive(*reference), loss, *batch(kind, count=9))
    assert parts.negative_view == loss.negative_view == loss.neighbour_view


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
    assert_same(gradlab.autograd_gradient("mhs", rows, rows.clone()), parts.gradient())


@pytest.mark.parametrize("name", ["mhs", "modified_mhs"])
def test_equal_rows_get_the_subgradient_zero(name: str) -> None:
    anchors, positives = batch(count=6)
    anchors[3] = anchors[1]
    parts = gradlab.components(name, anchors, positives)
    assert bool(torch.isfinite(gradlab.get_loss(name)(anchors, positives)))
    assert not parts.weight[1].any()
    assert bool(torch.isfinite(parts.weight).all())
    assert_same(gradlab.autograd_gradient(name, anchors, positives), parts.gradient())
