"""How many anchors make a block, and the matrix products of a block's cosines."""

from __future__ import annotations

from collections.abc import Iterator

import torch

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


def slices(count: int, step: int, start: int = 0) -> Iterator[slice]:
    """Consecutive slices of ``step`` that cover ``start`` to ``count``; the last one may be smaller."""
    for first in range(start, count, step):
        yield slice(first, min(first + step, count))


def write_cosines(anchors: torch.Tensor, negatives: torch.Tensor, cosine: torch.Tensor) -> None:
    """Write the cosines of anchors (B, D) to negatives (K, D) to ``cosine``, (B, K)."""
    count = negatives.shape[0]
    for columns in slices(count, CPU_TILE if cosine.device.type == "cpu" else count):
        torch.mm(anchors, negatives[columns].T, out=cosine[:, columns])
