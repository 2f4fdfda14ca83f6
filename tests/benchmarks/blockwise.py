"""Blockwise losses in processor time and memory.

Beside plain torch, themselves without blocks, or another checkout; also over processes.

    # beside a cross-entropy: the table of docs/scaling.md
    python tests/benchmarks/blockwise.py
    python tests/benchmarks/blockwise.py --beside itself --losses mhe modified_mhe \\
        --sizes 4096 16384 --threads 1
    # own negatives, sums
    python tests/benchmarks/blockwise.py --beside formulas --sizes 512 2048 8192 --threads 1
    python tests/benchmarks/blockwise.py --beside OTHER_CHECKOUT --sizes 512 4096 16384 --threads 1
    python tests/benchmarks/blockwise.py --processes 1 2 4 --sizes 16384 65536

One evaluation is the loss and its gradient with respect to all that it is given, unit rows. All
competitors of one size run in turns, in one process, so that they see the same load; a ratio is the
median of ratios within a turn. Extra memory is the rise of the peak of a fresh process beyond the
inputs. `python -m tests.gpu --section loss` measures a GPU.

Each checkout has a process of its own. Small batches depend on how its memory happens to lie (pages
that are given back and taken again), by a tenth: they have several pairs of processes one after
another, and the smallest and largest ratio of a pair stand beside the median. Several processes
have a share of the rows and one thread each; their processor times are summed, start-up excluded,
and the memory is the largest of one.
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
from collections.abc import Iterator
from pathlib import Path

import torch
from measured import (
    Criterion,
    evaluation,
    extra_memory,
    forget_peak,
    fresh,
    over_processes,
    peak,
    ratio,
    row,
    times_in_turns,
    unit_rows,
)
from torch import Tensor
from torch.nn.functional import cross_entropy, logsigmoid

import gradlab

CHECKOUT = Path(__file__).resolve().parents[2]
TEMPERATURE, OWN = 0.05, 7
WITH_OWN = f"infonce(temperature={TEMPERATURE})"
SUM = f"sum({WITH_OWN}, symmetric(gor), siglip, weights=1+0.1+0.5)"


def infonce(anchors: Tensor, positives: Tensor, **_: Tensor) -> Tensor:
    return cross_entropy(anchors @ positives.T / TEMPERATURE, torch.arange(len(anchors)))


class ByHand(torch.autograd.Function):
    """The same, without its own positive among the negatives.

    Three products and a few sweeps, no checks, no settings.
    """

    @staticmethod
    def forward(ctx, anchors: Tensor, positives: Tensor) -> Tensor:
        cosines = anchors @ positives.T
        positive = cosines.diagonal() / TEMPERATURE
        cosines.diagonal().fill_(-torch.inf)
        weights = cosines.div_(TEMPERATURE)
        largest = weights.amax(-1)
        torch.softmax(weights, -1, out=weights)
        gap = positive - (largest - weights.amax(-1).log())
        slope = torch.sigmoid(-gap) / (TEMPERATURE * len(anchors))
        weights.mul_(slope[:, None]).diagonal().copy_(-slope)
        ctx.gradients = weights @ positives, weights.T @ anchors
        return -logsigmoid(gap).mean()

    @staticmethod
    def backward(ctx, upstream: Tensor) -> tuple[Tensor, Tensor]:
        return ctx.gradients


def infonce_with_own(anchors: Tensor, positives: Tensor, own_negatives: Tensor) -> Tensor:
    """Over the batch and the anchor's own negatives."""
    own = (own_negatives @ anchors[:, :, None])[:, :, 0]
    logits = torch.cat([anchors @ positives.T, own], dim=1)
    return cross_entropy(logits / TEMPERATURE, torch.arange(len(anchors)))


def sum_of_three(anchors: Tensor, positives: Tensor) -> Tensor:
    """InfoNCE, the spread-out regulariser of both views, and SigLIP (scale 10, bias -10)."""
    n = len(anchors)
    pairs = -logsigmoid((2 * torch.eye(n) - 1) * (10 * anchors @ positives.T - 10)).sum() / n
    spread = (
        sum((rows @ rows.T).fill_diagonal_(0).square().sum() for rows in (anchors, positives)) / 2
    )
    return infonce(anchors, positives) + 0.1 * spread / (n * (n - 1)) + 0.5 * pairs


FORMULAS = {
    "cross-entropy": infonce,
    "by hand": ByHand.apply,
    "formula-own": infonce_with_own,
    "formula of the sum": sum_of_three,
}


def make(name: str, size: int, dimensions: int):
    """Value and gradients of a formula of plain torch, or of a loss, ``plain`` or in blocks.

    Those with ``-own`` get own negatives.
    """
    kind, _, text = name.partition(" ")
    loss = FORMULAS.get(name) or (
        gradlab.get_loss if kind.startswith("plain") else gradlab.blockwise
    )(text)
    torch.manual_seed(0)
    rows = unit_rows(size, dimensions), unit_rows(size, dimensions)
    further = {"own_negatives": unit_rows(size, OWN, dimensions)} if kind.endswith("-own") else {}
    return evaluation(loss, rows, **further)


def in_turns(names: list[str], size: int, options: argparse.Namespace) -> Iterator[tuple]:
    """A row each, relative to the first."""
    runs = {name: make(name, size, options.dimensions) for name in names}
    if options.beside != "cross-entropy":  # then all compute the same
        values = [run() for run in runs.values()]
        assert max(values) - min(values) < 1e-5 * abs(values[0]), values
    turns = options.turns or max(3, min(60, round((16384 / size) ** 2)))
    times = times_in_turns(runs, turns)
    sizes = size, options.dimensions
    sizes = {name: fresh(extra_memory, make, (name, 64, 16), (name, *sizes)) for name in names}
    for name in names:
        cells = (
            f"{statistics.median(times[name]):.4g}",
            f"{ratio(times[name], times[names[0]]):.2f}",
        )
        memory = f"{sizes[name]:,.0f}", f"{sizes[name] / max(sizes[names[0]], 1):.3f}"
        yield f"{size:,}", name, turns, *cells, *memory


def shared(loss: str) -> Criterion:
    """A loss of the batch of all processes."""
    return gradlab.blockwise(loss, group="world")


def on_processes(loss: str, size: int, options: argparse.Namespace) -> Iterator[tuple]:
    """A row for each number of processes, relative to the first."""
    turns = [
        {
            count: over_processes(count, size, options.dimensions, loss, shared)
            for count in options.processes
        }
        for _ in range(options.turns or 1)
    ]
    times = {count: [turn[count]["processor"] for turn in turns] for count in options.processes}
    for count, seconds in times.items():
        memory = statistics.median(turn[count]["memory"] for turn in turns)
        beside = ratio(seconds, times[options.processes[0]])
        yield (
            f"{size:,}",
            loss,
            count,
            f"{statistics.median(seconds):.2f}",
            f"{beside:.3f}",
            f"{memory:.1f}",
        )


def serve(loss: str, size: int, dimensions: int) -> None:
    """Answer each line of input with one evaluation's processor seconds and the memory it took."""
    make(f"blocks {loss}", 64, 16)()  # libraries set themselves up
    run = make(f"blocks {loss}", size, dimensions)
    forget_peak()
    before = peak()
    print(json.dumps(str(gradlab.__file__)), flush=True)
    for _ in sys.stdin:
        began = time.process_time()
        run()
        print(json.dumps([time.process_time() - began, peak() - before]), flush=True)


class Worker:
    """A process that evaluates a loss of one checkout."""

    def __init__(self, folder: Path, loss: str, size: int, options: argparse.Namespace) -> None:
        arguments = ["--losses", loss, "--sizes", size, "--dimensions", options.dimensions]
        command = [sys.executable, __file__, "--serve", *arguments, "--threads", options.threads]
        self.process = subprocess.Popen(
            list(map(str, command)), env={**os.environ, "PYTHONPATH": str(folder)}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        imported = Path(self.answer()).resolve()
        assert imported.is_relative_to(folder), (imported, folder)

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def turn(self) -> tuple[float, float]:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.answer()


def pair_of_checkouts(
    loss: str, size: int, turns: int, options: argparse.Namespace
) -> tuple[Tensor, Tensor]:
    """Seconds of each turn (turns, 2), the other checkout's and this one's, and both memories."""
    workers = [
        Worker(folder, loss, size, options) for folder in (Path(options.beside).resolve(), CHECKOUT)
    ]
    memory = [worker.turn()[1] for worker in workers]  # the first does not count for time
    times = torch.empty(turns, 2)
    for number in range(turns):
        for checkout in (0, 1) if number % 2 else (1, 0):
            times[number, checkout] = workers[checkout].turn()[0]
    for worker in workers:
        worker.process.communicate()
    return times, torch.tensor(memory)


def beside_checkout(loss: str, size: int, options: argparse.Namespace) -> Iterator[tuple]:
    """One row: medians over the turns of all pairs of processes."""
    pairs = options.pairs or (8 if size <= 1024 else 1)
    turns = options.turns or max(2, min(40, round((16384 / size) ** 1.3)))
    measurements = [pair_of_checkouts(loss, size, turns, options) for _ in range(pairs)]
    times = torch.cat([seconds for seconds, _ in measurements])
    memory = torch.stack([held for _, held in measurements])
    of_pairs = [float((pair[:, 1] / pair[:, 0]).quantile(0.5)) for pair, _ in measurements]
    seconds = (f"{median:.4g}" for median in times.quantile(0.5, 0).tolist())
    beside = f"{float((times[:, 1] / times[:, 0]).quantile(0.5)):.3f}"
    extra = (f"{median:.0f}" for median in memory.quantile(0.5, 0).tolist())
    yield (
        f"{size:,}",
        loss,
        len(times),
        *seconds,
        beside,
        f"{min(of_pairs):.2f} to {max(of_pairs):.2f}",
        *extra,
    )


COLUMNS = {
    in_turns: ("N", "loss", "turns", "CPU s", "/ first", "extra MiB", "/ first"),
    on_processes: ("N", "loss", "processes", "CPU s, all", "/ first", "extra MiB a process"),
    beside_checkout: (
        "N", "loss", "turns", "CPU s, other", "here", "here / other", "of pairs",
        "extra MiB, other", "here",
    ),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--beside", default="cross-entropy", help="itself, formulas, or a checkout's folder"
    )
    parser.add_argument("--processes", type=int, nargs="+", help="over so many, instead")
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 2048, 8192, 16384])
    parser.add_argument("--losses", nargs="+", default=["infonce", "arccon"])
    parser.add_argument("--dimensions", type=int, default=768)
    parser.add_argument("--turns", type=int, help="by default more for smaller sizes")
    parser.add_argument(
        "--pairs", type=int, help="of checkouts; by default 8 for sizes up to 1,024, else 1"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.serve:
        serve(options.losses[0], options.sizes[0], options.dimensions)
        return
    groups = {
        "cross-entropy": [
            ["cross-entropy", "by hand", *(f"blocks {name}" for name in options.losses)]
        ],
        "itself": [[f"plain {name}", f"blocks {name}"] for name in options.losses],
        "formulas": [
            ["formula-own", f"plain-own {WITH_OWN}", f"blocks-own {WITH_OWN}"],
            ["formula of the sum", f"plain {SUM}", f"blocks {SUM}"],
        ],
    }
    report, compared = in_turns, groups.get(options.beside, options.losses)
    if options.processes:
        report, compared = on_processes, options.losses
    elif options.beside not in groups:
        report = beside_checkout
    threads = 1 if options.processes else options.threads
    print(
        f"torch {torch.__version__}, {threads} threads a process, D = {options.dimensions}, float32"
    )
    print(
        row(*COLUMNS[report]),
        f"|--:|---|{'--:|' * (len(COLUMNS[report]) - 2)}",
        sep="\n",
        flush=True,
    )
    for size, loss in itertools.product(options.sizes, compared):
        for cells in report(loss, size, options):
            print(row(*cells), flush=True)


if __name__ == "__main__":
    main()
