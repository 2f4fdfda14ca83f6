"""The curves of a flow: what its embeddings are like at times that are even in log time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradlab.arrays import Int
from gradlab.flow.runge_kutta import largest
from gradlab.flow.velocity import Velocity, VelocityField, has_gate
from gradlab.gradient.statistics import ACTIVE, effective_rank

STOPPED = 1e-4  # relative push below which a loss has stopped
# Records per factor of e in time, and the fewest steps in which one record is made.
DENSITY, SPARSEST = 5.0, 50
COMPARED = 1024  # anchors whose cosines are measured, with all positives
PATH_ENTRIES = 1 << 16  # largest state whose whole path is stored

# name -> what it is
CURVES = {
    "time": "time t; the velocity is minus the gradient of the loss summed over anchors",
    "steps": "steps until then",
    "value": "the loss, as a mean over anchors",
    "relative_push": "push on an anchor over its largest push as its positive moves, mean",
    "learning": f"share of anchors whose relative push is at least {ACTIVE}",
    "positive_cosine": "cosine of an anchor and its positive, mean",
    "same_group_cosine": "cosine of an anchor and another positive of its group, mean",
    "different_cosine": "cosine of an anchor and a positive of another group, mean",
    "different_spread": "standard deviation of the latter",
    "nearest_angle": "angle between an anchor and the nearest other anchor in degrees, mean",
    "effective_rank": "effective rank of the anchors",
    "speed": "largest velocity of an embedding, radians per unit of time",
}


class Course:
    """Records of a flow.

    Attributes:
        curves: by name in `CURVES`, one number per record.
        path: states at the records, (r, d) each; only the first and the last of a large state.
        fastest: largest velocity so far.
    """

    def __init__(
        self, velocity_field: VelocityField, groups: Int[np.ndarray, "n"] | None, bar: Any
    ) -> None:
        self.velocity_field, self.groups, self.bar = velocity_field, groups, bar
        self.curves: dict[str, list[float]] = {name: [] for name in CURVES}
        self.path: list[np.ndarray] = []
        self.fastest = 0.0
        self.share = 1.0 if velocity_field.is_scalar else 1 / velocity_field.batch.count
        self._next, self._last_step = 0.0, 0

    def due(self, time: float, step: int) -> bool:
        """Return whether a record is due at this time."""
        return time >= self._next or step - self._last_step >= SPARSEST

    def record(
        self,
        time: float,
        step: int,
        rows: Tensor,
        velocity: Velocity,
        batches: Iterable[tuple[VelocityField, Tensor]],
    ) -> np.ndarray:
        """Add a record; return the relative push on anchors of the batches, (n,)."""
        push: np.ndarray = np.abs(
            np.concatenate(
                [velocity_field.relative_push(state) for velocity_field, state in batches]
            )
        )
        numbers = {
            "time": time,
            "steps": step,
            "value": velocity.value * self.share,
            "relative_push": float(push.mean()),
            "learning": float(np.mean(push >= ACTIVE)),
            "speed": largest(velocity.rows),
            **cosine_statistics(self.velocity_field, rows, self.groups),
        }
        if self.curves["steps"] and self.curves["steps"][-1] == step:  # the end replaces a record
            for curve in self.curves.values():
                curve.pop()
            self.path.pop()
        for name, number in numbers.items():
            self.curves[name].append(number)
        if rows.numel() > PATH_ENTRIES:
            self.path = self.path[:1]
        self.path.append(rows.numpy().copy())
        self._next, self._last_step = time * math.exp(1 / DENSITY), step
        self.bar.set_postfix_str(
            f"t = {time:.2g}, different {numbers['different_cosine']:.2f}", refresh=False
        )
        return push

    def stopped(self, push: np.ndarray, speed: float) -> bool:
        """Return whether no anchor is pushed any more, nor anything pulled."""
        closed = has_gate(self.velocity_field.loss) and float(push.max()) <= STOPPED
        return closed and (speed <= STOPPED * self.fastest or self.fastest == 0)


def cosine_statistics(
    velocity_field: VelocityField, rows: Tensor, groups: Int[np.ndarray, "n"] | None
) -> dict[str, float]:
    """Return the statistics of a state that need no loss."""
    batch = velocity_field.batch_at(rows)
    anchors = batch.anchors[:COMPARED]
    count, whole = len(anchors), batch.count
    own = torch.arange(count)
    cosines, within = anchors @ batch.positives.T, anchors @ batch.anchors.T
    labels = torch.arange(whole) if groups is None else torch.as_tensor(groups)
    same = labels[:count, None] == labels
    different = cosines[~same]
    same[own, own], within[own, own] = False, -1.0
    within_groups = cosines[same]
    nearest = within.amax(dim=1).clamp(-1, 1).arccos().rad2deg()
    return {
        "positive_cosine": float((anchors * batch.positives[:COMPARED]).sum(-1).mean()),
        "same_group_cosine": float(within_groups.mean()) if within_groups.numel() else math.nan,
        "different_cosine": float(different.mean()) if different.numel() else math.nan,
        "different_spread": float(different.std(correction=0)) if different.numel() else math.nan,
        "nearest_angle": float(nearest.mean()) if whole > 1 else math.nan,
        "effective_rank": effective_rank(anchors),
    }
