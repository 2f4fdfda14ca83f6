"""Processor time of a flow by the size of its batch.

python tests/benchmarks/flow.py            # all sizes, some minutes
python tests/benchmarks/flow.py 128 1024   # these numbers of sentences
"""

from __future__ import annotations

import sys
import time

import torch

from gradlab.flow import flow, synthetic_batch

LOSSES = ("infonce", "symmetric(infonce)", "siglip", "mhe")
STEPS = {128: 40, 1024: 8, 4096: 3}


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'loss':<20} {'N':>5} {'D':>4} {'ms per step':>12} {'s per 100 steps':>16}")
    for count in map(int, sys.argv[1:] or STEPS):
        for dim in (64, 768):
            batch = synthetic_batch(count // 4, 4, dim)
            for loss in LOSSES:
                steps = STEPS.get(count, 5)
                spent = []
                flow(loss, batch.anchors, batch.positives, steps=1)
                for number in (1, 1 + steps):  # the difference leaves the start and the end out
                    before = time.process_time()
                    flow(loss, batch.anchors, batch.positives, steps=number)
                    spent.append(time.process_time() - before)
                seconds_per_step = (spent[1] - spent[0]) / steps
                sizes = f"{loss:<20} {count:>5} {dim:>4}"
                print(
                    f"{sizes} {1000 * seconds_per_step:>12.1f} {100 * seconds_per_step:>16.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
