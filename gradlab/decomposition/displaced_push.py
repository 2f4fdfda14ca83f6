"""Push of a loss given as code on anchors whose own positive is away; see `relative_push`.

The total push on one anchor needs one extra coordinate only. Every vector but the anchor and its
positive gets the entry δ there; the anchor's gradient in this coordinate is then δ times the sum of
its negatives' coefficients, without any other contribution.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from gradlab.arrays import Float, Int, partners_at_angle, unit_rows
from gradlab.decomposition.checked_loss import CheckedLoss
from gradlab.errors import GradlabError
from gradlab.gradient.vectorised import GradientsAt
from gradlab.losses.components import ANGLES_AWAY

# δ² is lost in rounding, and δ stays far above the rounding error of a loss's arithmetic.
DELTA = 2.0**-26
# Relative size up to which the gradients at δ and -δ cancel: a loss without additive constants.
ODDNESS_TOLERANCE = 1e-9


def displaced_pushes(loss: CheckedLoss, count: int) -> list[Float[Tensor, "count"]]:
    """Return the push on ``count`` anchors with their own positives at each of `ANGLES_AWAY`.

    That takes two gradients per anchor; four for a loss with an additive constant in its distances.
    """
    first, second, *negatives = loss.split(in_fewest_dimensions(loss.rows))
    # How the loss is differentiated is found once, for all angles and both signs of δ.
    gradients = _gradients_at_anchors(loss, first, second, negatives)
    pushes = []
    for angle in ANGLES_AWAY:
        displaced = partners_at_angle(first, second, angle)
        of_anchors = functools.partial(_push_in_extra_coordinate, gradients, first, displaced)
        pushes.append(_push_on_anchors(of_anchors, count))
    return pushes


def in_fewest_dimensions(rows: Float[Tensor, "rows d"]) -> Float[Tensor, "rows fewer"]:
    """Return vectors of the same dot products in at most as many dimensions as there are vectors.

    A loss of dot products cannot tell them apart, and each of its products costs less.
    """
    if rows.shape[1] <= rows.shape[0]:
        return rows
    in_fewest: Tensor = unit_rows(torch.linalg.qr(rows.T).R.T)
    return in_fewest


def _push_on_anchors(
    in_extra_coordinate: Callable[[Tensor, float], Tensor], count: int
) -> Float[Tensor, "count"]:
    """Return the push on ``count`` anchors from gradients in the extra coordinate, over δ."""
    anchors = torch.arange(count)
    push = in_extra_coordinate(anchors, DELTA)
    # Whether the gradient changes its sign with δ is a property of the loss: one anchor tells.
    mirrored = in_extra_coordinate(anchors[:1], -DELTA)
    if bool((push[:1] - mirrored).abs() <= ODDNESS_TOLERANCE * push[:1].abs()):
        return push
    return (push + in_extra_coordinate(anchors, -DELTA)) / 2


def _gradients_at_anchors(
    loss: CheckedLoss,
    first: Float[Tensor, "n d"],
    second: Float[Tensor, "n d"],
    negatives: list[Tensor],
) -> Callable[..., Tensor]:
    """Return the gradients of the loss with respect to one anchor with an extra coordinate.

    ``first`` and ``second`` are the two views. Arguments of the gradients are which row is the
    anchor, its positive, and δ.
    """

    def value(
        anchor: Float[Tensor, "lifted"],
        is_anchor: Float[Tensor, "n"],
        positive: Float[Tensor, "d"],
        delta: Float[Tensor, ""],
    ) -> Tensor:
        shrink_factor, is_anchor = (1 - delta * delta) ** 0.5, is_anchor[:, None]

        def with_extra_coordinate(rows: Float[Tensor, "rows d"]) -> Float[Tensor, "rows lifted"]:
            return torch.cat([rows * shrink_factor, delta.expand(len(rows), 1)], dim=1)

        views = (
            torch.where(is_anchor, anchor, with_extra_coordinate(first)),
            torch.where(is_anchor, pad(positive, (0, 1)), with_extra_coordinate(second)),
        )
        total = loss.value(*views, *map(with_extra_coordinate, negatives))
        if not isinstance(total, Tensor) or total.numel() != 1:
            raise GradlabError(f"{loss.name} must return a torch scalar")
        return total.reshape(())

    title = f"largest push of {loss.name}"
    gradients = GradientsAt(value, entries=len(loss.rows) * max(first.shape))
    return functools.partial(gradients, progress=True, title=title)


def _push_in_extra_coordinate(
    gradients: Callable[..., Tensor],
    first: Float[Tensor, "n d"],
    displaced: Float[Tensor, "n d"],
    anchors: Int[Tensor, "count"],
    delta: float,
) -> Float[Tensor, "count"]:
    """Return the gradients of anchors in the extra coordinate, over δ.

    ``displaced`` are the positives away from their anchors, ``anchors`` indices of anchors.
    """
    anchors = anchors.to(first.device)
    is_anchor = torch.arange(len(first), device=first.device) == anchors[:, None]
    deltas = torch.full_like(first[anchors, 0], delta)
    rows = gradients(pad(first[anchors], (0, 1)), (is_anchor, displaced[anchors], deltas))
    return rows[:, -1] / delta
