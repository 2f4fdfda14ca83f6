"""Push of a loss given as code on anchors whose own positive is away; see `relative_push`.

The total push on one anchor needs one extra coordinate only. Every vector but the anchor and its
positive gets the entry δ there; the anchor's gradient in this coordinate is then δ times the sum of
its negatives' coefficients, without any other contribution.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from gradlab.arrays import Float, unit_rows
from gradlab.decomposition.checked_loss import CheckedLoss
from gradlab.errors import GradlabError
from gradlab.gradient.relative_push import AWAY, displaced_positives, largest_size
from gradlab.gradient.vectorised import GradientsAt

# δ² is lost in rounding, and δ stays far above the rounding error of a loss's arithmetic.
DELTA = 2.0**-26
# Relative size up to which the gradients at δ and -δ cancel: a loss without additive constants.
ODD = 1e-9


def displaced_push_of(loss: CheckedLoss, count: int) -> Float[Tensor, "count"]:
    """Return the largest size of the push on ``count`` anchors with their own positives away.

    That takes two gradients per anchor; four for a loss with an additive constant in its distances.
    """
    push: Tensor = largest_size([_push_at(loss, count, angle) for angle in AWAY])
    return push


def in_fewest_dimensions(rows: Float[Tensor, "rows d"]) -> Float[Tensor, "rows fewer"]:
    """Return vectors of the same dot products in at most as many dimensions as there are vectors.

    A loss of dot products cannot tell them apart, and each of its products costs less.
    """
    if rows.shape[1] <= rows.shape[0]:
        return rows
    in_fewest: Tensor = unit_rows(torch.linalg.qr(rows.T).R.T)
    return in_fewest


def _push_at(loss: CheckedLoss, count: int, angle: float) -> Float[Tensor, "count"]:
    first, second, *negatives = loss.split(in_fewest_dimensions(loss.rows))
    displaced = displaced_positives(first, second, angle)
    n = len(first)

    def coordinate(numbers: Float[Tensor, "rows"], delta: float) -> Float[Tensor, "rows"]:
        def value(
            leaf: Float[Tensor, "lifted"],
            own: Float[Tensor, "n"],
            moved: Float[Tensor, "d"],
            delta: Float[Tensor, ""],
        ) -> Tensor:
            shrunk, own = (1 - delta * delta) ** 0.5, own[:, None]

            def lifted(rows: Float[Tensor, "rows d"]) -> Float[Tensor, "rows lifted"]:
                return torch.cat([rows * shrunk, delta.expand(len(rows), 1)], dim=1)

            anchors = torch.where(own, leaf, lifted(first))
            positives = torch.where(own, pad(moved, (0, 1)), lifted(second))
            total = loss.value(anchors, positives, *map(lifted, negatives))
            if not isinstance(total, Tensor) or total.numel() != 1:
                raise GradlabError(f"{loss.name} must return a torch scalar")
            return total.reshape(())

        owned = torch.arange(n, device=first.device) == numbers[:, None]
        deltas = torch.full_like(first[numbers, 0], delta)
        gradients = GradientsAt(value, entries=len(loss.rows) * max(n, first.shape[1]))(
            pad(first[numbers], (0, 1)),
            (owned, displaced[numbers], deltas),
            progress=True,
            title=f"largest push of {loss.name}",
        )
        return gradients[:, -1] / delta

    numbers = torch.arange(count, device=first.device)
    push = coordinate(numbers, DELTA)
    mirrored = coordinate(numbers[:1], -DELTA)
    if bool((push[:1] - mirrored).abs() <= ODD * push[:1].abs()):
        return push
    return (push + coordinate(numbers, -DELTA)) / 2
