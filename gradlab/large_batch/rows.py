"""Rows of a batch in their roles: anchors, positives, negatives; and where their derivatives add up."""

from __future__ import annotations

import dataclasses

import torch

from gradlab.geometry.views import Views


@dataclasses.dataclass
class NegativeColumns:
    """Negatives of every anchor that lie in consecutive columns.

    Attributes:
        columns: their columns among the K negatives.
        rows: (k, D).
        gradient: (k, D), where their derivatives add up, or None where not wanted.
        started: whether the gradient has any value yet.
    """

    columns: slice
    rows: torch.Tensor
    gradient: torch.Tensor | None
    started: bool = False

    def select(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Which of the columns ``index`` (B,) lie in this part, (B,), and the rows they stand for."""
        inside = (index >= self.columns.start) & (index < self.columns.stop)
        return inside, index[inside] - self.columns.start


class NegativeRows:
    """The K negatives of every anchor: the other view, then the extra negatives, never copied together."""

    def __init__(self, parts: list[NegativeColumns]) -> None:
        """One or two parts, in the order of their columns."""
        self.parts = parts
        self.count = parts[-1].columns.stop

    def at(self, index: torch.Tensor) -> torch.Tensor:
        """The rows in the columns ``index`` (B,), as (B, D)."""
        if len(self.parts) == 1:
            return self.parts[0].rows[index]
        rows = self.parts[0].rows.new_empty(index.shape[0], self.parts[0].rows.shape[1])
        for part in self.parts:
            inside, chosen = part.select(index)
            rows[inside] = part.rows[chosen]
        return rows

    def weighted_sum(self, weight: torch.Tensor, total: torch.Tensor) -> None:
        """Write ``weight`` (B, K) times the rows to ``total`` (B, D)."""
        for part in self.parts:
            first = part is self.parts[0]
            torch.addmm(total, weight[:, part.columns], part.rows, beta=0 if first else 1, out=total)

    def add_gradient(self, weight: torch.Tensor, anchors: torch.Tensor) -> None:
        """Add the transpose of ``weight`` (B, K) times ``anchors`` (B, D)."""
        for part in self.parts:
            if part.gradient is not None:
                columns = weight[:, part.columns].T
                beta = 1 if part.started else 0  # 0: what the memory held does not count
                torch.addmm(part.gradient, columns, anchors, beta=beta, out=part.gradient)
                part.started = True

    def add_gradient_at(self, index: torch.Tensor, derivative: torch.Tensor) -> None:
        """Add ``derivative`` (B, D) to the rows in the columns ``index`` (B,)."""
        for part in self.parts:
            if part.gradient is not None:
                if not part.started:
                    part.gradient.zero_()
                    part.started = True
                if len(self.parts) == 1:
                    part.gradient.index_add_(0, index, derivative)
                else:
                    inside, chosen = part.select(index)
                    part.gradient.index_add_(0, chosen, derivative[inside])


class BatchRows:
    """Rows of two views by their roles, with room for the derivatives that are wanted.

    Attributes:
        anchors, positives: (N, D).
        by_anchors: (N, D), where derivatives are written block by block, or None where not wanted.
        by_positives, by_extra_negatives: where they add up, or None; without a value until the first
            block has added its negatives' part.
        positives_move_as_negatives: whether positives receive derivatives as negatives of other anchors.
        negatives: of every anchor.
    """

    def __init__(self, views: Views, wanted: tuple[bool, bool, bool], *, fixed_negatives: bool) -> None:
        """Take the rows of ``views`` (torch, no graph).

        Args:
            views: two views and extra negatives.
            wanted: whether the derivative by anchors, positives and extra negatives is wanted.
            fixed_negatives: whether negatives receive no derivative.
        """
        self.anchors, self.positives, extra = views.anchors, views.positives, views.extra_negatives
        self.by_anchors = torch.empty_like(views.anchors) if wanted[0] else None
        self.by_positives = torch.empty_like(views.positives) if wanted[1] else None
        self.by_extra_negatives = torch.empty_like(extra) if wanted[2] and extra is not None else None
        self.positives_move_as_negatives = views.in_batch_negatives and not fixed_negatives
        if self.by_positives is not None and not self.positives_move_as_negatives:
            self.by_positives.zero_()
        if self.by_extra_negatives is not None and fixed_negatives:
            self.by_extra_negatives.zero_()
        parts = []
        count = 0
        if views.in_batch_negatives:
            count = views.positives.shape[0]
            parts.append(
                NegativeColumns(
                    slice(0, count), views.positives, None if fixed_negatives else self.by_positives
                )
            )
        if extra is not None:
            gradient = None if fixed_negatives else self.by_extra_negatives
            parts.append(NegativeColumns(slice(count, count + extra.shape[0]), extra, gradient))
        self.negatives = NegativeRows(parts)
