"""MHE, MHS, Barlow Twins, VICReg: by definition and Table 2, and each part of VICReg's gradient."""

from __future__ import annotations

import math

import pytest
import torch

import gradlab
from gradlab.losses.vicreg import VICReg
from tests.losses.naive_losses import (
    KINDS,
    Value,
    assert_defined_by,
    assert_same,
    barlow_twins,
    batch,
    covariance,
    dots,
    hinge,
    mhe,
    mhs,
    nearest,
    other_indices,
    plain_gradients,
    tangent,
    unordered_pairs,
    vicreg,
)

DEFINITIONS = {
    "mhe": mhe(10, 1),
    "mhe(nu=3, temperature=0.1)": mhe(3, 5),
    "mhs": mhs(1.0),
    "mhs(nu=0.3)": mhs(0.3),
    "mhs(neighbour_view=other)": mhs(1.0, "other"),
    "mhs(preset=as_published)": mhs(1.0, "other", 1e-4),
    "mhs(squared_distance_floor=0.3)": mhs(1.0, "same", 0.3),
    "barlow_twins(nu=30)": barlow_twins(30.0),
    "barlow_twins(nu=0.4)": barlow_twins(0.4),
    "vicreg": vicreg(0.04, 1, 1),
    "vicreg(nu1=0.5, nu2=3, gamma=0.3)": vicreg(0.5, 3, 0.3),
    "vicreg(nu1=2, nu2=0)": vicreg(2, 0, 1),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("text", "definition"), DEFINITIONS.items())
def test_value_and_gradients_of_the_definition(kind: str, text: str, definition: Value) -> None:
    """With the extra terms of Barlow Twins and VICReg off the tangent space, too."""
    components, whole = assert_defined_by(
        definition, gradlab.get_loss(text), *batch(kind, count=9, dim=6)
    )
    if components.extra_terms:
        assert_same(components.gradient(exact=True, tangent=False), whole)


@pytest.mark.parametrize(("preset", "exponent"), [(None, 2), ("as_published", 1)])
def test_mhe_in_table_2(preset: str | None, exponent: float) -> None:
    """As published, the energy is exp of the dot product, which adds a constant to the value."""
    anchors, positives = batch()
    n, nu = len(anchors), 10.0
    q = dots(anchors, anchors)
    z = sum(math.exp(exponent * q[k][m]) for k, m in unordered_pairs(n))
    loss = gradlab.get_loss("mhe", preset=preset)
    components = gradlab.components(loss, anchors, positives)
    assert components.negative_view == "same"
    for i in range(n):
        row = sum(math.exp(exponent * q[i][k]) for k in other_indices(i, n))
        assert float(components.gradient_dissipation[i]) == 1
        assert float(components.weight[i, i]) == 0
        assert float(components.ratio[i]) == pytest.approx(
            2 * z / (exponent * nu * n * row), rel=1e-13
        )
        for j in other_indices(i, n):
            expected = exponent * nu * math.exp(exponent * q[i][j]) / z
            assert float(components.weight[i, j]) == pytest.approx(expected, rel=1e-13)
    alignment = float(((anchors - positives) ** 2).sum()) / n
    value = alignment + nu * (math.log(2 / (n * (n - 1)) * z) - exponent)
    assert float(loss(anchors, positives)) == pytest.approx(value, rel=1e-13)


def test_mhs_in_table_2() -> None:
    anchors, positives = batch()
    n, nu = len(anchors), 0.7
    q = dots(anchors, anchors)
    components = gradlab.components(gradlab.get_loss("mhs", nu=nu), anchors, positives)
    for i in range(n):
        chosen = nearest(q, i)
        distance = math.dist(anchors[i].tolist(), anchors[chosen].tolist())
        assert float(components.gradient_dissipation[i]) == 1
        assert components.weight[i].nonzero().flatten().tolist() == [chosen]
        assert float(components.weight[i, chosen]) == pytest.approx(nu / distance, rel=1e-13)
        assert float(components.ratio[i]) == pytest.approx(2 * distance / (nu * n), rel=1e-13)


def test_of_equally_near_neighbours_the_first_counts() -> None:
    rows = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0, -1, 0]], dtype=torch.float64)
    components = gradlab.components("mhs", rows, rows.clone())
    assert [row.nonzero().flatten().tolist() for row in components.weight] == [[1], [0], [0], [0]]
    assert_same(gradlab.autograd_gradient("mhs", rows, rows.clone()), components.gradient())


@pytest.mark.parametrize("name", ["mhs", "modified_mhs"])
def test_equal_rows_get_the_subgradient_zero(name: str) -> None:
    anchors, positives = batch(count=6)
    anchors[3] = anchors[1]
    components = gradlab.components(name, anchors, positives)
    assert bool(torch.isfinite(gradlab.get_loss(name)(anchors, positives)))
    assert not components.weight[1].any()
    assert bool(torch.isfinite(components.weight).all())
    assert_same(gradlab.autograd_gradient(name, anchors, positives), components.gradient())


def test_barlow_twins_in_table_2() -> None:
    anchors, positives = batch()
    n, nu = len(anchors), 30.0
    components = gradlab.components("barlow_twins", anchors, positives)
    within = (positives @ positives.T).fill_diagonal_(0)
    diagonal = (anchors * positives).mean(0)
    ratio = n * (1 - (1 - nu) * diagonal) / (nu * within.sum(1, keepdim=True))
    assert components.gradient_dissipation.tolist() == [1] * n
    torch.testing.assert_close(components.weight, 2 * nu * within / n**2, rtol=1e-13, atol=0)
    torch.testing.assert_close(components.ratio, ratio, rtol=1e-12, atol=0)
    torch.testing.assert_close(
        components.scalar_ratio, (ratio * positives**2).sum(1), rtol=1e-12, atol=0
    )
    lacking = components.gradient(exact=True, tangent=False) - components.gradient(tangent=False)
    assert_same(lacking, 2 * nu / n**2 * anchors)


@pytest.mark.parametrize("kind", KINDS)
def test_each_term_of_vicreg_is_the_gradient_of_what_it_is_named_after(kind: str) -> None:
    """The paper's form is exact for the uncentred matrix; the terms are what it leaves out."""
    anchors, positives = batch(kind, count=9, dim=6)
    n, dim = anchors.shape
    components = gradlab.components(VICReg(3, 2, 0.5), anchors, positives)
    terms = components.extra_terms
    assert set(terms) == {"radial", "centring", "diagonal", "hinge"}

    def gradient_of(value) -> torch.Tensor:
        return plain_gradients(lambda rows, _: value(rows), anchors, positives)[0]

    aligned = gradient_of(lambda rows: ((rows - positives) ** 2).sum() / n)
    uncentred = gradient_of(lambda rows: 3 / dim * ((rows.T @ rows / (n - 1)) ** 2).sum())
    centred = gradient_of(lambda rows: 3 / dim * (covariance(rows) ** 2).sum())
    diagonal = gradient_of(lambda rows: 3 / dim * (covariance(rows).diagonal() ** 2).sum())
    assert_same(components.gradient(), tangent(aligned + uncentred, anchors))
    assert_same(terms["centring"], centred - uncentred)
    assert_same(terms["diagonal"], -diagonal)
    assert_same(terms["hinge"], gradient_of(lambda rows: 2 * hinge(rows, 0.5)))
    assert float(terms["hinge"].abs().max()) > 0
    assert_same(tangent(terms["radial"], anchors), torch.zeros_like(anchors))


def test_vicreg_in_table_2() -> None:
    anchors, positives = batch()
    (n, dim), nu1 = anchors.shape, 0.04
    q = (anchors @ anchors.T).fill_diagonal_(0)
    components = gradlab.components("vicreg", anchors, positives)
    assert components.gradient_dissipation.tolist() == [1] * n
    torch.testing.assert_close(
        components.weight, 4 * nu1 * q / (dim * (n - 1) ** 2), rtol=1e-13, atol=0
    )
    ratio = dim * (n - 1) ** 2 / (2 * nu1 * n * q.sum(1))
    torch.testing.assert_close(components.ratio, ratio, rtol=1e-12, atol=0)


def test_the_published_coefficient_of_vicreg() -> None:
    """ν = 2 ν₁ N²/(D (N-1)²) multiplies Σ_j Q_ij h_j · 2/N² in Eq. 11."""
    anchors, positives = batch(count=8, dim=6)
    loss = VICReg.published(8, 6)
    assert (loss.nu2, loss.gamma) == (1, 1)
    gradient = gradlab.components(loss, anchors, positives).gradient(tangent=False)
    pushed = (anchors @ anchors.T).fill_diagonal_(0) @ anchors / 8
    torch.testing.assert_close(gradient, 2 / 8 * (-positives + 30 * pushed), rtol=1e-12, atol=1e-13)
    with pytest.raises(gradlab.GradlabError, match="batch_size"):
        VICReg.published(1, 6)


def test_the_papers_form_is_never_called_exact() -> None:
    checks = gradlab.verify("vicreg")
    own = [check for check in checks if check.form == "components"]
    full = [check for check in checks if check.form == "exact"]
    assert not any(check.declared for check in own)
    assert all(check.declared and check.passed for check in full)
    assert min(check.error for check in own if check.batch == "anisotropic") > 1e-6


def test_equal_rows_and_dimensions_that_do_not_vary() -> None:
    anchors, positives = batch(count=5, dim=4)
    flat = torch.nn.functional.normalize(
        torch.cat([anchors[:, :3], torch.zeros(5, 1).double()], dim=1)
    )
    for first, second in ((anchors[:1].repeat(5, 1), positives), (flat, positives)):
        components = gradlab.components("vicreg", first, second)
        assert_same(
            components.gradient(exact=True), gradlab.autograd_gradient("vicreg", first, second)
        )
        assert not components.extra_terms["hinge"][:, 3].any()


def test_the_authors_code_of_vicreg_is_a_setting() -> None:
    """As their main script computes it, on unit rows and without the 1e-4 below the root."""
    n, d = 9, 6

    def library_value(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = 25 * ((x - y) ** 2).mean()
        for view in (x, y):
            centred = view - view.mean(0)
            products = (centred.T @ centred / (n - 1)) ** 2
            total = total + 25 * torch.relu(1 - view.var(0).sqrt()).mean() / 2
            total = total + (products.sum() - products.diagonal().sum()) / d
        return total * d / 25

    assert_defined_by(
        library_value, gradlab.get_loss("vicreg", nu1=d / 25, nu2=d / 2), *batch("random", n, d)
    )
