"""The components of any loss in units that can be compared: those of what it does to wrong positives."""

from __future__ import annotations

from typing import Any

from gradlab.batch.batch import Batch
from gradlab.decomposition.checking import kinds
from gradlab.decomposition.core import decompose
from gradlab.losses.components import Components


def columns_of(views: Batch) -> list[Any]:
    """Anchors, positives and extra negatives, if there are any, on the CPU: what a loss of two views is called with."""
    return [rows.cpu() for rows in kinds(views)]


def relative_components(loss: Any, views: Batch, unit: float | None = None) -> tuple[Components, float]:
    """Components of a loss of two views, with a dissipation between 0 (an anchor is left alone) and about 1.

    A gradient does not tell the size of the dissipation, which depends on the loss's own units. Here it is relative to the
    largest that the loss has when every positive is another sentence.

    Args:
        loss: as `gradlab.decompose` takes it.
        views: unit torch rows in float64.
        unit: what counts as 1, of an earlier call; None finds it on these views.

    Returns:
        the components, and the unit.

    Raises:
        GradlabError: as `gradlab.decompose`.
    """
    anchors, positives, *extra = columns_of(views)
    found = decompose(loss, anchors, positives, *extra).components
    if unit is None:
        wrong = decompose(loss, anchors, positives.roll(1, dims=0), *extra)
        unit = float(wrong.gradient_dissipation.abs().max()) or 1.0
    return found.rescaled(unit), unit
