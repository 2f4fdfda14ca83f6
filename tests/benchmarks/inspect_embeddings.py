"""Time, memory and recall of `inspect` on random embeddings in which copies are planted.

    python tests/benchmarks/inspect_embeddings.py --dimension 384 25000 50000 100000 250000
    python tests/benchmarks/inspect_embeddings.py --dimension 384 --batches 200 1000000

One row in a hundred gets an exact copy, one a near copy at a cosine of about 0.9988, and one a near
copy at about 0.96. Each number of rows runs in a process of its own. Its processor time counts all
cores; its memory is the largest of the process, the embeddings included.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from typing import Any

import numpy as np
from measured import fresh

import gradlab

RATE = 0.01  # share of the rows that are copies, of each kind
NOISE = {"exact": 0.0, "near": 0.05, "less near": 0.3}  # norm beside that of the row, by kind
_BLOCK = 8192


def planted(
    count: int, dimension: int
) -> tuple[np.ndarray, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Return embeddings, and by kind the rows that are copied and the rows that copy them."""
    generator = np.random.default_rng(0)
    rows = np.empty((count, dimension), dtype=np.float32)
    for start in range(0, count, _BLOCK):  # numbers in double precision take twice the memory
        block = rows[start : start + _BLOCK]
        block[:] = generator.standard_normal(block.shape, dtype=np.float32)
    size = int(count * RATE)
    drawn = generator.permutation(count)[: 2 * len(NOISE) * size].reshape(len(NOISE), 2, size)
    for noise, (originals, copies) in zip(NOISE.values(), drawn, strict=True):
        error = generator.standard_normal((size, dimension), dtype=np.float32)
        rows[copies] = rows[originals] + np.float32(noise) * error
    return rows, {kind: tuple(pair) for kind, pair in zip(NOISE, drawn, strict=True)}


def measure(count: int, dimension: int, batches: int, progress: bool) -> dict[str, Any]:
    """Return times, memory and the share of the planted copies that are found."""
    rows, pairs = planted(count, dimension)
    processor, wall = time.process_time(), time.perf_counter()
    inspection = gradlab.find_false_negatives(
        embeddings=rows, batches=batches, cosine=0.9, progress=progress
    )
    processor, wall = time.process_time() - processor, time.perf_counter() - wall
    lines = inspection.candidates.lines[["first", "second"]].to_numpy()
    listed = set(map(tuple, np.sort(lines, axis=1).tolist()))
    shares = {
        kind: float(np.mean([tuple(sorted(pair)) in listed for pair in zip(*sides, strict=True)]))
        for kind, sides in pairs.items()
    }
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {
        "processor": processor,
        "wall": wall,
        "memory": memory,
        "shares": shares,
        "planted": sum(len(first) for first, _ in pairs.values()),
        "candidates": len(lines),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("counts", nargs="+", type=int)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--progress", action="store_true")
    options = parser.parse_args()
    before = None
    for count in options.counts:
        run = fresh(measure, count, options.dimension, options.batches, options.progress)
        recall = ", ".join(f"{kind} {share:.1%}" for kind, share in run["shares"].items())
        growth = ""
        if before is not None:
            ratio = math.log(run["processor"] / before[1]) / math.log(count / before[0])
            growth = f", N^{ratio:.2f} from the row above"
        print(
            f"{count:>9,} embeddings: {run['processor']:.1f} s of processor time{growth}, "
            f"{run['wall']:.1f} s, {run['memory']:.2f} GB; copies found: {recall}; "
            f"{run['candidates']:,} candidates, {run['planted']:,} planted",
            flush=True,
        )
        before = count, run["processor"]


if __name__ == "__main__":
    main()
