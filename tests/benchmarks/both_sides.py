"""What both sides of a gradient cost beside one: ``python tests/benchmarks/both_sides.py [N] [D] [LOSS ...]``.

Ratios of medians in one run, torch, single precision as in training and double as in analysis. One side at a time is measured
in turn with both, so that a machine that slows down slows both. Without names it measures every loss, and symmetric
InfoNCE beside InfoNCE.
"""

from __future__ import annotations

import statistics
import sys
import time

import torch

import gradlab
from gradlab.losses.registry import loss_names

COMBINED = ("symmetric(infonce)", "pool(infonce, negatives=other+same)")
REPEATS = 3


def main() -> None:
    """Print a line for each loss and dtype."""
    n, d = (int(given) for given in [*sys.argv[1:3], "4096", "768"][:2])
    losses = sys.argv[3:] or [*(name for name in loss_names() if name != "recombined"), *COMBINED]
    print(f"N = {n}, D = {d}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    for dtype in (torch.float32, torch.float64):
        generator = torch.Generator().manual_seed(0)
        rows = torch.randn(2, n, d, dtype=dtype, generator=generator)
        anchors, positives = torch.nn.functional.normalize(rows, dim=-1)
        for loss in losses:
            times: dict[str, list[float]] = {"anchors": [], "both": []}
            for _ in range(REPEATS):
                for side, found in times.items():
                    began = time.perf_counter()
                    parts = gradlab.components(loss, anchors, positives, side=side)
                    found.append(time.perf_counter() - began)
            one, both = (statistics.median(found[1:]) for found in times.values())
            first = parts[0] if isinstance(parts, tuple) else parts
            own = "own view" if "same" in first.columns else ""
            print(
                f"{str(dtype)[6:]:8} {loss:40} one side {one:6.3f} s, both {both:6.3f} s: {both / one:.2f}  {own}",
                flush=True,
            )


if __name__ == "__main__":
    main()
