"""`verify`: every closed form against autograd, in every convention, on batches of every shape.

Conventions: *tangent* compares projections on the tangent space at each anchor; *raw* takes the
gradient of ``loss(z/|z|)`` with respect to unnormalised ``z``, times ``|z|``; *similarity* compares
unprojected gradients with every cosine a plain dot product. Errors are largest absolute differences
divided by ``max(1, largest entry of GD·W and GD·Σ W R)``: in nearly collapsed batches weights reach 1e6.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from gradlab.geometry.views import unit_rows
from gradlab.gradient.paradigm import autograd_gradient, components, raw_gradient
from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss, loss_names
from gradlab.seeds import random_generator

CONVENTIONS = ("tangent", "raw", "similarity")
TOLERANCE = 1e-11


@dataclasses.dataclass(frozen=True)
class Check:
    """One loss in one convention on one batch.

    Attributes:
        loss: the loss.
        convention: ``"tangent"``, ``"raw"`` or ``"similarity"``.
        form: ``"components"`` for the papers' form, ``"exact"`` with its named extra terms.
        batch: name of the batch.
        error: largest absolute difference over the scale of the module's docstring.
        relative: norm of the whole difference over the norm of the gradient; NaN where that is zero.
        declared: whether the loss declares to be exact here.
    """

    loss: Loss
    convention: str
    form: str
    batch: str
    error: float
    relative: float
    declared: bool

    @property
    def passed(self) -> bool:
        """Exact to `TOLERANCE`, or not declared to be."""
        return self.error <= TOLERANCE or not self.declared


def random_batch(rng: np.random.Generator, count: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Independent directions in both views."""
    return unit_rows(rng.normal(size=(count, dim))), unit_rows(rng.normal(size=(count, dim)))


def paired_batch(rng: np.random.Generator, count: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Positives from near their anchors to far, so that some gates are open and some are closed."""
    anchors = unit_rows(rng.normal(size=(count, dim)))
    noise = np.linspace(0.1, 5, count)[:, None]
    return anchors, unit_rows(anchors + noise * rng.normal(size=(count, dim)) / np.sqrt(dim))


def anisotropic_batch(rng: np.random.Generator, count: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """All sentences in a narrow cone, as in an encoder that was not tuned."""
    cone = 2 * unit_rows(rng.normal(size=(1, dim)))
    anchors = unit_rows(cone + rng.normal(size=(count, dim)) / np.sqrt(dim))
    return anchors, unit_rows(anchors + 0.2 * rng.normal(size=(count, dim)) / np.sqrt(dim))


def clustered_batch(rng: np.random.Generator, count: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """A few tight clusters: hard negatives."""
    centres = rng.normal(size=(4, dim))[rng.integers(4, size=count)]
    anchors = unit_rows(centres + 0.1 * rng.normal(size=(count, dim)))
    return anchors, unit_rows(anchors + 0.1 * rng.normal(size=(count, dim)) / np.sqrt(dim))


def collapsed_batch(rng: np.random.Generator, count: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """All angles near 1e-5: what remains after a collapse."""
    centre = unit_rows(rng.normal(size=(1, dim)))
    noise = 1e-5 / np.sqrt(dim)
    anchors = unit_rows(centre + noise * rng.normal(size=(count, dim)))
    return anchors, unit_rows(anchors + noise * rng.normal(size=(count, dim)))


Batch = Callable[[np.random.Generator, int, int], tuple[np.ndarray, np.ndarray]]
BATCHES: dict[str, Batch] = {
    "random": random_batch,
    "paired": paired_batch,
    "anisotropic": anisotropic_batch,
    "clustered": clustered_batch,
    "nearly collapsed": collapsed_batch,
}


def verify(
    loss: str | Loss | None = None, *, batch_size: int = 32, dim: int = 64, seed: int = 0
) -> list[Check]:
    """Compare closed-form components with autograd in float64.

    Args:
        loss: a loss, its name, or None for every registered loss.
        batch_size: N.
        dim: D.
        seed: of the batches.

    Returns:
        One `Check` for each loss, form, convention and batch.
    """
    losses = [get_loss(name) for name in loss_names()] if loss is None else [get_loss(loss)]
    return [check for one in losses for check in _checks(one, batch_size, dim, seed)]


def _checks(loss: Loss, batch_size: int, dim: int, seed: int) -> Iterator[Check]:
    for name, make in BATCHES.items():
        rng = random_generator(seed)
        anchors, positives = make(rng, batch_size, dim)
        parts = components(loss, anchors, positives)
        push = np.abs(parts.gradient_dissipation[:, None] * parts.weight).max()
        pull = np.abs(parts.gradient_dissipation * parts.positive_weight.T).max()
        scale = max(1.0, float(push), float(pull))
        forms = {"components": loss.exact_in}
        if parts.extra_terms:
            forms["exact"] = loss.exact_in_full
        for convention in CONVENTIONS:
            if convention == "raw":
                reference = raw_gradient(loss, anchors, positives, rng.uniform(0.5, 2, batch_size))
            else:
                reference = autograd_gradient(loss, anchors, positives, tangent=convention == "tangent")
            for form, exact_in in forms.items():
                closed = parts.gradient(tangent=convention != "similarity", exact=form == "exact")
                error = float(np.abs(closed - reference).max()) / scale
                with np.errstate(invalid="ignore", divide="ignore"):  # all gates closed: 0/0
                    relative = float(np.linalg.norm(closed - reference) / np.linalg.norm(reference))
                yield Check(loss, convention, form, name, error, relative, convention in exact_in)
