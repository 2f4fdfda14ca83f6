"""Batches too large to store all similarities: blocks of rows, processes, and gradient caching."""

from gradlab.scale.blockwise import BlockwiseLoss, blockwise

__all__ = ["BlockwiseLoss", "blockwise"]
