"""Own negatives and sums beside the same formulas in plain torch: processor time of value and gradients, in turns.

    OMP_NUM_THREADS=1 python tests/benchmarks/beside_torch.py --sizes 512 2048 8192

Plain torch holds all similarities of a batch. A ratio is the median of the ratios within a turn; values are compared first.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping
from functools import partial

import torch
from measured import times_in_turns
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

import gradlab

TEMPERATURE = 0.05
WITH_OWN = f"infonce(temperature={TEMPERATURE})"
SUM = f"sum(infonce(temperature={TEMPERATURE}), symmetric(gor), siglip, weights=1+0.1+0.5)"


def with_own(anchors: Tensor, positives: Tensor, own: Tensor) -> Tensor:
    """InfoNCE over the batch and the anchor's own negatives."""
    every = torch.cat([anchors @ positives.T, (own @ anchors[:, :, None])[:, :, 0]], dim=1)
    return cross_entropy(every / TEMPERATURE, torch.arange(len(anchors)))


def sum_of_three(anchors: Tensor, positives: Tensor) -> Tensor:
    """InfoNCE, the spread-out regulariser of both views, and SigLIP (scale 10, bias -10)."""
    n = len(anchors)
    cosines = anchors @ positives.T
    signs = 2 * torch.eye(n) - 1
    pairs = -torch.nn.functional.logsigmoid(signs * (10 * cosines - 10)).sum() / n
    spread = sum((rows @ rows.T).fill_diagonal_(0).square().sum() for rows in (anchors, positives)) / 2
    infonce = cross_entropy(cosines / TEMPERATURE, torch.arange(n))
    return infonce + 0.1 * spread / (n * (n - 1)) + 0.5 * pairs


def differentiate(
    loss: Callable[..., Tensor], rows: list[Tensor], more: Mapping[str, Tensor] | None = None
) -> float:
    """Make the gradients of the rows, and of what a loss is given besides; returns the value."""
    for part in (*rows, *(more or {}).values()):
        part.grad = None
    value = loss(*rows)
    value.backward()
    return float(value.detach())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 2048, 8192])
    parser.add_argument("--dimensions", type=int, default=768)
    parser.add_argument("--own", type=int, default=7)
    parser.add_argument("--turns", type=int, help="by default more for smaller sizes")
    options = parser.parse_args()
    print(
        "| loss | N | turns | CPU s, torch | whole / torch | blockwise / torch |\n|---|--:|--:|--:|--:|--:|"
    )
    for size in options.sizes:
        turns = options.turns or max(3, min(30, 2**14 // size))
        torch.manual_seed(0)
        shapes = (size,), (size,), (size, options.own)
        rows = [
            normalize(torch.randn(*shape, options.dimensions), dim=-1).requires_grad_() for shape in shapes
        ]
        for name, plain in ((WITH_OWN, with_own), (SUM, sum_of_three)):
            given = {"own_negatives": rows[2]} if plain is with_own else {}
            runs = {
                "torch": partial(differentiate, plain, rows[: 2 + len(given)]),
                "whole": partial(differentiate, partial(gradlab.get_loss(name), **given), rows[:2], given),
                "blockwise": partial(
                    differentiate, partial(gradlab.blockwise(name), **given), rows[:2], given
                ),
            }
            values = [one() for one in runs.values()]
            assert max(values) - min(values) < 1e-5 * abs(values[0]), values
            times = times_in_turns(runs, turns)
            ratios = {
                which: statistics.median(a / b for a, b in zip(times[which], times["torch"], strict=True))
                for which in ("whole", "blockwise")
            }
            print(
                f"| `{name}` | {size:,} | {turns} | {statistics.median(times['torch']):.4g} | {ratios['whole']:.2f} | "
                f"{ratios['blockwise']:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
