"""Push of a loss given as code on anchors whose own positive is away; see `relative_push`.

The total push on one anchor needs one extra coordinate only. Every vector but the anchor and its
positive gets the entry δ there; the anchor's gradient in this coordinate is then δ times the sum of
its negatives' coefficients, without any other contribution.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from gradlab.arrays import Float, Int, unit_rows
from gradlab.decomposition.checked_loss import CheckedLoss
from gradlab.errors import GradlabError
from gradlab.gradient.relative_push import AWAY, displaced_positives, largest_size
from gradlab.gradient.vectorised import GradientsAt

# δ² is lost in rounding, and δ stays far above the rounding error of a loss's arithmetic.
DELTA = 2.0**-26
# Relative size up to which the gradients at δ and -δ cancel: a loss without additive constants.
ODDNESS_TOLERANCE = 1e-9


def displaced_push_of(loss: CheckedLoss, count: int) -> Float[Tensor, "count"]:
    """Return the largest size of the push on ``count`` anchors with their own positives away.

    That takes two gradients per anchor; four for a loss with an additive constant in its distances.
    """
    push: Tensor = largest_size([_push_at_angle(loss, count, angle) for angle in AWAY])
    return push


def in_fewest_dimensions(rows: Float[Tensor, "rows d"]) -> Float[Tensor, "rows fewer"]:
    """Return vectors of the same dot products in at most as many dimensions as there are vectors.

    A loss of dot products cannot tell them apart, and each of its products costs less.
    """
    if rows.shape[1] <= rows.shape[0]:
        return rows
    in_fewest: Tensor = unit_rows(torch.linalg.qr(rows.T).R.T)
    return in_fewest


def _push_at_angle(loss: CheckedLoss, count: int, angle: float) -> Float[Tensor, "count"]:
    """Return the push on ``count`` anchors with their own positives at ``angle``."""
    first, second, *negatives = loss.split(in_fewest_dimensions(loss.rows))
    columns = first, second, displaced_positives(first, second, angle), negatives
    anchors = torch.arange(count, device=first.device)
    push = _push_in_extra_coordinate(loss, *columns, anchors, DELTA)
    # Whether the gradient changes its sign with δ is a property of the loss: one anchor tells.
    mirrored = _push_in_extra_coordinate(loss, *columns, anchors[:1], -DELTA)
    if bool((push[:1] - mirrored).abs() <= ODDNESS_TOLERANCE * push[:1].abs()):
        return push
    return (push + _push_in_extra_coordinate(loss, *columns, anchors, -DELTA)) / 2


def _push_in_extra_coordinate(
    loss: CheckedLoss,
    first: Float[Tensor, "n d"],
    second: Float[Tensor, "n d"],
    displaced: Float[Tensor, "n d"],
    negatives: list[Tensor],
    anchors: Int[Tensor, "count"],
    delta: float,
) -> Float[Tensor, "count"]:
    """Return the gradients of anchors in the extra coordinate, over δ.

    ``first`` and ``second`` are the two views, ``displaced`` the positives away from their anchors,
    and ``anchors`` the indices of the anchors.
    """
    n = len(first)

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

    is_anchor = torch.arange(n, device=first.device) == anchors[:, None]
    deltas = torch.full_like(first[anchors, 0], delta)
    gradients = GradientsAt(value, entries=len(loss.rows) * max(n, first.shape[1]))(
        pad(first[anchors], (0, 1)),
        (is_anchor, displaced[anchors], deltas),
        progress=True,
        title=f"largest push of {loss.name}",
    )
    return gradients[:, -1] / delta
