"""Losses on cosines for batches too large to hold all similarities: exact, one block of anchors at a time."""

from gradlab.large_batch.loss import BlockwiseLoss, blockwise

__all__ = ["BlockwiseLoss", "blockwise"]
