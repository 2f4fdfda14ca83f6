"""Time, memory and recall of `inspect` on random embeddings in which copies are planted.

    python tests/benchmarks/inspect_embeddings.py --dimension 384 25000 50000 100000
    python tests/benchmarks/inspect_embeddings.py --dimension 384 --batches 200 1000000

One row in a hundred gets an exact copy, and one a near copy at a cosine of about 0.9987. The
processor time counts all cores; the memory is the largest of the process so far, the embeddings
included.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

import gradlab


def planted(
    count: int, dimension: int
) -> tuple[np.ndarray, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Return embeddings, and by kind the rows that are copied and the rows that copy them."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(count, dimension)).astype(np.float32)
    originals, copies, near, near_copies, *_ = np.array_split(generator.permutation(count), 100)
    size = len(near_copies)
    originals, copies, near = originals[:size], copies[:size], near[:size]
    rows[copies] = rows[originals]
    noise = generator.normal(size=(size, dimension)).astype(np.float32)
    rows[near_copies] = rows[near] + 0.05 * noise
    return rows, {"exact": (originals, copies), "near": (near, near_copies)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("counts", nargs="+", type=int)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--progress", action="store_true")
    options = parser.parse_args()
    for count in options.counts:
        rows, pairs = planted(count, options.dimension)
        processor, wall = time.process_time(), time.perf_counter()
        inspection = gradlab.find_false_negatives(
            embeddings=rows, batches=options.batches, cosine=0.9, progress=options.progress
        )
        processor, wall = time.process_time() - processor, time.perf_counter() - wall
        lines = inspection.candidates.lines[["first", "second"]].to_numpy()
        listed = set(map(tuple, np.sort(lines, axis=1).tolist()))
        shares = {
            kind: np.mean([tuple(sorted(pair)) in listed for pair in zip(*sides, strict=True)])
            for kind, sides in pairs.items()
        }
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"{count:>9,} embeddings: {processor:.1f} s of processor time, {wall:.1f} s, "
            f"{memory:.2f} GB; exact copies found {shares['exact']:.1%}, near ones "
            f"{shares['near']:.1%}, {len(lines):,} candidates",
            flush=True,
        )


if __name__ == "__main__":
    main()
