"""Independent references: batches, loops over printed formulas, plain autograd of users' code."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

import gradlab
from gradlab.gradient.verification import BATCHES, TOLERANCE

KINDS = list(BATCHES)
Value = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def batch(
    kind: str = "clustered", count: int = 7, dim: int = 5, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Two views in float64."""
    return tuple(
        torch.from_numpy(x) for x in BATCHES[kind](np.random.default_rng(seed), count, dim)
    )


def plain_gradients(
    value: Value, anchors: torch.Tensor, positives: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of a sum of values with respect to both views, unprojected."""
    views = [x.detach().clone().requires_grad_() for x in (anchors, positives)]
    gradients = torch.autograd.grad(value(*views).sum(), views, allow_unused=True)
    return tuple(
        torch.zeros_like(x) if g is None else g for x, g in zip(views, gradients, strict=True)
    )


def tangent(gradient: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Row by row on the tangent space."""
    return torch.stack([g - (g @ h) * h for g, h in zip(gradient, rows, strict=True)])


def assert_same(
    left: torch.Tensor, right: torch.Tensor, components: gradlab.Components | None = None
) -> None:
    """Equal to 1e-11 times max(1, largest entry), of the tensors or the components behind them."""
    scale = max(1.0, float(right.detach().abs().max()))
    if components is not None:
        scale = max(
            scale,
            float(components.weight.abs().max()),
            float(components.positive_weight.abs().max()),
        )
    assert left.shape == right.shape
    error = float((left - right).detach().abs().max())
    assert error <= 1e-11 * scale, f"off by {error:.2g} at scale {scale:.2g}"


def assert_defined_by(
    value: Value, loss: gradlab.Loss, anchors: torch.Tensor, positives: torch.Tensor
) -> tuple[gradlab.Components, torch.Tensor]:
    """Value and gradients are those of a definition.

    Returns the components and its whole gradient by the anchors.
    """
    assert_same(loss(anchors, positives), value(anchors, positives))
    by_anchors, by_positives = plain_gradients(value, anchors, positives)
    components = gradlab.components(loss, anchors, positives)
    expected = tangent(by_anchors, anchors)
    assert_same(components.gradient(exact=True), expected, components)
    assert_same(gradlab.autograd_gradient(loss, anchors, positives), expected, components)
    if "similarity" in loss.exact_in:
        similarity = gradlab.autograd_gradient(loss, anchors, positives, tangent=False)
        assert_same(similarity, components.gradient(exact=True, tangent=False), components)
    assert_same(plain_gradients(loss, anchors, positives)[1], by_positives)
    return components, by_anchors


def assert_closed_form_is_autograd(text: str, rows: tuple, **context) -> None:
    """On both sides, of numpy rows, and off the tangent space where the loss declares so.

    Relative to the largest coefficient.
    """
    loss = gradlab.get_loss(text)
    pair = gradlab.components(loss, *rows, side="both", **context)
    for tangential in (True, False) if "similarity" in loss.exact_in else (True,):
        references = gradlab.autograd_gradient(
            loss, *rows, side="both", tangent=tangential, **context
        )
        for components, reference, side in zip(
            pair, references, ("anchors", "positives"), strict=True
        ):
            pushes = np.abs(components.gradient_dissipation[:, None] * components.weight)
            largest = max(pushes.max(initial=1.0), np.abs(components.pull).max())
            error = np.abs(components.gradient(exact=True, tangent=tangential) - reference).max()
            assert error <= TOLERANCE * largest, side
            assert components.side == side


def dots(first: torch.Tensor, second: torch.Tensor) -> list[list[float]]:
    """All dot products, in a loop of Python numbers."""
    first, second = first.tolist(), second.tolist()
    return [[math.fsum(a * b for a, b in zip(x, y, strict=True)) for y in second] for x in first]


def other_indices(i: int, count: int) -> list[int]:
    """All indices but i."""
    return [j for j in range(count) if j != i]


def nearest(similarities: list[list[float]], i: int) -> int:
    """Index of the largest similarity but i's own; the first of equals."""
    return max(other_indices(i, len(similarities)), key=lambda j: similarities[i][j])


def ordered_pairs(count: int) -> list[tuple[int, int]]:
    """All (k, l) with k != l."""
    return [(k, second) for k in range(count) for second in other_indices(k, count)]


def unordered_pairs(count: int) -> list[tuple[int, int]]:
    """All (k, l) with k < l."""
    return [(k, second) for k in range(count) for second in range(k + 1, count)]


# --- definitions of losses of whole views, as functions of both -----------------------------------


def mhe(nu: float, exponent: float) -> Value:
    """``1/N Σ |h - h'|² + ν log(2/(N(N-1)) Σ_{k<l} exp(-exponent |h_k - h_l|²))``."""

    def value(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        n = len(anchors)
        alignment = sum(((anchors[i] - positives[i]) ** 2).sum() for i in range(n)) / n
        energies = [
            -exponent * ((anchors[k] - anchors[m]) ** 2).sum() for k, m in unordered_pairs(n)
        ]
        return alignment + nu * (
            torch.logsumexp(torch.stack(energies), 0) - math.log(len(energies))
        )

    return value


def mhs(nu: float, view: str = "same", floor: float = 0.0) -> Value:
    """``1/N Σ |h - h'|² - ν Σ_i min_{j≠i} |h_i - sg(n_j)|``, squared distances ≥ ``floor``."""

    def value(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        n = len(anchors)
        total = sum(((anchors[i] - positives[i]) ** 2).sum() for i in range(n)) / n
        negatives = (anchors if view == "same" else positives).detach()
        for i in range(n):
            squared = torch.stack(
                [((anchors[i] - negatives[j]) ** 2).sum() for j in other_indices(i, n)]
            ).min()
            if float(squared.detach()) > 0:
                total = total - nu * torch.sqrt(torch.clamp(squared, min=floor))
        return total

    return value


def barlow_twins(nu: float) -> Value:
    """``Σ_c (1 - C_cc)² + ν Σ_{c≠d} C_cd²`` with ``C_cd = 1/N Σ_i h_ic h_id'``."""

    def value(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        correlation = sum(
            torch.outer(*pair) for pair in zip(anchors, positives, strict=True)
        ) / len(anchors)
        own = correlation.diagonal()
        return ((1 - own) ** 2).sum() + nu * ((correlation - torch.diag(own)) ** 2).sum()

    return value


def shifted(rows: torch.Tensor) -> torch.Tensor:
    """What no covariance depends on, except by rounding where all rows nearly agree."""
    return rows - rows[0].detach()


def covariance(rows: torch.Tensor) -> torch.Tensor:
    return torch.cov(shifted(rows).T)


def hinge(rows: torch.Tensor, gamma: float) -> torch.Tensor:
    return torch.relu(gamma - shifted(rows).std(dim=0)).mean()


def vicreg(nu1: float, nu2: float, gamma: float) -> Value:
    def value(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        total = ((anchors - positives) ** 2).sum() / len(anchors)
        for rows in (anchors, positives):
            squares = covariance(rows) ** 2
            off_diagonal = squares.sum() - squares.diagonal().sum()
            total = total + nu1 * off_diagonal / rows.shape[1] + nu2 * hinge(rows, gamma)
        return total

    return value
