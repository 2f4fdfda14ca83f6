"""Both sides of the gradient: closed forms by autograd, exchanged views, statistics by loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradlab
from gradlab.gradient.statistics import diagnose, effective_ratio, gini, two_sided_statistics
from gradlab.gradient.verification import BATCHES
from gradlab.losses.registry import loss_names
from tests.losses.naive_losses import assert_closed_form_is_autograd

SETTINGS = [
    *loss_names(),
    "baseline(effective_ratio=2r)",
    "mhs(neighbour_view=other)",
    "modified_mhe(effective_ratio=2r)",
    "modified_mhs(preset=as_published)",
    "modified_barlow_twins(preset=as_published)",
    "modified_vicreg(effective_ratio=2r)",
    "dhel(preset=released)",
    "dhel(preset=mirrored)",
    "hcl(preset=released)",
    *(
        f"recombined(gate=infonce, weight={weight}, ratio={ratio}, effective_ratio={effective})"
        for weight, ratio in (("mhe", "1.5"), ("infonce", "barlow_twins"), ("infonce", "arccon"))
        for effective in ("r", "2r")
    ),
]


def batch(kind: str, count: int = 10, dim: int = 7) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two views and four extra negatives of their kind."""
    rng = np.random.default_rng(3)
    return *BATCHES[kind](rng, count, dim), BATCHES[kind](rng, 4, dim)[0]


@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize("spec", SETTINGS)
def test_closed_form_is_autograd_on_both_sides(spec: str, kind: str) -> None:
    *views, extra = batch(kind)
    for negatives in (None, extra):
        assert_closed_form_is_autograd(spec, (*views, negatives))


def assert_same_split(components: gradlab.Components, closed: gradlab.Components) -> None:
    """Pulls, and pushes by what the columns are."""
    np.testing.assert_allclose(components.pull, closed.pull, atol=1e-9)
    for name, columns in closed.columns.items():
        ours, expected_columns = (
            split.gradient_dissipation[:, None] * split.weight[:, at]
            for split, at in ((components, components.columns[name]), (closed, columns))
        )
        np.testing.assert_allclose(ours, expected_columns, atol=1e-9)


@pytest.mark.parametrize("spec", ["infonce", "mhe", "barlow_twins"])
def test_decompose_finds_the_positives_side(spec: str) -> None:
    projected = spec == "barlow_twins"  # which takes more dimensions than vectors
    anchors, positives, extra = batch("paired", count=6, dim=16 if projected else 7)
    rows = (anchors, positives, extra if spec == "infonce" else None)
    decompositions = gradlab.decompose(spec, *rows, side="both", allow_residual=projected)
    closed = gradlab.components(spec, *rows, side="both")
    for decomposition, components in zip(decompositions, closed, strict=True):
        assert decomposition.side == components.side
        np.testing.assert_allclose(
            decomposition.tangent_gradient, components.gradient(), atol=1e-12
        )
        np.testing.assert_allclose(
            decomposition.gradient() + decomposition.residual, components.gradient(), atol=1e-9
        )
        if not projected:
            assert_same_split(decomposition.components, components)


@pytest.mark.parametrize(
    "spec",
    ["infonce", "symmetric(arccon)", "mhe", "sum(met, gor, weights=1+0.1)", "mask(dcl, by=given)"],
)
def test_components_by_autograd_are_those_in_closed_form(spec: str) -> None:
    """With everything that a batch can hold."""
    anchors, positives, extra = batch("paired", count=6)
    own = BATCHES["paired"](np.random.default_rng(5), 12, 7)[0].reshape(6, 2, 7)
    context = {} if spec in ("mhe", "sum(met, gor, weights=1+0.1)") else {"own_negatives": own}
    if spec.startswith("mask"):
        context["mask"] = np.random.default_rng(6).random((6, 6 + 4 + 2)) < 0.6
    by_autograd, closed = (
        gradlab.components(spec, anchors, positives, extra, side="both", method=method, **context)
        for method in ("autograd", "closed")
    )
    for autograd_side, closed_side in zip(by_autograd, closed, strict=True):
        assert_same_split(autograd_side, closed_side)
    with pytest.raises(gradlab.GradlabError, match="unknown method 'exact'"):
        gradlab.components(spec, anchors, positives, method="exact")


def test_a_wrong_positives_side_fails_verification(monkeypatch) -> None:
    monkeypatch.setattr(gradlab.get_loss("mhe").__class__, "moves_positives", "mirror")
    wrong = [check for check in gradlab.verify("mhe", batch_size=6, dim=5) if not check.passed]
    assert {check.side for check in wrong} == {"positives"}


def test_a_loss_of_pairs_can_be_the_mirror_of_itself(monkeypatch) -> None:
    views = batch("paired")[:2]
    loss = gradlab.get_loss("siglip")  # its value sums over all pairs of both views
    expected = gradlab.components(loss, *views, side="positives").gradient()
    monkeypatch.setattr(type(loss), "moves_positives", "mirror")
    mirrored = gradlab.components(loss, *views, side="positives").gradient()
    np.testing.assert_allclose(mirrored, expected, rtol=1e-12, atol=1e-15)


def test_gini_from_its_definition() -> None:
    values = np.random.default_rng(0).exponential(size=9)
    expected = sum(abs(x - y) for x in values for y in values) / (2 * 9 * values.sum())
    assert gini(values) == pytest.approx(expected, rel=1e-12)
    assert gini(np.ones(5)) == pytest.approx(0, abs=1e-15)
    assert gini(np.eye(5)[0]) == pytest.approx(0.8)
    assert math.isnan(gini(np.zeros(3)))


def test_two_sided_statistics_by_loops() -> None:
    anchors, positives, extra = batch("paired")
    first, second = gradlab.components("arccon", anchors, positives, extra, side="both")
    n = [[first.gradient_dissipation[i] * first.weight[i, j] for j in range(14)] for i in range(10)]
    pull = [first.gradient_dissipation[i] * first.positive_weight[i] for i in range(10)]
    received = [sum(n[i][j] for i in range(10)) for j in range(10)]
    ratios = [2 * pull[i] / (sum(n[i]) + received[i]) for i in range(10)]
    statistics = two_sided_statistics(first, second)
    assert statistics["hubness"] == pytest.approx(gini(np.array(received)))
    assert statistics["hubness_largest"] == pytest.approx(10 * max(received) / sum(received))
    assert statistics["push_spread"] == pytest.approx(gini(np.array([sum(row) for row in n])))
    assert statistics["ratio_both_sides"] == pytest.approx(np.median(ratios))
    assert statistics["ratio_positives"] == pytest.approx(np.median(np.array(pull) / received))
    np.testing.assert_allclose(effective_ratio(first, second), ratios, rtol=1e-12)
    assert statistics.items() <= diagnose("arccon", anchors, positives, extra).items()
