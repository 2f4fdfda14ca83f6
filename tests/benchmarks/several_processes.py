"""Memory and processor time of several processes that share a batch, against one process.

    python tests/benchmarks/several_processes.py --sizes 16384 65536 --processes 1 2 4 --losses infonce mpt

Every process has its share of N anchors and positives, unit rows, float32, and one thread. Printed are the processor time
of all processes together, start-up excluded, its ratio to that of one process, both medians of turns, and the largest rise of a
process's peak memory beyond its rows.
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

import torch
from measured import forget_peak, peak

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

    def draw(rows: int, width: int) -> torch.Tensor:
        made = torch.randn(rows, width)
        return made.div_(made.norm(dim=-1, keepdim=True)).requires_grad_()

    criterion(draw(32, 16), draw(32, 16)).backward()
    rows = draw(size // count, dimensions), draw(size // count, dimensions)
    torch.distributed.barrier()
    forget_peak()
    before, began = peak(), time.process_time()
    criterion(*rows).backward()
    found = {"memory": peak() - before, "processor": time.process_time() - began}
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
    print("| loss | N | processes | CPU seconds, all | / first | extra MiB a process |")
    print("|---|--:|--:|--:|--:|--:|", flush=True)
    for loss in options.losses:
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
                row = [
                    loss,
                    f"{size:,}",
                    count,
                    f"{found['processor']:.2f}",
                    f"{ratio:.3f}",
                    f"{found['memory']:.1f}",
                ]
                print(f"| {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    main()
