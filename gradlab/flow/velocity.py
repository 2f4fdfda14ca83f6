"""The velocity of embeddings under a loss: minus the tangent gradient of the whole batch."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gradlab.arrays import recording_gradients, to_numpy
from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.losses.batch_loss import UngatedBatchLoss
from gradlab.losses.components import as_share, displaced_push, project
from gradlab.losses.pair_loss import PairLoss
from gradlab.scale import blockwise

BLOCKS_FROM = 2048  # sentences from which on a loss is evaluated in blocks
MEASURED, FEW = 512, 16  # anchors whose relative push is measured
Arguments = Mapping[str, Any]  # of `gradlab.components`, after the loss


def has_gate(loss: Loss) -> bool:
    """Return whether a vanished push means a closed gate, and not the least value of the loss."""
    ungated = any(isinstance(base, UngatedBatchLoss) for base in loss.bases)
    return not (ungated or "teacher" in loss.looks_at)


class Velocity(NamedTuple):
    """The loss, summed over anchors, and the velocity of each moving row, (r, d)."""

    value: float
    rows: Tensor


class VelocityField:
    """The velocity of the moving rows of a batch under a loss.

    The state of a flow is one tensor (r, d): the moving kinds of embeddings one after another, own
    negatives row by row.

    Attributes:
        batch: the batch at the start, torch, float64.
        places: by name of a moving kind, its slice of the state.
    """

    def __init__(self, loss: Loss, arguments: Arguments, moving: tuple[str, ...]) -> None:
        """``moving`` are names in `gradlab.batch.batch.KINDS`."""
        self.loss, self._arguments = loss, arguments
        self.batch: Batch = loss.batch(**arguments).in_torch()
        kinds = {name: getattr(self.batch, name) for name in moving}
        edges = np.cumsum([0, *(rows[..., 0].numel() for rows in kinds.values())]).tolist()
        self.places = dict(
            zip(kinds, itertools.starmap(slice, itertools.pairwise(edges)), strict=True)
        )
        self._blockwise: Any = None
        if self.batch.count >= BLOCKS_FROM and loss.closed_form:
            self._blockwise = blockwise(loss)

    @property
    def is_scalar(self) -> bool:
        """Whether the loss is one number for the whole batch."""
        # Only code may depend on the size of the batch, and code is never evaluated in blocks.
        batch = self.batch if self._blockwise is None else self.batch.first(2)
        with torch.no_grad():
            return bool(self.loss.value_of(batch).ndim == 0)

    @property
    def start(self) -> Tensor:
        """The moving rows at the start, (r, d)."""
        kinds = [getattr(self.batch, name) for name in self.places]
        return torch.cat([rows.reshape(-1, rows.shape[-1]) for rows in kinds]).detach()

    def kinds(self, rows: Tensor) -> dict[str, Tensor]:
        """Return the moving kinds of embeddings, in their own shapes."""
        return {
            name: rows[place].reshape(getattr(self.batch, name).shape)
            for name, place in self.places.items()
        }

    def batch_at(self, rows: Tensor) -> Batch:
        """Return the batch with these moving rows."""
        kinds: dict[str, Any] = self.kinds(rows)
        return dataclasses.replace(self.batch, **kinds)

    def __call__(self, rows: Tensor) -> Velocity:
        """Return value and velocity at unit rows.

        Raises:
            GradlabError: the loss or its gradient is not finite.
        """
        with recording_gradients():
            leaf = rows.detach().clone().requires_grad_()
            total = self._total(leaf)
            gradient = torch.zeros_like(leaf)
            if total.requires_grad:
                (gradient,) = torch.autograd.grad(total, leaf, materialize_grads=True)
            total = total.detach()
        if not (torch.isfinite(gradient).all() and torch.isfinite(total)):
            raise GradlabError(
                f"{self.loss} or its gradient is not finite on these embeddings; "
                "look whether rows coincide"
            )
        return Velocity(float(total), -project(gradient, rows))

    def relative_push(self, rows: Tensor) -> np.ndarray:
        """Return the relative push on the first anchors, (n,): 1 if all of it is alive, 0 if none.

        Of `MEASURED` anchors at most, and of `FEW` where each costs an evaluation of the loss.
        """
        batch = self.batch_at(rows)
        if batch.count > MEASURED:
            by_rows = isinstance(self.loss, PairLoss)
            batch = batch.rows(0, MEASURED) if by_rows else batch.first(MEASURED)
        with torch.no_grad():
            push = self.loss.components_of(batch).total_push  # refuses what has no push
            displaced = displaced_push(self.loss, batch, count=FEW)
            shares: np.ndarray = np.nan_to_num(
                to_numpy(as_share(push[: len(displaced)], displaced))
            )
        return shares  # without negatives there is no push

    def _total(self, rows: Tensor) -> Tensor:
        """Return the sum of the loss, a scalar; in blocks unless a loss needs all similarities."""
        total: Tensor
        if self._blockwise is not None:
            try:
                total = self._blockwise(**{**self._arguments, **self.kinds(rows)}, reduction="sum")
            except GradlabError as error:
                if "needs all similarities" not in str(error):
                    raise
                self._blockwise = None
            else:
                return total
        total = self.loss.value_of(self.batch_at(rows)).sum()
        return total
