"""Blockwise losses of this checkout beside those of another one, in turns in one run: processor time and memory.

    python tests/benchmarks/blockwise_beside.py PATH_OF_THE_OTHER --sizes 512 4096 16384 --losses infonce mpt

Each checkout has a process of its own for a size and a loss; they evaluate value and gradient in turns, so that both see the
same load. A ratio is the median of ratios within a turn. Small batches depend on how a process's memory happens to lie
(pages that are given back and taken again), by a tenth: they have several pairs of processes one after another, and the
smallest and largest ratio of a pair stand beside the median. Extra memory is the rise of a process's peak beyond what
it held with its rows.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
COLUMNS = (
    "| N | loss | turns | CPU s, other | CPU s, here | here / other | of pairs | extra MiB, other | here |"
)
Turn = tuple[float, float]  # of the other checkout, and of this one


def work(loss: str, size: int, dimensions: int, threads: int) -> None:
    """Answer each line of input with the processor seconds of one evaluation, and the memory that it took."""
    import torch
    from measured import evaluation, forget_peak, peak, unit_rows

    import gradlab

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    criterion = gradlab.blockwise(loss)
    evaluation(criterion, [unit_rows(64, 16), unit_rows(64, 16)])()  # libraries set themselves up
    run = evaluation(criterion, [unit_rows(size, dimensions), unit_rows(size, dimensions)])
    forget_peak()
    before = peak()
    print(json.dumps(str(gradlab.__file__)), flush=True)
    for _ in sys.stdin:
        began = time.process_time()
        run()
        print(json.dumps([time.process_time() - began, peak() - before]), flush=True)


class Worker:
    """A process that evaluates a loss of one checkout."""

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        command = [sys.executable, __file__, ".", "--work", *arguments]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        imported = Path(self.answer()).resolve()
        assert imported.is_relative_to(folder), (imported, folder)

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def turn(self) -> tuple[float, float]:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.answer()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 4096, 16384])
    parser.add_argument("--losses", nargs="+", default=["infonce", "mpt"])
    parser.add_argument("--dimensions", type=int, default=768)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, help="of a pair of processes; by default more for smaller sizes")
    parser.add_argument("--pairs", type=int, help="of processes; by default 8 for sizes up to 1,024, else 1")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.losses[0], options.sizes[0], options.dimensions, options.threads)
        return
    from measured import row

    print(COLUMNS, "|--:|---|--:|--:|--:|--:|--:|--:|--:|", sep="\n", flush=True)
    for size, loss in itertools.product(options.sizes, options.losses):
        pairs = options.pairs or (8 if size <= 1024 else 1)
        turns = options.turns or max(2, min(40, round((16384 / size) ** 1.3)))
        given = ["--losses", loss, "--sizes", str(size), "--dimensions", str(options.dimensions)]
        given += ["--threads", str(options.threads)]
        found = [measure(options.other.resolve(), given, turns) for _ in range(pairs)]
        every = [turn for times, _ in found for turn in times]
        other, here = (f"{statistics.median(times):.4g}" for times in zip(*every, strict=True))
        memory = zip(*[memory for _, memory in found], strict=True)
        extra = (f"{statistics.median(one):.0f}" for one in memory)
        ratios = [ratio_of(times) for times, _ in found]
        cells = f"{size:,}", loss, len(every), other, here, f"{ratio_of(every):.3f}"
        print(row(*cells, f"{min(ratios):.2f} to {max(ratios):.2f}", *extra), flush=True)


def ratio_of(times: list[Turn]) -> float:
    """The median over turns."""
    return statistics.median(here / other for other, here in times)


def measure(other: Path, given: list[str], turns: int) -> tuple[list[Turn], Turn]:
    """The times of each turn, and the memory."""
    workers = [Worker(folder, given) for folder in (other, HERE)]
    memory = [worker.turn()[1] for worker in workers]  # the first does not count for time
    found = []
    for number in range(turns):
        order = (0, 1) if number % 2 else (1, 0)
        times = {which: workers[which].turn()[0] for which in order}
        found.append((times[0], times[1]))
    for worker in workers:
        worker.process.communicate()
    return found, (memory[0], memory[1])


if __name__ == "__main__":
    main()
