"""What several benchmarks measure by: rows, peak memory of a process, and processor times taken in turns."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch


def unit_rows(*shape: int) -> torch.Tensor:
    """Random rows of length 1, float32, that take gradients."""
    rows = torch.randn(*shape)
    return rows.div_(torch.linalg.vector_norm(rows, dim=-1, keepdim=True)).requires_grad_()


def evaluation(
    loss: Callable[..., torch.Tensor], rows: Sequence[torch.Tensor], **given: Any
) -> Callable[[], float]:
    """A function that computes the loss of rows, and the gradients of all that it is given."""

    def run() -> float:
        for part in (*rows, *given.values()):
            part.grad = None
        value = loss(*rows, **given)
        value.backward()
        return float(value.detach())

    return run


def peak() -> float:
    """Peak memory of this process so far, MiB; unlike the resource usage, not what its parent had."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 2**10


def forget_peak() -> None:
    """Let the peak so far be what this process holds now, where the system allows it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def answer_of_child(*arguments: Any) -> str:
    """What this script prints in a process of its own, with these arguments."""
    command = [sys.executable, sys.argv[0], *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def times_in_turns(runs: Mapping[str, Callable[[], Any]], turns: int) -> dict[str, list[float]]:
    """CPU seconds of each run in each turn, after one of each that does not count."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    # As a process that trains has freed: until then glibc maps each larger array anew, at the cost of page faults.
    torch.empty(2**22)
    for run in runs.values():
        run()
    for _ in range(turns):
        for name, run in runs.items():
            began = time.process_time()
            run()
            times[name].append(time.process_time() - began)
    return times


def ratio(ones: Sequence[float], others: Sequence[float]) -> float:
    """The median of the ratios within a turn."""
    return statistics.median(one / other for one, other in zip(ones, others, strict=True))


def row(*cells: Any) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"
