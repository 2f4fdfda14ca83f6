"""Blockwise losses beside plain torch, or beside themselves without blocks, in processor time and memory.

    python tests/benchmarks/blockwise.py                       # beside a cross-entropy: the table of docs/scaling.md
    python tests/benchmarks/blockwise.py --beside itself --losses mhe modified_mhe --sizes 4096 16384 --threads 1
    python tests/benchmarks/blockwise.py --beside formulas --sizes 512 2048 8192 --threads 1  # own negatives, sums

One evaluation is the loss and its gradient with respect to all that it is given, unit rows. All competitors of one size run in
turns in one process, so that they see the same load; a ratio is the median of ratios within a turn. Extra memory is the rise of
the peak of a fresh process beyond the inputs. `gradlab gpu-check --part loss` measures a GPU.
"""

from __future__ import annotations

import argparse
import statistics

import torch
from measured import answer_of_child, evaluation, peak, ratio, row, times_in_turns, unit_rows
from torch import Tensor
from torch.nn.functional import cross_entropy, logsigmoid

import gradlab

TEMPERATURE, OWN = 0.05, 7
WITH_OWN = f"infonce(temperature={TEMPERATURE})"
SUM = f"sum({WITH_OWN}, symmetric(gor), siglip, weights=1+0.1+0.5)"


def infonce(anchors: Tensor, positives: Tensor, **_: Tensor) -> Tensor:
    return cross_entropy(anchors @ positives.T / TEMPERATURE, torch.arange(len(anchors)))


class ByHand(torch.autograd.Function):
    """The same, without its own positive among the negatives: three products and a few sweeps, no checks, no settings."""

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
    every = torch.cat([anchors @ positives.T, own], dim=1)
    return cross_entropy(every / TEMPERATURE, torch.arange(len(anchors)))


def sum_of_three(anchors: Tensor, positives: Tensor) -> Tensor:
    """InfoNCE, the spread-out regulariser of both views, and SigLIP (scale 10, bias -10)."""
    n = len(anchors)
    pairs = -logsigmoid((2 * torch.eye(n) - 1) * (10 * anchors @ positives.T - 10)).sum() / n
    spread = sum((rows @ rows.T).fill_diagonal_(0).square().sum() for rows in (anchors, positives)) / 2
    return infonce(anchors, positives) + 0.1 * spread / (n * (n - 1)) + 0.5 * pairs


FORMULAS = {
    "cross-entropy": infonce,
    "by hand": ByHand.apply,
    "formula-own": infonce_with_own,
    "formula of the sum": sum_of_three,
}


def make(name: str, size: int, dimensions: int):
    """Value and gradients of a formula of plain torch, or of a loss: ``plain``, or in blocks; those with ``-own`` get own negatives."""
    kind, _, text = name.partition(" ")
    loss = FORMULAS.get(name) or (gradlab.get_loss if kind.startswith("plain") else gradlab.blockwise)(text)
    torch.manual_seed(0)
    rows = unit_rows(size, dimensions), unit_rows(size, dimensions)
    given = {"own_negatives": unit_rows(size, OWN, dimensions)} if kind.endswith("-own") else {}
    return evaluation(loss, rows, **given)


def report(names: list[str], size: int, options: argparse.Namespace) -> None:
    """Print a line each, relative to the first."""
    runs = {name: make(name, size, options.dimensions) for name in names}
    if options.beside != "cross-entropy":  # then all compute the same
        values = [run() for run in runs.values()]
        assert max(values) - min(values) < 1e-5 * abs(values[0]), values
    turns = options.turns or max(3, min(60, round((16384 / size) ** 2)))
    times = times_in_turns(runs, turns)
    given = "--sizes", size, "--threads", options.threads, "--dimensions", options.dimensions
    sizes = {name: float(answer_of_child("--child", name, *given)) for name in names}
    for name in names:
        cells = f"{statistics.median(times[name]):.4g}", f"{ratio(times[name], times[names[0]]):.2f}"
        memory = f"{sizes[name]:,.0f}", f"{sizes[name] / max(sizes[names[0]], 1):.3f}"
        print(row(f"{size:,}", name, turns, *cells, *memory), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", choices=("cross-entropy", "itself", "formulas"), default="cross-entropy")
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 2048, 8192, 16384])
    parser.add_argument("--losses", nargs="+", default=["infonce", "arccon"])
    parser.add_argument("--dimensions", type=int, default=768)
    parser.add_argument("--turns", type=int, help="by default more for smaller sizes")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.child:
        make(options.child, 64, 16)()  # libraries set themselves up
        run, before = make(options.child, options.sizes[0], options.dimensions), peak()
        run()
        print(peak() - before)
        return
    groups = {
        "cross-entropy": [["cross-entropy", "by hand", *(f"blocks {name}" for name in options.losses)]],
        "itself": [[f"plain {name}", f"blocks {name}"] for name in options.losses],
        "formulas": [
            ["formula-own", f"plain-own {WITH_OWN}", f"blocks-own {WITH_OWN}"],
            ["formula of the sum", f"plain {SUM}", f"blocks {SUM}"],
        ],
    }[options.beside]
    print(f"torch {torch.__version__}, {options.threads} threads, D = {options.dimensions}, float32")
    print(
        row("N", "loss", "turns", "CPU s", "/ first", "extra MiB", "/ first"),
        "|--:|---|--:|--:|--:|--:|--:|",
        sep="\n",
    )
    for size in options.sizes:
        for names in groups:
            report(names, size, options)


if __name__ == "__main__":
    main()
