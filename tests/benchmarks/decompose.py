"""How long a decomposition takes: ``python tests/benchmarks/decompose.py``.

Wall and CPU time of `gradlab.decompose` on a cross-entropy, least of several, and its multiple of one gradient.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

import gradlab
from gradlab.gradient.verification import BATCHES

SIZES = ((64, 256), (128, 768), (512, 768), (1024, 768))


def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """InfoNCE as anybody writes it."""
    labels = torch.arange(len(anchors))
    return torch.nn.functional.cross_entropy(anchors @ positives.T / 0.05, labels)


def gradient(anchors: torch.Tensor, positives: torch.Tensor) -> None:
    """One gradient of the loss, without lifting."""
    leaf = anchors.clone().requires_grad_()
    torch.autograd.grad(loss(leaf, positives), leaf)


def least(function: Callable[[], object], times: int) -> tuple[float, float]:
    """Least wall and CPU seconds."""
    wall, cpu = [], []
    for _ in range(times):
        start = time.perf_counter(), time.process_time()
        function()
        wall.append(time.perf_counter() - start[0])
        cpu.append(time.process_time() - start[1])
    return min(wall), min(cpu)


def main() -> None:
    """Print one line a size."""
    gradlab.decompose(loss, *(torch.eye(4, dtype=torch.float64)[i : i + 2] for i in (0, 2)))  # imports
    for size, dimension in SIZES:
        views = [torch.from_numpy(v) for v in BATCHES["paired"](np.random.default_rng(0), size, dimension)]
        wall, cpu = least(lambda views=views: gradlab.decompose(loss, *views), 5)
        once, _ = least(lambda views=views: gradient(*views), 5)
        print(f"{size:5} x {dimension}: wall {wall:6.2f} s, cpu {cpu:6.2f} s, {wall / once:5.0f} gradients")


if __name__ == "__main__":
    main()
