"""How many rows of a large batch are computed together?"""

from __future__ import annotations

import torch

# Similarities per block: on a CPU 16 MiB in float32, which fit into the last-level cache, but at
# least 512 rows, because smaller products are slow; on a GPU, one per KiB of its memory.
CPU_ENTRIES, GPU_BYTES, FEWEST_ROWS = 1 << 22, 1 << 10, 512


def default_block_size(columns: int, device: torch.device) -> int:
    """Return the default number of rows in a block that is compared with ``columns`` columns."""
    entries = CPU_ENTRIES
    if device.type == "cuda":
        entries = torch.cuda.get_device_properties(device).total_memory // GPU_BYTES
    return max(FEWEST_ROWS, entries // columns)
