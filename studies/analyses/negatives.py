"""What the negatives of a queue do to a loss's gradient, as functions of how many there are and how old they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from gradlab import GradlabError, Loss, components
from gradlab.batch import unit_rows
from gradlab.gradient import gradient_statistics
from gradlab.plotting import Table, rounded

Rows = NDArray[np.float64]


def by_size(
    loss: str | Loss,
    anchors: ArrayLike,
    positives: ArrayLike,
    negatives: ArrayLike,
    sizes: Sequence[int],
    *,
    in_batch_negatives: bool = True,
) -> Table:
    """Dissipation, and where the weight lies, with the newest ``size`` negatives of a queue, for each size.

    Args:
        loss: a loss, or its name.
        anchors, positives: (N, D) rows, scaled to unit length here.
        negatives: (M, D) rows, newest first.
        sizes: how many of them are used; 0 for none, where there are others in the batch.
        in_batch_negatives: whether the other sentences of the batch are negatives too.

    Returns:
        Columns ``size``, those of `gradlab.gradient.diagnostics.gradient_statistics`, and ``queue_share``: the share of the
        weight on the queue's negatives, the mean over active anchors.

    Raises:
        GradlabError: for a size beyond M, or as :func:`gradlab.components`.
    """
    views = [_rows(each) for each in (anchors, positives, negatives)]
    found: list[dict[str, float]] = []
    for size in sizes:
        if not 0 <= size <= len(views[2]):
            raise GradlabError(f"the queue has {len(views[2])} negatives, not {size}")
        extra = views[2][:size] if size else None
        gradient = components(loss, views[0], views[1], extra, in_batch_negatives=in_batch_negatives)
        share = _shares(gradient)[:, gradient.weight.shape[1] - size :].sum(1)
        active = _active(gradient)
        mean = float(share[active].mean()) if active.any() else np.nan
        found.append({"size": size, **gradient_statistics(gradient), "queue_share": mean})
    return rounded(pd.DataFrame(found))


def by_age(
    loss: str | Loss,
    anchors: ArrayLike,
    positives: ArrayLike,
    negatives: ArrayLike,
    ages: ArrayLike,
    *,
    in_batch_negatives: bool = True,
) -> Table:
    """The same by the age of the negatives, all of which are used.

    Args:
        loss, anchors, positives, negatives, in_batch_negatives: see :func:`by_size`.
        ages: (M,) in steps; negative for random vectors.

    Returns:
        A row an age, youngest first (that of the batch itself is 0), with ``negatives`` (their number an anchor),
        ``cosine`` (their mean with the anchors), ``weight`` (the share of the weight on them, the mean over active
        anchors), ``weight_ratio`` (that share over their share in number; 1 where age does not matter), ``hardest`` (share of
        anchors whose hardest negative is among them), and ``alone``: mean dissipation if there were no others.

    Raises:
        GradlabError: for ages of another number, or as :func:`gradlab.components`.
    """
    anchors, positives, negatives = (_rows(each) for each in (anchors, positives, negatives))
    ages = np.asarray(ages)
    if ages.shape != (len(negatives),):
        raise GradlabError(f"{len(negatives)} negatives have {ages.shape} ages, not ({len(negatives)},)")
    count = len(anchors) if in_batch_negatives else 0
    gradient = components(loss, anchors, positives, negatives, in_batch_negatives=in_batch_negatives)
    shares, active = _shares(gradient), _active(gradient)
    cosines = anchors @ np.concatenate([positives[:count], negatives]).T
    own = np.eye(len(anchors), cosines.shape[1], dtype=bool) & in_batch_negatives
    hardest = np.argmax(np.where(own, -np.inf, cosines), axis=1)
    column_ages = np.concatenate([np.zeros(count, dtype=ages.dtype), ages])
    found = []
    for age in np.unique(column_ages):
        here = column_ages == age
        number = int(here.sum()) - (age == 0 and in_batch_negatives)
        if not number:
            continue
        weight = float(shares[active][:, here].sum(1).mean()) if active.any() else np.nan
        extra = negatives[ages == age] if age in ages else None
        in_batch = bool(age == 0 and in_batch_negatives)
        alone = components(loss, anchors, positives, extra, in_batch_negatives=in_batch)
        found.append(
            {
                "age": int(age),
                "negatives": number,
                "cosine": float(cosines[:, here][~own[:, here]].mean()),
                "weight": weight,
                "weight_ratio": weight / (number / (cosines.shape[1] - in_batch_negatives)),
                "hardest": float(here[hardest].mean()),
                "alone": float(alone.gradient_dissipation.mean()),
            }
        )
    return rounded(pd.DataFrame(found))


def _rows(rows: ArrayLike) -> Rows:
    found: Rows = unit_rows(np.asarray(rows, dtype=np.float64))
    return found


def _shares(gradient: Any) -> Rows:
    """(N, K) weights of each anchor over their sum; rows of an anchor without any are 0."""
    total = gradient.weight.sum(1, keepdims=True)
    shares: Rows = np.divide(gradient.weight, total, out=np.zeros_like(gradient.weight), where=total > 0)
    return shares


def _active(gradient: Any) -> NDArray[np.bool_]:
    from gradlab.gradient import ACTIVE

    active: NDArray[np.bool_] = gradient.gradient_dissipation >= ACTIVE
    return active
