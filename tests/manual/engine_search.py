"""Random search of the engine: blocks of any size, two processes' shares, beside plain autograd.

    python tests/manual/engine_search.py --minutes 60 --seed 1

Losses, combinators, settings and rows are those of `tests/test_random_losses.py`, and so are the
tolerances, which follow from the arithmetic. Each case is evaluated plainly, in blocks on one
process, and on both, in float64, float32 or bfloat16, with one of the reductions and any upstream
gradient; value and gradients by all rows are compared. Cases in which rounding decides (a tie, a
gate at its threshold) are drawn again. Exit status 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import test_random_losses as definitions

import gradlab

PROCESSES = 2
EPS = {torch.float64: 2.3e-16, torch.float32: 1.2e-7, torch.bfloat16: 8e-3}


def draw(rng: np.random.Generator) -> tuple[str, list[torch.Tensor], float] | None:
    """A loss, float64 rows of both views and extra negatives, and the tolerance; or None.

    The tolerance is in units of the rounding.
    """
    n, m, dim = int(rng.integers(4, 40)), int(rng.choice([0, 3, 8])), int(rng.integers(3, 17))
    loss = definitions.random_loss(rng, dim)
    rows = [torch.from_numpy(view) for view in definitions.random_rows(rng, n, m, dim)]
    rows = [view / view.norm(dim=1, keepdim=True) for view in rows]
    expected = loss[1](definitions.Batch(*rows, doubt=1e-4))
    sizes = np.abs(expected.value).max(initial=0), expected.scale
    if expected.unsure or expected.unsure_value or not np.isfinite(sizes).all():
        return None
    return loss[0], rows, 100 * expected.steep * (1 + sum(sizes)) * n**0.5


def evaluated(loss, rows, reduction, upstream, factor, **options):
    """The value, and the gradients by all rows.

    Of values with an upstream gradient each, or of one with a factor.
    """
    leaves = [view.clone().requires_grad_() for view in rows]
    value = loss(*leaves[:2], leaves[2] if len(rows[2]) else None, reduction, **options)
    value.backward(upstream if value.ndim else factor)
    return [
        value.detach(),
        *(torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves),
    ]


def case(rng: np.random.Generator, rank: int) -> list[str] | None:
    """What is wrong, on the first process; None if the case does not count."""
    drawn = draw(rng)
    dtype = [torch.float64, torch.float32, torch.bfloat16][rng.choice(3, p=[0.6, 0.3, 0.1])]
    reduction = str(rng.choice(["mean", "sum", "none"]))
    block, uneven = int(rng.integers(1, 12)), float(rng.uniform(0.1, 0.9))
    seed = int(rng.integers(2**31))
    if drawn is None:
        return None
    text, rows, loosely = drawn
    n, m = len(rows[0]), len(rows[2])
    rows = [view.to(dtype) for view in rows]
    compared = torch.float32 if dtype == torch.bfloat16 else dtype
    upstream = torch.randn(n, generator=torch.Generator().manual_seed(seed)).to(compared)
    loss = gradlab.get_loss(text)
    options = {"normalize": True, "factor": upstream[0]}
    if reduction == "none":
        try:
            loss(rows[0], rows[1], rows[2] if m else None, "none", normalize=True)
        except gradlab.GradlabError:  # one value a batch
            reduction = "mean"
    plain = evaluated(loss, [view.to(compared) for view in rows], reduction, upstream, **options)
    split = [max(1, min(n - 1, round(uneven * n))), round(uneven * m)]
    own_rows = [
        slice(0, at) if rank == 0 else slice(at, None) for at in (split[0], split[0], split[1])
    ]
    share = [view[rows_of_view] for view, rows_of_view in zip(rows, own_rows, strict=True)]
    together = evaluated(
        gradlab.blockwise(loss, block, group="world"),
        share,
        reduction,
        upstream[own_rows[0]],
        **options,
    )
    blocks = evaluated(gradlab.blockwise(loss, block), rows, reduction, upstream, **options)
    own_share = [plain[0][own_rows[0]] if plain[0].ndim else plain[0]]
    own_share += [
        whole[rows_of_view] for whole, rows_of_view in zip(plain[1:], own_rows, strict=True)
    ]
    tolerance = (
        loosely * EPS[dtype if dtype == torch.bfloat16 else compared] * float(upstream.abs().max())
    )
    wrong = []
    for way, computed, expected in (("blocks", blocks, plain), ("processes", together, own_share)):
        for name, actual, reference in zip(
            ("value", "anchors", "positives", "extra"), computed, expected, strict=True
        ):
            apart = (
                float((actual.double() - reference.double()).abs().max()) if actual.numel() else 0.0
            )
            if not apart <= tolerance:
                wrong.append(
                    f"{text}, {dtype}, {reduction}, N = {n}, M = {m}, block {block}, {split}: "
                    f"{way}, {name} off by {apart:.3g}, "
                    f"where {tolerance:.3g} is allowed"
                )
    return wrong


def work(rank: int, folder: str, minutes: float, seed: int) -> None:
    """Search, and let the first process print."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=PROCESSES
    )
    end, tried, number, mismatches = time.monotonic() + 60 * minutes, 0, 0, 0
    while True:
        go_on = torch.tensor(float(time.monotonic() < end))
        torch.distributed.broadcast(go_on, 0)
        if not go_on:
            break
        try:
            failure = case(np.random.default_rng([seed, number]), rank)
        except Exception as error:  # whatever it is, it is wrong, unless both refuse the rows
            failure = (
                [] if "look whether" in str(error) or "not finite" in str(error) else [repr(error)]
            )
        number += 1
        if failure is None:
            continue
        tried += 1
        mismatches += bool(failure)
        for line in failure:
            print(f"process {rank}, case {number - 1} of seed {seed}: {line}", flush=True)
        if rank == 0 and tried % 500 == 0:
            print(f"{tried} cases, {mismatches} wrong", flush=True)
    print(f"process {rank}: {tried} cases, {mismatches} wrong", flush=True)
    torch.distributed.destroy_process_group()
    sys.exit(int(mismatches > 0))


def main() -> int:
    """Search on both processes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("spawn")
        workers = [
            context.Process(target=work, args=(rank, folder, options.minutes, options.seed))
            for rank in range(PROCESSES)
        ]
        for process in workers:
            process.start()
        for process in workers:
            process.join()
    return int(any(process.exitcode for process in workers))


if __name__ == "__main__":
    sys.exit(main())
