"""`verify`: compare closed forms with autograd, for both views, three conventions, several batches.

Conventions: *tangent* compares projections on the tangent space at each anchor. *raw* compares the
gradient of ``loss(z/|z|)`` with respect to unnormalised ``z``, times ``|z|``. *similarity* compares
unprojected gradients, with every cosine a plain dot product. An error is the largest absolute
difference divided by ``max(1, largest entry of GD·W and GD·Σ W R)``, because weights reach 1e6 in
nearly collapsed batches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from gradlab.arrays import Array, Float, to_numpy, unit_rows
from gradlab.batch.check import check_batch
from gradlab.drawable import Drawable
from gradlab.gradient.components_and_autograd import check_side, differentiate
from gradlab.losses.base import Loss
from gradlab.losses.candidate_loss import CandidateLoss
from gradlab.losses.components import Components
from gradlab.losses.registry import get_loss, loss_names, takes_loss, taught_names
from gradlab.seeds import random_generator

if TYPE_CHECKING:
    from pandas import DataFrame

TwoViews = tuple[Float[np.ndarray, "{count} {dim}"], Float[np.ndarray, "{count} {dim}"]]
CONVENTIONS = ("tangent", "raw", "similarity")
TOLERANCE = Loss.exact_to


@dataclasses.dataclass(frozen=True)
class Check:
    """Comparison of one loss with autograd, in one convention on one batch."""

    loss: Loss
    convention: str  #: ``"tangent"``, ``"raw"`` or ``"similarity"``
    form: str  #: ``"components"`` for the papers' form, ``"exact"`` with its named extra terms
    batch: str  #: name of the batch
    error: float  #: largest absolute difference, relative to the scale in the module's docstring
    #: norm of the whole difference over the norm of the gradient; NaN if that is zero
    relative: float
    declared: bool  #: whether the loss declares to be exact here
    side: str = "anchors"  #: view whose gradient is compared, ``"anchors"`` or ``"positives"``

    @property
    def passed(self) -> bool:
        """Whether the error is within the declared accuracy, or the loss is not declared exact."""
        return self.error <= self.loss.exact_to or not self.declared


class Checks(list[Check], Drawable):
    """Results of `verify`; `plot` draws the largest errors, filled where declared exact."""

    artist = "gradlab.plotting.result_plots:draw_errors"

    def columns(self) -> dict[str, list[Any]]:
        names = ("convention", "form", "batch", "side", "error", "relative", "declared", "passed")
        table: dict[str, list[Any]] = {"loss": [check.loss.name for check in self]}
        return table | {name: [getattr(check, name) for check in self] for name in names}

    def __repr__(self) -> str:
        return f"{self.headline()}\n{self.brief()}"

    def headline(self) -> str:
        return (
            f"{sum(check.passed for check in self)} of {len(self)} checks passed; largest errors:"
        )

    def errors(self) -> list[tuple[str, str, float, bool, bool]]:
        """Return loss, convention, largest error, whether declared exact, whether all passed."""
        groups: dict[tuple[str, str], list[Check]] = {}
        for check in self:
            name = check.loss.name + ("" if check.form == "components" else " + extra terms")
            groups.setdefault((name, check.convention), []).append(check)
        return [
            (*key, max(c.error for c in checks), checks[0].declared, all(c.passed for c in checks))
            for key, checks in groups.items()
        ]

    def brief(self) -> DataFrame:
        """Return the largest error of each loss in each convention."""
        import pandas as pd

        table: dict[str, dict[str, float]] = {}
        for name, convention, error, _, _ in self.errors():
            table.setdefault(convention, {})[name] = error
        return pd.DataFrame(table)


def random_batch(rng: np.random.Generator, count: int, dim: int) -> TwoViews:
    """Return independent random rows in both views."""
    return unit_rows(rng.normal(size=(count, dim))), unit_rows(rng.normal(size=(count, dim)))


def paired_batch(rng: np.random.Generator, count: int, dim: int) -> TwoViews:
    """Return positives at small to large distances from anchors, for open and closed gates."""
    anchors = unit_rows(rng.normal(size=(count, dim)))
    noise = np.linspace(0.1, 5, count)[:, None]
    return anchors, unit_rows(anchors + noise * rng.normal(size=(count, dim)) / np.sqrt(dim))


def anisotropic_batch(rng: np.random.Generator, count: int, dim: int) -> TwoViews:
    """Return sentences in a narrow cone, as from an encoder that was not fine-tuned."""
    cone = 2 * unit_rows(rng.normal(size=(1, dim)))
    anchors = unit_rows(cone + rng.normal(size=(count, dim)) / np.sqrt(dim))
    return anchors, unit_rows(anchors + 0.2 * rng.normal(size=(count, dim)) / np.sqrt(dim))


def clustered_batch(rng: np.random.Generator, count: int, dim: int) -> TwoViews:
    """Return sentences in four tight clusters, which make hard negatives."""
    centres = rng.normal(size=(4, dim))[rng.integers(4, size=count)]
    anchors = unit_rows(centres + 0.1 * rng.normal(size=(count, dim)))
    return anchors, unit_rows(anchors + 0.1 * rng.normal(size=(count, dim)) / np.sqrt(dim))


def collapsed_batch(rng: np.random.Generator, count: int, dim: int) -> TwoViews:
    """Return nearly equal rows, at angles around 1e-5, as after a collapse."""
    centre = unit_rows(rng.normal(size=(1, dim)))
    noise = 1e-5 / np.sqrt(dim)
    anchors = unit_rows(centre + noise * rng.normal(size=(count, dim)))
    return anchors, unit_rows(anchors + noise * rng.normal(size=(count, dim)))


BATCHES: dict[str, Callable[[np.random.Generator, int, int], TwoViews]] = {
    "random": random_batch,
    "paired": paired_batch,
    "anisotropic": anisotropic_batch,
    "clustered": clustered_batch,
    "nearly collapsed": collapsed_batch,
}
OWN = "own negatives"  # name of the batch whose anchors have three own negatives each
LABELS = "labels"  # name of the batch in which groups of four sentences are positives of each other


@takes_loss
def verify(
    loss: str | Loss | None = None,
    *,
    batch_size: int = 32,
    dim: int = 64,
    seed: int = 0,
    side: str = "both",
    device: str | None = None,
) -> Checks:
    """Compare closed-form components with autograd in float64.

    Args:
        loss: a loss, its name, or None for every registered loss.
        batch_size: sentences of a batch, N.
        dim: dimensions, D.
        seed: seed of the batches.
        side: ``"anchors"``, ``"positives"`` or ``"both"``: the view whose gradient is compared.
        device: where torch computes both, such as ``"cuda"``; None computes the closed forms
            with numpy.

    Returns:
        One `Check` for each loss, side, form, convention and batch. There are batches with own
        negatives for losses that take them, and with labels for losses of several positives.

    Raises:
        GradlabError: loss or side is unknown.
    """
    check_side(side)
    losses = [*loss_names(), *taught_names()] if loss is None else [loss]
    options = (batch_size, dim, seed, side, device)
    return Checks(check for loss in losses for check in _checks(get_loss(loss), *options))


def _checks(
    loss: Loss, batch_size: int, dim: int, seed: int, side: str, device: str | None
) -> Iterator[Check]:
    kinds = dict(BATCHES)
    if "own_negatives" in loss.looks_at:
        kinds[OWN] = paired_batch
    if any(isinstance(base, CandidateLoss) for base in loss.bases):
        kinds[LABELS] = clustered_batch
    for name, make in kinds.items():
        rng = random_generator(seed)
        anchors, positives = make(rng, batch_size, dim)
        embeddings: Any = [anchors, positives]
        context: dict[str, Any] = {}
        if name == OWN:
            own = unit_rows(anchors[:, None] + rng.normal(size=(batch_size, 3, dim)))
            context["own_negatives"] = own
            embeddings.append(own)
        if name == LABELS:
            context["labels"] = np.arange(batch_size) // 4
        scale = rng.uniform(0.5, 2, batch_size)
        if "teacher" in loss.looks_at:
            context["teacher"] = [
                unit_rows(rows + rng.normal(size=rows.shape) / np.sqrt(dim)) for rows in embeddings
            ]
        if device is not None:
            import torch
            from torch.utils._pytree import tree_map

            anchors, positives, context = tree_map(
                lambda rows: torch.as_tensor(rows, device=device), (anchors, positives, context)
            )
        views = check_batch(anchors, positives, **context)
        closed_forms = loss.sides_of(views)
        for convention in CONVENTIONS:
            references = differentiate(loss, views, "both", convention, scale)
            for components, reference in zip(closed_forms, references, strict=True):
                if side in (components.side, "both"):
                    yield from _compare(loss, components, reference, convention, name)


def _compare(
    loss: Loss, components: Components, reference: Float[Array, "n d"], convention: str, batch: str
) -> Iterator[Check]:
    reference = to_numpy(reference)
    push = abs(components.gradient_dissipation[:, None] * components.weight).max()
    scale = max(1.0, float(push), float(abs(components.pull).max()))
    forms = {"components": loss.exact_in}
    if components.extra_terms:
        forms["exact"] = Loss.exact_in
    for form, exact_in in forms.items():
        closed = to_numpy(
            components.gradient(tangent=convention != "similarity", exact=form == "exact")
        )
        error = float(np.abs(closed - reference).max()) / scale
        with np.errstate(invalid="ignore", divide="ignore"):  # nothing acts: 0/0
            relative = float(np.linalg.norm(closed - reference) / np.linalg.norm(reference))
        yield Check(
            loss, convention, form, batch, error, relative, convention in exact_in, components.side
        )
