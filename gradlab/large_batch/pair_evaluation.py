"""A pair loss on two views, evaluated block by block: the matrix of similarities is never held."""

from __future__ import annotations

import torch

from gradlab.large_batch.block import AnchorBlock, HardestBlock, WeightedBlock
from gradlab.large_batch.evaluation import LossEvaluation
from gradlab.large_batch.products import default_block_size, slices, write_cosines
from gradlab.large_batch.rows import BatchRows
from gradlab.large_batch.similarity import Scratch
from gradlab.losses.base import PairLoss


class PairEvaluation(LossEvaluation):
    """A pair loss, differentiated by its declared components."""

    loss: PairLoss

    def values(self) -> torch.Tensor:
        """``L_i``, (N,)."""
        return self._run(self._batch((False, False, False)), None)

    def differentiate(
        self, scale: torch.Tensor, wanted: tuple[bool, bool, bool]
    ) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
        """``L_i``, (N,), and the derivatives of ``Σ_i scale_i L_i``; see `LossEvaluation.differentiate`."""
        batch = self._batch(wanted)
        values = self._run(batch, scale)
        gradients = [batch.by_anchors, batch.by_positives, batch.by_extra_negatives]
        # All derivatives have the factors in common that could be infinite, so one of them tells.
        first = next((part for part in gradients if part is not None), None)
        if first is not None:
            self.check_gradient(first)
        return values, gradients

    def _batch(self, wanted: tuple[bool, bool, bool]) -> BatchRows:
        return BatchRows(self.views, wanted, fixed_negatives=self.loss.negatives_are_fixed)

    def _run(self, batch: BatchRows, scale: torch.Tensor | None) -> torch.Tensor:
        size, device = batch.anchors.shape[0], batch.anchors.device
        step = min(size, self.block_size or default_block_size(batch.negatives.count, device))
        values = batch.anchors.new_empty(size)
        memory = batch.anchors.new_empty(step, batch.negatives.count)
        scratch: Scratch = {}
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            for rows in slices(size, step):
                values[rows] = _values(
                    self._block(batch, rows, memory, scratch), None if scale is None else scale[rows]
                )
        self.check_values(values)
        return values

    def _block(self, batch: BatchRows, rows: slice, memory: torch.Tensor, scratch: Scratch) -> AnchorBlock:
        anchors = batch.anchors[rows]
        cosine = memory[: anchors.shape[0]]
        for part in batch.negatives.parts:
            write_cosines(anchors, part.rows, cosine[:, part.columns])
        own = None
        if self.views.in_batch_negatives:
            diagonal = cosine[:, rows].diagonal()
            own = diagonal.clone()
            diagonal.fill_(-torch.inf)
        # A surrogate's value has one-hot weight but a gate that may depend on all negatives.
        if self.loss.one_hot_weight and not self.loss.surrogate:
            return HardestBlock(self.loss, batch, rows, own, cosine)
        return WeightedBlock(self.loss, batch, rows, own, cosine, scratch)


def _values(block: AnchorBlock, scale: torch.Tensor | None) -> torch.Tensor:
    """A block's ``L_i``, (B,), differentiated where there is a scale; nobody holds the block afterwards, while the next one is made."""
    return block.value() if scale is None else block.differentiate(scale)
