"""VICReg against its definition, and each named term of its gradient against the part of the loss it stems from."""

from __future__ import annotations

import pytest
import torch

import gradlab
from gradlab.losses.vicreg import VICReg
from tests.losses.naive_losses import KINDS, assert_defined_by, assert_same, batch, plain_gradients, tangent

kinds = pytest.mark.parametrize("kind", KINDS)


def shifted(rows: torch.Tensor) -> torch.Tensor:
    """What no covariance depends on, except by rounding where all rows nearly agree."""
    return rows - rows[0].detach()


def covariance(rows: torch.Tensor) -> torch.Tensor:
    return torch.cov(shifted(rows).T)


def off_diagonal(rows: torch.Tensor) -> torch.Tensor:
    squares = covariance(rows) ** 2
    return squares.sum() - squares.diagonal().sum()


def hinge(rows: torch.Tensor, gamma: float) -> torch.Tensor:
    return torch.relu(gamma - shifted(rows).std(dim=0)).mean()


def naive(nu1: float, nu2: float, gamma: float):
    def value(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        total = ((anchors - positives) ** 2).sum() / len(anchors)
        for rows in (anchors, positives):
            total = total + nu1 * off_diagonal(rows) / rows.shape[1] + nu2 * hinge(rows, gamma)
        return total

    return value


@kinds
@pytest.mark.parametrize("loss", [VICReg(), VICReg(0.5, 3, 0.3), VICReg(2, 0)], ids=repr)
def test_value_and_full_decomposition(kind: str, loss: VICReg) -> None:
    anchors, positives = batch(kind, count=9, dim=6)
    parts, whole = assert_defined_by(naive(loss.nu1, loss.nu2, loss.gamma), loss, anchors, positives)
    assert set(parts.extra_terms) == {"radial", "centring", "diagonal", "hinge"}
    assert_same(parts.gradient(exact=True, tangent=False), whole)


@kinds
def test_each_term_is_the_gradient_of_what_it_is_named_after(kind: str) -> None:
    """The paper's form is exact for the uncentred matrix; the terms are what it leaves out."""
    anchors, positives = batch(kind, count=9, dim=6)
    n, dim = anchors.shape
    parts = gradlab.components(VICReg(3, 2, 0.5), anchors, positives)
    terms = parts.extra_terms

    def gradient_of(value) -> torch.Tensor:
        return plain_gradients(lambda rows, _: value(rows), anchors, positives)[0]

    aligned = gradient_of(lambda rows: ((rows - positives) ** 2).sum() / n)
    uncentred = gradient_of(lambda rows: 3 / dim * ((rows.T @ rows / (n - 1)) ** 2).sum())
    centred = gradient_of(lambda rows: 3 / dim * (covariance(rows) ** 2).sum())
    diagonal = gradient_of(lambda rows: 3 / dim * (covariance(rows).diagonal() ** 2).sum())
    assert_same(parts.gradient(), tangent(aligned + uncentred, anchors))
    assert_same(terms["centring"], centred - uncentred)
    assert_same(terms["diagonal"], -diagonal)
    assert_same(terms["hinge"], gradient_of(lambda rows: 2 * hinge(rows, 0.5)))
    assert float(terms["hinge"].abs().max()) > 0
    assert_same(tangent(terms["radial"], anchors), torch.zeros_like(anchors))


def test_components_of_table_2() -> None:
    anchors, positives = batch()
    (n, dim), nu1 = anchors.shape, 0.04
    q = (anchors @ anchors.T).fill_diagonal_(0)
    parts = gradlab.components("vicreg", anchors, positives)
    assert parts.gradient_dissipation.tolist() == [1] * n
    torch.testing.assert_close(parts.weight, 4 * nu1 * q / (dim * (n - 1) ** 2), rtol=1e-13, atol=0)
    ratio = dim * (n - 1) ** 2 / (2 * nu1 * n * q.sum(1))
    torch.testing.assert_close(parts.ratio, ratio, rtol=1e-12, atol=0)


def test_the_published_coefficient() -> None:
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
    flat = torch.nn.functional.normalize(torch.cat([anchors[:, :3], torch.zeros(5, 1).double()], dim=1))
    for first, second in ((anchors[:1].repeat(5, 1), positives), (flat, positives)):
        parts = gradlab.components("vicreg", first, second)
        assert_same(parts.gradient(exact=True), gradlab.autograd_gradient("vicreg", first, second))
        assert not parts.extra_terms["hinge"][:, 3].any()


def test_the_authors_code_is_a_setting() -> None:
    """As their main script computes it, on unit rows and without the 1e-4 below the root."""
    n, d = 9, 6

    def theirs(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = 25 * ((x - y) ** 2).mean()
        for view in (x, y):
            centred = view - view.mean(0)
            products = (centred.T @ centred / (n - 1)) ** 2
            total = total + 25 * torch.relu(1 - view.var(0).sqrt()).mean() / 2
            total = total + (products.sum() - products.diagonal().sum()) / d
        return total * d / 25

    assert_defined_by(theirs, gradlab.get_loss("vicreg", nu1=d / 25, nu2=d / 2), *batch("random", n, d))
