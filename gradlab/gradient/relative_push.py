"""How much of the push that its negatives could give an anchor is alive?

The *push* of an anchor, ``P_i = Σ_j ∂L/∂cos θ_ij`` over its negatives j, is an absolute number: it
carries the factor 1/N of a mean, the 1/τ of a softmax and the weight of a term. The *relative push*
is the push over the largest push as the anchor's positive moves, with the negatives as they are:

    P_i / max(|P_i|, |P_i with the positive at a right angle|, |P_i with it opposite|)

The positive moves on the great circle from the anchor through itself: to a right angle, where the
push of a loss of squared cosines is largest, and to π - 0.001, beside the antipode, where that of
all registered losses is, and every derivative of an angle is finite. Only the positive of the one
anchor moves; all other vectors of the batch stay. The definition needs values and gradients of
the loss only, so it is one number for a loss by name, in a combinator, as code, or by autograd.
It is 1 if the whole push is alive, 0 if the loss leaves the anchor alone, negative if the anchor's
negatives attract it, and NaN if no negative acts on the anchor.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, unit_rows
from gradlab.batch.batch import Batch
from gradlab.losses.base import Loss
from gradlab.losses.batch_loss import BatchLoss
from gradlab.losses.candidate_loss import CandidateLoss
from gradlab.losses.combinator import Combinator
from gradlab.losses.components import Components, as_share
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.per_prefix import PerPrefix, prefix
from gradlab.losses.symmetric import Symmetric

# Rows whose relative push is recorded in a run where each costs an evaluation; in batches of more
# than `MANY` sentences, fewer.
RECORDED, MANY, RECORDED_OF_MANY = 64, 256, 16
# Angles in radians to which the positive is displaced.
AWAY = (math.pi / 2, math.pi - 1e-3)


def relative_push(
    loss: Loss, batch: Batch, *, side: str = "anchors", count: int | None = None
) -> Float[Array, "count"]:
    """Return the relative push on the first ``count`` rows of a side of a batch; None means all.

    `gradlab.components` computes it as ``components(...).relative_push``; use this function with a
    `Loss` and a checked `Batch` in hand, as in ``relative_push(loss, loss.batch(h, h_other))``.

    Args:
        loss: any loss, such as one of `gradlab.get_loss`.
        batch: the embeddings.
        side: ``"anchors"``, or ``"positives"``, whose positives are their anchors.
        count: number of rows. Losses of pairs cost two evaluations for all rows; losses of whole
            views, of own-view negatives and losses given as code one evaluation per row.

    Raises:
        GradlabError: as `gradlab.components`.
    """
    anchors_side = side == "anchors"
    components = loss.components_of(batch) if anchors_side else loss.sides_of(batch)[1]
    displaced = displaced_push(loss, batch, side=side, count=count)[:count]
    return as_share(components.total_push[:count], displaced)


def recorded_push(components: Components) -> Float[Array, "_"] | None:
    """Return the relative push as runs record it: of all rows, or of the first `RECORDED`.

    The first rows stand for all where every row costs an evaluation of the loss (`RECORDED_OF_MANY`
    of them in batches of more than `MANY` sentences). None if it is not known.
    """
    if components.displaced_push is None:
        return None
    rows = components.weight.shape[0]
    displaced = components.displaced_push(min(rows, RECORDED if rows <= MANY else RECORDED_OF_MANY))
    return as_share(components.total_push[: displaced.shape[0]], displaced)


def displaced_positives(
    anchors: Float[Array, "*n d"], positives: Float[Array, "*n d"], angle: float
) -> Float[Array, "*n d"]:
    """Return the positives moved to an angle from their anchors, on the great circle through both.

    A positive that coincides with its anchor, or with the antipode, has no direction and moves to
    the antipode.
    """
    return unit_rows(_displaced(anchors, positives, (angle,))[0])


def displaced_push(
    loss: Loss, batch: Batch, count: int | None = None, *, side: str = "anchors"
) -> Float[Array, "_"]:
    """Return the largest size of the push on each row with its own positive at the angles `AWAY`.

    Of the first ``count`` rows at least: of all rows if that costs no more.
    """
    rows = batch.anchors.shape[0]
    count = rows if count is None else min(count, rows)
    if not (loss.closed_form or loss.is_combinator):
        return loss.displaced_push(batch, side, count)  # type: ignore[attr-defined]  # of a loss given as code
    pushes = _at_once(loss, batch, AWAY) if side == "anchors" else None
    return largest_size(pushes or [_by_row(loss, batch, side, count, angle) for angle in AWAY])


def largest_size(pushes: Sequence[Float[Array, "*n"]]) -> Float[Array, "*n"]:
    """Return the largest absolute entry of several arrays, element by element."""
    xp = array_namespace(pushes[0])
    return functools.reduce(xp.maximum, map(xp.abs, pushes))


def _displaced(
    anchors: Float[Array, "*n d"], positives: Float[Array, "*n d"], angles: Sequence[float]
) -> list[Float[Array, "*n d"]]:
    """Return `displaced_positives` for several angles, before rounding errors are normalised."""
    xp = array_namespace(anchors)
    along = xp.sum(anchors * positives, axis=-1, keepdims=True)
    across = positives - along * anchors
    length = xp.sqrt(xp.sum(across * across, axis=-1, keepdims=True))
    near = length < 1e-12
    direction = across / xp.where(near, xp.ones_like(length), length)
    moved = [math.sin(angle) * direction + math.cos(angle) * anchors for angle in angles]
    return [xp.where(near, -anchors, rows) for rows in moved]


def _at_once(loss: Loss, batch: Batch, angles: Sequence[float]) -> list[Float[Array, "n"]] | None:
    """Return the push on all anchors at each angle from few evaluations of each term, if possible.

    That takes a loss in which an anchor's positive acts on its own row only. None otherwise.
    """
    if isinstance(loss, PerPrefix):
        return _at_once(loss.loss, prefix(batch, max(loss.prefixes)), angles)
    if isinstance(loss, Symmetric):
        return _of_symmetric(loss, batch, angles)
    if not isinstance(loss, Combinator) or any(isinstance(b, BatchLoss) for b in loss.bases):
        return _of_rows(loss, batch, angles)
    terms = loss.terms_of(batch)
    of_terms = [_at_once(term, views, angles) for _, term, views in terms]
    if any(pushes is None for pushes in of_terms):
        return None
    scaled = [
        [factor * push for push in pushes]  # type: ignore[union-attr]  # none is None
        for (factor, _, _), pushes in zip(terms, of_terms, strict=True)
    ]
    return [sum(pushes[1:], pushes[0]) for pushes in zip(*scaled, strict=True)]


def _of_rows(loss: Loss, batch: Batch, angles: Sequence[float]) -> list[Float[Array, "n"]] | None:
    """Move the positives of all rows, but not the columns that other rows compare with."""
    rows_are_apart = isinstance(loss, PairLoss | CandidateLoss)
    if not rows_are_apart or batch.candidates.pools != ("other",):
        return None
    displaced = _displaced(batch.anchors, batch.positives, angles)
    moved = unit_rows(array_namespace(batch.anchors).stack(displaced))
    if isinstance(loss, PairLoss) and not batch.candidates.rules:  # which may look at positives
        return list(loss.total_push(batch, moved))
    rows = batch.rows(0, batch.anchors.shape[0])
    return [
        loss.components_of(dataclasses.replace(rows, positives=positives)).total_push
        for positives in moved
    ]


def _of_symmetric(
    loss: Symmetric, batch: Batch, angles: Sequence[float]
) -> list[Float[Array, "n"]] | None:
    """Return half of the rows' displaced push, and half of what the other direction pushes now.

    An anchor is a negative in the rows of the other direction, which its positive does not enter.
    """
    of_rows = _at_once(loss.terms[0], batch, angles)
    if of_rows is None or not loss.shares_coefficients(batch):
        return None
    (_, _, _), (_, reverse, exchanged) = loss.terms_of(batch)
    push = reverse.sides_of(exchanged)[1].total_push
    return [(rows + push) / 2 for rows in of_rows]


def _by_row(loss: Loss, batch: Batch, side: str, count: int, angle: float) -> Float[Array, "count"]:
    """Move one positive at a time."""
    xp = array_namespace(batch.anchors)
    names = ("anchors", "positives") if side == "anchors" else ("positives", "anchors")
    first, second = (getattr(batch, name) for name in names)
    displaced = displaced_positives(first, second, angle)
    numbers = xp.arange(batch.count, device=batch.anchors.device)
    pushes = []
    for row in range(count):
        own = (numbers == row)[:, None]
        moved = dataclasses.replace(batch, **{names[1]: xp.where(own, displaced, second)})
        components = loss.components_of(moved) if side == "anchors" else loss.sides_of(moved)[1]
        pushes.append(components.total_push[row])
    return xp.stack(pushes)
