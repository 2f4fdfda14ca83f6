"""Memory and processor time of several processes that share a batch, against one process.

    python tests/benchmarks/several_processes.py --sizes 16384 65536 --processes 1 2 4 --losses infonce mpt

Every process has its share of N anchors and positives, unit rows, float32, and one thread. Printed are the processor time
of all processes together, start-up excluded, its ratio to that of one process, both medians of turns, and the largest rise of a
process's peak memory beyond its rows.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from measured import evaluation, forget_peak, peak, ratio, row, unit_rows

import gradlab

Criterion = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def shared(loss: str) -> Criterion:
    """A loss of ours, of the batch of all processes."""
    return gradlab.blockwise(loss, group="world")


def work(rank: int, count: int, size: int, dimensions: int, loss: str, folder: str, make: Callable) -> None:
    """One evaluation, after a small one in which libraries set themselves up."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=count
    )
    torch.manual_seed(rank)
    criterion = make(loss)
    evaluation(criterion, [unit_rows(32, 16), unit_rows(32, 16)])()
    run = evaluation(criterion, [unit_rows(size // count, dimensions), unit_rows(size // count, dimensions)])
    torch.distributed.barrier()
    forget_peak()
    before, began = peak(), time.process_time()
    run()
    found = {"memory": peak() - before, "processor": time.process_time() - began}
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def measure(
    count: int, size: int, dimensions: int, loss: str, make: Callable[[str], Criterion] = shared
) -> dict[str, float]:
    """The sum of processor times, and the largest memory, of ``make(loss)``."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work, (count, size, dimensions, loss, folder, make), nprocs=count)
        found = [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(count)]
    times, memory = ([one[name] for one in found] for name in ("processor", "memory"))
    return {"processor": sum(times), "memory": max(memory)}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[16384])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--losses", nargs="+", default=["infonce", "mpt"])
    parser.add_argument("--dimensions", type=int, default=256)
    parser.add_argument("--turns", type=int, default=1)
    options = parser.parse_args()
    print(f"torch {torch.__version__}, one thread a process, D = {options.dimensions}, float32")
    print(row("loss", "N", "processes", "CPU seconds, all", "/ first", "extra MiB a process"))
    print("|---|--:|--:|--:|--:|--:|", flush=True)
    for loss, size in itertools.product(options.losses, options.sizes):
        turns = [
            {count: measure(count, size, options.dimensions, loss) for count in options.processes}
            for _ in range(options.turns)
        ]
        times = {count: [turn[count]["processor"] for turn in turns] for count in options.processes}
        for count, found in times.items():
            memory = statistics.median(turn[count]["memory"] for turn in turns)
            beside = ratio(found, times[options.processes[0]])
            print(
                row(
                    loss,
                    f"{size:,}",
                    count,
                    f"{statistics.median(found):.2f}",
                    f"{beside:.3f}",
                    f"{memory:.1f}",
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
