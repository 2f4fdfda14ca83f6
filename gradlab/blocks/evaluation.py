"""A pair loss on two views, evaluated block by block: the matrix of similarities is never held."""

from __future__ import annotations

import math

import torch

from gradlab.blocks.block import Block, HardestBlock, WeightedBlock
from gradlab.blocks.rows import Batch
from gradlab.blocks.similarity import Scratch
from gradlab.errors import GradlabError
from gradlab.losses.base import PairLoss
from gradlab.views import Views

# Entries of one block of similarities: 16 MiB in float32 stay in a processor's last cache, unless that makes fewer
# than 512 rows, below which matrix products slow down. A GPU wants fewer and larger blocks.
CPU_ENTRIES, GPU_ENTRIES, FEWEST_ROWS = 1 << 22, 1 << 26, 512
# Negatives of one product on a CPU: narrow products pack them into cache, 10 to 20 percent faster than one
# wide product.
CPU_TILE = 1024


def default_block_size(columns: int, device: torch.device) -> int:
    """Anchors in a block for ``columns`` negatives."""
    entries = CPU_ENTRIES if device.type == "cpu" else GPU_ENTRIES
    return max(FEWEST_ROWS, entries // columns)


class Evaluation:
    """A pair loss and the rows it is to be evaluated on."""

    def __init__(self, loss: PairLoss, views: Views, block_size: int | None) -> None:
        """Take the rows of ``views`` (torch) without their graph.

        Args:
            loss: what to evaluate.
            views: two views and extra negatives.
            block_size: anchors in a block; None chooses by the number of negatives and the device.
        """
        self.loss, self.block_size = loss, block_size
        extra = views.extra_negatives
        self.views = Views(
            views.anchors.detach(),
            views.positives.detach(),
            None if extra is None else extra.detach(),
            views.in_batch_negatives,
        )

    def values(self) -> torch.Tensor:
        """``L_i``, (N,)."""
        return self._run(self._batch((False, False, False)), None)

    def differentiate(
        self, scale: torch.Tensor, wanted: tuple[bool, bool, bool]
    ) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
        """``L_i``, (N,), and the derivatives of ``Σ_i scale_i L_i``.

        Args:
            scale: (N,).
            wanted: whether the derivative by anchors, positives and extra negatives is wanted; where it is
                not, it is None.
        """
        batch = self._batch(wanted)
        values = self._run(batch, scale)
        gradients = [batch.by_anchors, batch.by_positives, batch.by_extra_negatives]
        # All derivatives have the factors in common that could be infinite, so one of them tells.
        first = next((part for part in gradients if part is not None), None)
        if first is not None and not math.isfinite(first.sum()):
            raise GradlabError(f"the gradient of {self.loss.name} is not finite on these rows")
        return values, gradients

    def _batch(self, wanted: tuple[bool, bool, bool]) -> Batch:
        return Batch(self.views, wanted, fixed_negatives=self.loss.negatives_are_fixed)

    def _run(self, batch: Batch, scale: torch.Tensor | None) -> torch.Tensor:
        size, device = batch.anchors.shape[0], batch.anchors.device
        step = min(size, self.block_size or default_block_size(batch.negatives.count, device))
        values = batch.anchors.new_empty(size)
        memory = batch.anchors.new_empty(step, batch.negatives.count)
        scratch: Scratch = {}
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            for start in range(0, size, step):
                rows = slice(start, min(start + step, size))
                block = self._block(batch, rows, memory, scratch)
                values[rows] = block.value() if scale is None else block.differentiate(scale[rows])
        if not math.isfinite(values.sum()):
            worst = int(values.isfinite().to(torch.uint8).argmin())
            raise GradlabError(
                f"{self.loss.name} is {float(values[worst])} at anchor {worst}; look whether it coincides with "
                "its positive or a negative"
            )
        return values

    def _block(self, batch: Batch, rows: slice, memory: torch.Tensor, scratch: Scratch) -> Block:
        anchors = batch.anchors[rows]
        cosine = memory[: anchors.shape[0]]
        for columns, negatives in batch.negatives.tiles(CPU_TILE if cosine.device.type == "cpu" else None):
            torch.mm(anchors, negatives.T, out=cosine[:, columns])
        if self.views.in_batch_negatives:
            cosine[:, rows].diagonal().fill_(-torch.inf)
        # A surrogate's value has one-hot weight but a gate that may depend on all negatives.
        if self.loss.one_hot_weight and not self.loss.surrogate:
            return HardestBlock(self.loss, batch, rows, cosine)
        return WeightedBlock(self.loss, batch, rows, cosine, scratch)
