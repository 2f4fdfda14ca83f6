"""Blockwise losses against automatic differentiation of a cross-entropy, or of themselves, in time and memory.

    python tests/benchmarks/blockwise.py                                   # the table of docs/scaling.md
    python tests/benchmarks/blockwise.py --sizes 512 4096 --losses infonce mpt --repeat 20
    python tests/benchmarks/blockwise.py --against-itself --losses mhe modified_mhe --sizes 4096 16384

One evaluation is the loss and its gradient with respect to both views, from unit rows. All competitors of one size
run in turn in one process, so that they see the same load; a ratio is the median of ratios within a turn.
Extra memory is the rise of the peak of a fresh process beyond the inputs. `gradlab gpu-check --part loss` measures a GPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional
from measured import peak
from tqdm import tqdm

import gradlab

TEMPERATURE = 0.05
PLAIN = "cross-entropy"
PLAIN_LOSS = "plain "  # and the name of a loss: that loss without blocks
TIMED_IN_TURNS = 16384  # beyond, one run serves for time and memory


def unit_rows(size: int, dimensions: int) -> torch.Tensor:
    """Random unit rows, made in place."""
    rows = torch.randn(size, dimensions)
    return rows.div_(torch.linalg.vector_norm(rows, dim=-1, keepdim=True)).requires_grad_()


def evaluation(name: str, block_size: int | None) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """A function that differentiates the plain cross-entropy, a plain loss or a blockwise loss."""
    if name == PLAIN:

        def plain(anchors: torch.Tensor, positives: torch.Tensor) -> None:
            labels = torch.arange(anchors.shape[0])
            functional.cross_entropy(anchors @ positives.T / TEMPERATURE, labels).backward()

        return plain
    plain_name = name.removeprefix(PLAIN_LOSS)
    loss = gradlab.blockwise(name, block_size) if plain_name == name else gradlab.get_loss(plain_name)
    return lambda anchors, positives: loss(anchors, positives).backward()


def seconds(run: Callable[[], None]) -> tuple[float, float]:
    """Wall time and processor time of one run."""
    start = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - start[0], time.process_time() - start[1]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """In a process of its own: times of all competitors in turn, or the memory of one."""
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    runs = {name: evaluation(name, options.block_size) for name in options.losses}
    for run in runs.values():  # libraries set themselves up
        run(unit_rows(64, 16), unit_rows(64, 16))
    anchors, positives = (unit_rows(options.sizes[0], options.dimensions) for _ in range(2))
    before = peak()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(options.repeat):
        for name, run in runs.items():
            anchors.grad = positives.grad = None
            times[name].append(seconds(lambda run=run: run(anchors, positives)))
    return {"times": times, "memory": peak() - before}


def in_fresh_process(
    options: argparse.Namespace, size: int, losses: list[str], repeat: int
) -> dict[str, Any]:
    """`measure` elsewhere."""
    command = [sys.executable, __file__, "--measure"]
    command += ["--sizes", str(size), "--losses", *losses, "--repeat", str(repeat)]
    command += ["--threads", str(options.threads), "--dimensions", str(options.dimensions)]
    if options.block_size is not None:
        command += ["--block-size", str(options.block_size)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def rows_of_table(options: argparse.Namespace, size: int, plain: str, blockwise: list[str]) -> list[str]:
    """Measure one size: blockwise losses beside what they are compared with."""
    losses = [*([plain] if size <= options.plain_up_to else []), *blockwise]
    alone = {name: in_fresh_process(options, size, [name], 1) for name in losses}
    memory = {name: found["memory"] for name, found in alone.items()}
    times = {name: found["times"][name] for name, found in alone.items()}
    if size <= TIMED_IN_TURNS:
        repeat = options.repeat or max(3, min(60, round((TIMED_IN_TURNS / size) ** 2)))
        times = in_fresh_process(options, size, losses, repeat)["times"]
    lines = []
    for name in losses:
        wall, processor = ([turn[which] for turn in times[name]] for which in (0, 1))
        wall_ratio = processor_ratio = memory_ratio = "–"
        if plain in losses:
            turns = list(zip(times[name], times[plain], strict=True))
            wall_ratio, processor_ratio = (
                f"{statistics.median(own[which] / other[which] for own, other in turns):.2f}"
                for which in (0, 1)
            )
            memory_ratio = f"{memory[name] / memory[plain]:.3f}"
        lines.append(
            f"| {size:,} | {name} | {len(wall)} | {statistics.median(wall):.4g} | {min(wall):.4g} | {wall_ratio} "
            f"| {statistics.median(processor):.4g} | {processor_ratio} | {memory[name]:,.0f} | {memory_ratio} |"
        )
    return lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[2**power for power in range(9, 17)])
    parser.add_argument("--losses", nargs="+", default=["infonce", "mpt"])
    parser.add_argument("--dimensions", type=int, default=768)
    parser.add_argument("--block-size", type=int)
    parser.add_argument("--repeat", type=int, help="turns (by default more for smaller sizes)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plain-up-to", type=int, default=16384, help="largest size of what is plain")
    parser.add_argument(
        "--against-itself", action="store_true", help="compare with the same loss without blocks"
    )
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options)))
        return
    print(f"torch {torch.__version__}, {options.threads} threads, D = {options.dimensions}, float32")
    print("| N | loss | turns | median s | fastest s | / plain | CPU s | / plain | extra MiB | / plain |")
    print("|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    pairs = [(PLAIN, options.losses)]
    if options.against_itself:
        pairs = [(PLAIN_LOSS + name, [name]) for name in options.losses]
    for size in tqdm(options.sizes, unit="size"):
        for plain, blockwise in pairs:
            tqdm.write("\n".join(rows_of_table(options, size, plain, blockwise)))


if __name__ == "__main__":
    main()
