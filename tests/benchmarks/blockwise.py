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
import subprocess
import sys
from collections.abc import Callable

import torch
from measured import peak, times_in_turns
from torch import Tensor
from torch.nn.functional import cross_entropy, logsigmoid, normalize

import gradlab

TEMPERATURE, OWN = 0.05, 7
WITH_OWN = f"infonce(temperature={TEMPERATURE})"
SUM = f"sum({WITH_OWN}, symmetric(gor), siglip, weights=1+0.1+0.5)"


def infonce(anchors: Tensor, positives: Tensor, own: Tensor) -> Tensor:
    return cross_entropy(anchors @ positives.T / TEMPERATURE, torch.arange(len(anchors)))


def infonce_with_own(anchors: Tensor, positives: Tensor, own: Tensor) -> Tensor:
    """Over the batch and the anchor's own negatives."""
    every = torch.cat([anchors @ positives.T, (own @ anchors[:, :, None])[:, :, 0]], dim=1)
    return cross_entropy(every / TEMPERATURE, torch.arange(len(anchors)))


def sum_of_three(anchors: Tensor, positives: Tensor, own: Tensor) -> Tensor:
    """InfoNCE, the spread-out regulariser of both views, and SigLIP (scale 10, bias -10)."""
    n = len(anchors)
    pairs = -logsigmoid((2 * torch.eye(n) - 1) * (10 * anchors @ positives.T - 10)).sum() / n
    spread = sum((rows @ rows.T).fill_diagonal_(0).square().sum() for rows in (anchors, positives)) / 2
    return infonce(anchors, positives, own) + 0.1 * spread / (n * (n - 1)) + 0.5 * pairs


PLAIN = {"cross-entropy": infonce, "own negatives": infonce_with_own, "sum": sum_of_three}


def evaluation(name: str, rows: list[Tensor]) -> Callable[[], float]:
    """Value and gradients of a formula of plain torch, or of a loss: ``plain``, or in blocks; those with ``-own`` get own negatives."""
    kind, _, text = name.partition(" ")
    given = {"own_negatives": rows[2]} if kind.endswith("-own") else {}
    loss = PLAIN.get(name) or (gradlab.get_loss if kind.startswith("plain") else gradlab.blockwise)(text)

    def run() -> float:
        for part in rows:
            part.grad = None
        value = loss(*rows) if name in PLAIN else loss(*rows[:2], **given)
        value.backward()
        return float(value.detach())

    return run


def draw(size: int, dimensions: int) -> list[Tensor]:
    """Both views, and own negatives."""
    shapes = (size,), (size,), (size, OWN)
    return [normalize(torch.randn(*shape, dimensions), dim=-1).requires_grad_() for shape in shapes]


def memory(name: str, size: int, options: argparse.Namespace) -> float:
    """Of one evaluation in a process of its own, MiB."""
    command = [
        sys.executable,
        __file__,
        "--child",
        name,
        "--sizes",
        str(size),
        "--threads",
        str(options.threads),
    ]
    command += ["--dimensions", str(options.dimensions)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def report(names: list[str], size: int, options: argparse.Namespace) -> None:
    """Print a line each, relative to the first."""
    rows = draw(size, options.dimensions)
    runs = {name: evaluation(name, rows) for name in names}
    if options.beside != "cross-entropy":  # then all compute the same
        values = [run() for run in runs.values()]
        assert max(values) - min(values) < 1e-5 * abs(values[0]), values
    turns = options.turns or max(3, min(60, round((16384 / size) ** 2)))
    times = times_in_turns(runs, turns)
    sizes = {name: memory(name, size, options) for name in names}
    for name in names:
        ratio = statistics.median(
            one / other for one, other in zip(times[name], times[names[0]], strict=True)
        )
        cells = [f"{size:,}", name, turns, f"{statistics.median(times[name]):.4g}", f"{ratio:.2f}"]
        cells += [f"{sizes[name]:,.0f}", f"{sizes[name] / max(sizes[names[0]], 1):.3f}"]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


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
    torch.manual_seed(0)
    if options.child:
        evaluation(options.child, draw(64, 16))()  # libraries set themselves up
        run, before = evaluation(options.child, draw(options.sizes[0], options.dimensions)), peak()
        run()
        print(peak() - before)
        return
    groups = {
        "cross-entropy": [["cross-entropy", *(f"blocks {name}" for name in options.losses)]],
        "itself": [[f"plain {name}", f"blocks {name}"] for name in options.losses],
        "formulas": [
            ["own negatives", f"plain-own {WITH_OWN}", f"blocks-own {WITH_OWN}"],
            ["sum", f"plain {SUM}", f"blocks {SUM}"],
        ],
    }[options.beside]
    print(f"torch {torch.__version__}, {options.threads} threads, D = {options.dimensions}, float32")
    print("| N | loss | turns | CPU s | / first | extra MiB | / first |\n|--:|---|--:|--:|--:|--:|--:|")
    for size in options.sizes:
        for names in groups:
            report(names, size, options)


if __name__ == "__main__":
    main()
