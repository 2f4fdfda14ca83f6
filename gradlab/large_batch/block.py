"""One block of anchors: its losses, and what they add to the derivatives of all rows."""

from __future__ import annotations

import abc
import functools
from typing import Any

import torch

from gradlab.geometry.similarity import Negatives, gaps_of
from gradlab.large_batch.rows import BatchRows, NegativeRows
from gradlab.large_batch.similarity import BlockNegatives, RowPairs, Scratch
from gradlab.losses.base import PairLoss
from gradlab.losses.softmax_family import SoftmaxLoss

# Derivatives of the scaled losses by the measures of some pairs, (B,) each; only of those that the losses use.
Derivatives = dict[str, torch.Tensor]


class Measures:
    """Pairs anchors with negatives, and remembers which. No part of `AnchorBlock`, or a block and its negatives held each other.

    Attributes:
        pairs: the columns asked for so far, (B,) each, with the pairs.
    """

    def __init__(self, anchors: torch.Tensor, others: NegativeRows) -> None:
        """Take anchors, (B, D), and the negatives of all."""
        self.anchors, self.others = anchors, others
        self.pairs: list[tuple[torch.Tensor, RowPairs]] = []

    def gaps(self, cosine: torch.Tensor) -> torch.Tensor:
        """``1 - cos θ``, (B, K), of near pairs from their rows."""
        parts = [gaps_of(self.anchors, part.rows, cosine[:, part.columns]) for part in self.others.parts]
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def __call__(self, index: torch.Tensor) -> RowPairs:
        """Pair each anchor with the negative in column ``index``, (B,)."""
        pairs = RowPairs(self.anchors, self.others.at(index))
        self.pairs.append((index, pairs))
        return pairs


class AnchorBlock(abc.ABC):
    """Some anchors of a batch with their positives and negatives.

    The similarities that the loss takes by chords (its positives, its hardest negatives) are differentiated by
    chords, as automatic differentiation of the loss does, so that radial parts agree as well.
    """

    negatives: Negatives

    def __init__(self, loss: PairLoss, batch: BatchRows, rows: slice, own: torch.Tensor | None) -> None:
        """Take the anchors in ``rows`` of a batch; ``own``, (B,), are their cosines to their positives where known."""
        self.loss, self.batch, self.rows = loss, batch, rows
        self.anchors = batch.anchors[rows]
        self.by_anchors = None if batch.by_anchors is None else batch.by_anchors[rows]
        self.by_positives = None if batch.by_positives is None else batch.by_positives[rows]
        self.positive = RowPairs(self.anchors, batch.positives[rows], own)
        self.measure = Measures(self.anchors, batch.negatives)

    def value(self) -> torch.Tensor:
        """``L_i``, (B,)."""
        return self.loss.value(self.positive, self.negatives)

    def differentiate(self, scale: torch.Tensor) -> torch.Tensor:
        """``L_i``, (B,); the derivatives of ``Σ_i scale_i L_i`` are added to those of the batch."""
        with torch.enable_grad():
            value = self.value()
        measured = [pairs.leaves for pairs in (self.positive, *(pairs for _, pairs in self.measure.pairs))]
        leaves = [leaf for measures in measured for leaf in measures.values()]
        found: list[torch.Tensor | None] = [None] * len(leaves)
        if value.requires_grad:
            found = list(torch.autograd.grad(value, leaves, scale, allow_unused=True))
        by_positive, *by_measured = (
            {name: part for name in measures if (part := found.pop(0)) is not None} for measures in measured
        )
        self.add_negatives(scale, by_positive, by_measured)
        self.positive.chain(by_positive, self.by_anchors, self.by_positives)
        return value.detach()

    @abc.abstractmethod
    def add_negatives(
        self, scale: torch.Tensor, by_positive: Derivatives, by_measured: list[Derivatives]
    ) -> None:
        """Write what comes through the negatives to the anchors, and add it to the negatives.

        Args:
            scale: of the losses, (B,).
            by_positive: derivatives by the measures of the positive pairs; what is dealt with is taken out.
            by_measured: those by the measures of the negatives measured.
        """


class WeightedBlock(AnchorBlock):
    """Anchors whose loss weighs all negatives: ``∂L_i/∂S_ij = GD_i W_ij``, the declared components."""

    def __init__(
        self,
        loss: PairLoss,
        batch: BatchRows,
        rows: slice,
        own: torch.Tensor | None,
        cosine: torch.Tensor,
        scratch: Scratch,
    ) -> None:
        """``cosine`` is (B, K), -inf in the anchors' own columns; ``scratch`` as for `BlockNegatives`."""
        super().__init__(loss, batch, rows, own)
        gaps = functools.partial(self.measure.gaps, cosine)
        self.negatives = BlockNegatives(cosine, self.measure, scratch, gaps=gaps)

    def add_negatives(
        self, scale: torch.Tensor, by_positive: Derivatives, by_measured: list[Derivatives]
    ) -> None:
        """Two matrix products with the weight, or a gather and a scatter where it is one-hot."""
        others, loss = self.batch.negatives, self.loss
        weight, factor = self._push()
        factor = (factor * scale)[:, None]
        by_anchors = self.by_anchors
        if loss.one_hot_weight:
            index = self.negatives.hardest_index
            factor = factor * weight.gather(1, index[:, None])
            if by_anchors is not None:
                torch.mul(others.at(index), factor, out=by_anchors)
            others.add_gradient_at(index, factor * self.anchors)
        else:
            # The cosines have done their service; their memory takes the scaled weight.
            derivative = torch.mul(weight, factor, out=self.negatives.cosine)
            if "cosine" in by_positive and self.batch.positives_move_as_negatives:
                derivative[:, self.rows].diagonal().copy_(by_positive.pop("cosine"))
            if by_anchors is not None:
                others.weighted_sum(derivative, by_anchors)
            others.add_gradient(derivative, self.anchors)
        # What was measured for the components alone comes after, and without a derivative.
        for (index, pairs), found in zip(self.measure.pairs, by_measured, strict=False):
            if found:
                radial = pairs.radial(found)[:, None]
                if by_anchors is not None:
                    by_anchors.addcmul_(self.anchors, radial)
                others.add_gradient_at(index, radial * pairs.second)

    def _push(self) -> tuple[torch.Tensor, Any]:
        """An array, (B, K), and the factor of each of its rows that makes ``GD_i W_ij`` of it, (B,); a softmax is not copied to be scaled."""
        loss, negatives = self.loss, self.negatives
        if type(loss).push is not PairLoss.push:
            return loss.push(self.positive, negatives), 1.0
        dissipation = loss.dissipation(self.positive, loss.summary(negatives))
        if isinstance(loss, SoftmaxLoss) and type(loss).weight is SoftmaxLoss.weight:
            return negatives.softmax(loss.temperature), dissipation / loss.temperature
        return loss.weight(negatives), dissipation


class HardestBlock(AnchorBlock):
    """Anchors whose loss depends on the hardest negative alone: differentiated as it is, with that one only."""

    def __init__(
        self, loss: PairLoss, batch: BatchRows, rows: slice, own: torch.Tensor | None, cosine: torch.Tensor
    ) -> None:
        """``cosine`` is (B, K), -inf in the anchors' own columns."""
        super().__init__(loss, batch, rows, own)
        index = cosine.argmax(-1)
        hardest = self.measure(index)
        with torch.enable_grad():
            self.negatives = Negatives(hardest.cosine[:, None], lambda _: hardest)

    def add_negatives(
        self, scale: torch.Tensor, by_positive: Derivatives, by_measured: list[Derivatives]
    ) -> None:
        """The chain rule from the hardest negative's measures to both rows."""
        ((index, hardest),) = self.measure.pairs
        # Chords have their differences by now, so that the memory of what was gathered for them is free.
        free = "cosine" not in by_measured[0]
        by_negatives = hardest.second.zero_() if free else torch.zeros_like(hardest.second)
        if self.by_anchors is not None:
            self.by_anchors.zero_()
        hardest.chain(by_measured[0], self.by_anchors, by_negatives)
        self.batch.negatives.add_gradient_at(index, by_negatives)
