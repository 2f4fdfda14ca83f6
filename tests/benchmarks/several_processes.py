"""Memory and processor time of several processes that share a batch, against one process.

    python tests/benchmarks/several_processes.py --sizes 16384 65536 --processes 1 2 4 --losses infonce mpt
    python tests/benchmarks/several_processes.py --sizes 65536 --processes 4 --dimensions 768 --losses infonce

Every process has its share of N anchors and positives, unit rows, float32, and one thread. Printed are the processor time
of all processes together, start-up excluded, its ratio to that of one process, both medians of turns, and the largest rise of a
process's peak memory beyond its rows. Of three or more sizes of share a straight line is fitted to the memory: its
value at 0 is the fixed part, and beside it stands by how much what is left of each point differs from the line.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from measured import forget_peak, peak

import gradlab

Criterion = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def shared(loss: str) -> Criterion:
    """A loss of ours, of the batch of all processes."""
    return gradlab.blockwise(loss, group="world")


def work(
    rank: int,
    count: int,
    size: int,
    dimensions: int,
    loss: str,
    folder: str,
    make: Callable[[str], Criterion],
) -> None:
    """One evaluation, after a small one in which libraries set themselves up."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=count
    )
    torch.manual_seed(rank)
    criterion = make(loss)

    def draw(rows: int, width: int) -> torch.Tensor:
        made = torch.randn(rows, width)
        return made.div_(made.norm(dim=-1, keepdim=True)).requires_grad_()

    criterion(draw(32, 16), draw(32, 16)).backward()
    rows = draw(size // count, dimensions), draw(size // count, dimensions)
    torch.distributed.barrier()
    forget_peak()
    before, began, wall = peak(), time.process_time(), time.perf_counter()
    criterion(*rows).backward()
    found = {
        "memory": peak() - before,
        "processor": time.process_time() - began,
        "wall": time.perf_counter() - wall,
    }
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def measure(
    count: int, size: int, dimensions: int, loss: str, make: Callable[[str], Criterion] = shared
) -> dict[str, float]:
    """The sum of processor times, and the largest memory, of ``make(loss)``."""
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("spawn")
        every = [
            context.Process(target=work, args=(rank, count, size, dimensions, loss, folder, make))
            for rank in range(count)
        ]
        for process in every:
            process.start()
        for process in every:
            process.join()
        found = [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(count)]
    return {
        "processor": sum(one["processor"] for one in found),
        "memory": max(one["memory"] for one in found),
        "wall": max(one["wall"] for one in found),
    }


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
    print("| loss | N | processes | CPU seconds, all | / first | seconds | extra MiB a process |")
    print("|---|--:|--:|--:|--:|--:|--:|", flush=True)
    for loss in options.losses:
        shares: dict[int, list[float]] = {}
        for size in options.sizes:
            turns = [
                {count: measure(count, size, options.dimensions, loss) for count in options.processes}
                for _ in range(options.turns)
            ]
            for count in options.processes:
                found = {
                    name: statistics.median(turn[count][name] for turn in turns) for name in turns[0][count]
                }
                ratio = statistics.median(
                    turn[count]["processor"] / turn[options.processes[0]]["processor"] for turn in turns
                )
                if count > 1:
                    shares.setdefault(size // count, []).append(found["memory"])
                print(
                    f"| {loss} | {size:,} | {count} | {found['processor']:.2f} | {ratio:.3f} "
                    f"| {found['wall']:.1f} | {found['memory']:.1f} |",
                    flush=True,
                )
        if len(shares) > 2:
            tell_line(loss, shares, options.dimensions)


def tell_line(loss: str, shares: dict[int, list[float]], dimensions: int) -> None:
    """Print what of the memory is fixed, and how well the rest is proportional to the rows of a process."""
    rows = np.array([size for size, found in shares.items() for _ in found])
    memory = np.array([one for found in shares.values() for one in found])
    slope, fixed = np.polyfit(rows, memory, 1)
    off = (memory - fixed) / (slope * rows) - 1
    one = dimensions * 4 / 2**20
    words = ", ".join(f"{size:,}: {100 * part:+.0f}%" for size, part in zip(rows, off, strict=True))
    print(
        f"{loss}: {fixed:.1f} MiB fixed, and {slope / one:.2f} times one view of a share; of that differ {words}"
    )


if __name__ == "__main__":
    main()
