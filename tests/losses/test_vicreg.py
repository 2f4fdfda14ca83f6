"""VICReg against its definition, and each named term of its gradient against the part of the loss it stems from."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from naive_losses import KINDS, assert_same, batch, dots, others, plain_gradients, tangent

import gradlab
from gradlab.losses.vicreg import VICReg

SETTINGS = [VICReg(), VICReg(25, 25), VICReg(0.5, 3, 0.3), VICReg(2, 0), VICReg.published(9, 6)]


def shifted(rows: torch.Tensor) -> torch.Tensor:
    """What no covariance depends on, except by rounding where all rows nearly agree."""
    return rows - rows[0].detach()


def covariance(rows: torch.Tensor) -> torch.Tensor:
    """As a user would write it."""
    return torch.cov(shifted(rows).T)


def off_diagonal(rows: torch.Tensor) -> torch.Tensor:
    squares = covariance(rows) ** 2
    return squares.sum() - squares.diagonal().sum()


def hinge(rows: torch.Tensor, gamma: float) -> torch.Tensor:
    return torch.relu(gamma - shifted(rows).std(dim=0)).mean()


def naive(loss: VICReg):
    def value(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        total = ((anchors - positives) ** 2).sum() / len(anchors)
        for rows in (anchors, positives):
            total = total + loss.nu1 * off_diagonal(rows) / rows.shape[1] + loss.nu2 * hinge(rows, loss.gamma)
        return total

    return value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", SETTINGS, ids=repr)
def test_value_and_full_decomposition(kind: str, loss: VICReg) -> None:
    anchors, positives = batch(kind, count=9, dim=6)
    assert_same(loss(anchors, positives), naive(loss)(anchors, positives))
    by_anchors, by_positives = plain_gradients(naive(loss), anchors, positives)
    parts = gradlab.components(loss, anchors, positives)
    assert set(parts.extra_terms) == {"radial", "centring", "diagonal", "hinge"}
    assert_same(parts.gradient(exact=True), tangent(by_anchors, anchors))
    assert_same(parts.gradient(exact=True, tangent=False), by_anchors)
    assert_same(gradlab.autograd_gradient(loss, anchors, positives, tangent=False), by_anchors)
    assert_same(plain_gradients(loss, anchors, positives)[1], by_positives)


@pytest.mark.parametrize("kind", KINDS)
def test_full_decomposition_at_full_size(kind: str) -> None:
    anchors, positives = batch(kind, count=128, dim=768)
    for loss in (VICReg(), VICReg(25, 25), VICReg.published(128, 768)):
        parts = gradlab.components(loss, anchors, positives)
        assert_same(parts.gradient(exact=True), gradlab.autograd_gradient(loss, anchors, positives))


@pytest.mark.parametrize("kind", KINDS)
def test_each_term_is_the_gradient_of_what_it_is_named_after(kind: str) -> None:
    anchors, positives = batch(kind, count=9, dim=6)
    n, dim = anchors.shape
    loss = VICReg(3, 2, 0.5)
    terms = gradlab.components(loss, anchors, positives).extra_terms

    def gradient_of(value) -> torch.Tensor:
        return plain_gradients(lambda rows, _: value(rows), anchors, positives)[0]

    uncentred = gradient_of(lambda rows: 3 / dim * ((rows.T @ rows / (n - 1)) ** 2).sum())
    centred = gradient_of(lambda rows: 3 / dim * (covariance(rows) ** 2).sum())
    diagonal = gradient_of(lambda rows: 3 / dim * (covariance(rows).diagonal() ** 2).sum())
    assert_same(terms["centring"], centred - uncentred)
    assert_same(terms["diagonal"], -diagonal)
    assert_same(terms["hinge"], gradient_of(lambda rows: 2 * hinge(rows, 0.5)))
    assert float(terms["hinge"].abs().max()) > 0
    assert_same(tangent(terms["radial"], anchors), torch.zeros_like(anchors))


@pytest.mark.parametrize("kind", KINDS)
def test_the_papers_form_is_exact_for_the_uncentred_matrix(kind: str) -> None:
    anchors, positives = batch(kind, count=9, dim=6)
    n, dim = anchors.shape

    def value(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return ((first - second) ** 2).sum() / n + 3 / dim * ((first.T @ first / (n - 1)) ** 2).sum()

    reference = tangent(plain_gradients(value, anchors, positives)[0], anchors)
    assert_same(gradlab.components(VICReg(3), anchors, positives).gradient(), reference)


def test_components_of_table_2() -> None:
    anchors, positives = batch()
    (n, dim), nu1 = anchors.shape, 0.04
    q = dots(anchors, anchors)
    parts = gradlab.components("vicreg", anchors, positives)
    for i in range(n):
        total = sum(q[i][k] for k in others(i, n))
        assert float(parts.gradient_dissipation[i]) == 1
        assert float(parts.weight[i, i]) == 0
        assert float(parts.ratio[i]) == pytest.approx(dim * (n - 1) ** 2 / (2 * nu1 * n * total), rel=1e-12)
        for j in others(i, n):
            expected = 4 * nu1 * q[i][j] / (dim * (n - 1) ** 2)
            assert float(parts.weight[i, j]) == pytest.approx(expected, rel=1e-13)


def test_the_published_coefficient() -> None:
    """ν = 2 ν₁ N²/(D (N-1)²) multiplies Σ_j Q_ij h_j · 2/N² in Eq. 11."""
    anchors, positives = batch(count=8, dim=6)
    loss = VICReg.published(8, 6)
    assert (loss.nu2, loss.gamma) == (1, 1)
    gradient = gradlab.components(loss, anchors, positives).gradient(tangent=False)
    q = dots(anchors, anchors)
    for i in range(8):
        pushed = sum(q[i][j] / 8 * anchors[j] for j in others(i, 8))
        torch.testing.assert_close(gradient[i], 2 / 8 * (-positives[i] + 30 * pushed), rtol=1e-12, atol=1e-13)
    with pytest.raises(gradlab.GradlabError, match="batch_size"):
        VICReg.published(1, 6)


def test_how_far_the_papers_form_is_off_is_reported_and_never_called_exact() -> None:
    checks = gradlab.verify("vicreg")
    own = [check for check in checks if check.form == "components"]
    full = [check for check in checks if check.form == "exact"]
    assert not any(check.declared for check in own)
    assert all(check.declared and check.passed for check in full)
    assert min(check.error for check in own if check.batch == "anisotropic") > 1e-6


def test_equal_rows_and_dimensions_that_do_not_vary() -> None:
    anchors, positives = batch(count=5, dim=4)
    flat = torch.nn.functional.normalize(torch.cat([anchors[:, :3], torch.zeros(5, 1).double()], dim=1))
    for first, second in ((anchors[:1].repeat(5, 1),) * 2, (flat, positives)):
        second = second.clone()
        parts = gradlab.components("vicreg", first, second)
        gradient = gradlab.autograd_gradient("vicreg", first, second)
        assert bool(torch.isfinite(gradlab.get_loss("vicreg")(first, second)))
        assert_same(parts.gradient(exact=True), gradient)
    assert not gradlab.components("vicreg", first[:1].repeat(5, 1), positives).extra_terms["hinge"].any()
    assert not parts.extra_terms["hinge"][:, 3].any()


def test_numpy_agrees_with_torch() -> None:
    anchors, positives = batch()
    here = gradlab.components("vicreg", anchors.numpy(), positives.numpy())
    there = gradlab.components("vicreg", anchors, positives)
    for name, term in here.extra_terms.items():
        np.testing.assert_allclose(term, there.extra_terms[name].numpy(), atol=1e-15)
    value = gradlab.get_loss("vicreg")(anchors.numpy(), positives.numpy())
    assert value == pytest.approx(float(gradlab.get_loss("vicreg")(anchors, positives)), rel=1e-14)


def test_the_authors_code_is_a_setting() -> None:
    """As their main script computes it, on unit rows and without the 1e-4 below the root."""
    rng = torch.Generator().manual_seed(0)
    n, d = 9, 6
    views = torch.nn.functional.normalize(torch.randn(2, n, d, generator=rng, dtype=torch.float64), dim=-1)
    x, y = (part.clone().requires_grad_() for part in views)
    invariance = ((x - y) ** 2).mean()
    variance, covariance = 0.0, 0.0
    for view in (x, y):
        centred = view - view.mean(0)
        variance = variance + torch.relu(1 - view.var(0).sqrt()).mean() / 2
        products = (centred.T @ centred / (n - 1)) ** 2
        covariance = covariance + (products.sum() - products.diagonal().sum()) / d
    theirs = 25 * invariance + 25 * variance + covariance
    ours = gradlab.get_loss("vicreg", nu1=d / 25, nu2=d / 2)
    leaves = [part.clone().requires_grad_() for part in views]
    value = 25 / d * ours(*leaves)
    assert float(value.detach()) == pytest.approx(float(theirs.detach()), rel=1e-13)
    expected, found = torch.autograd.grad(theirs, (x, y)), torch.autograd.grad(value, leaves)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-13)
