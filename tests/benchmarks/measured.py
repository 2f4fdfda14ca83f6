"""What benchmarks measure by: rows, results and memory of fresh processes, times in turns."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

Criterion = Callable[..., torch.Tensor]


def unit_rows(*shape: int) -> torch.Tensor:
    """Random rows of length 1, float32, that take gradients."""
    rows = torch.randn(*shape)
    return rows.div_(torch.linalg.vector_norm(rows, dim=-1, keepdim=True)).requires_grad_()


def evaluation(
    loss: Criterion, rows: Sequence[torch.Tensor], **arguments: Any
) -> Callable[[], float]:
    """A function that computes the loss of rows, and the gradients of all that it is given."""

    def run() -> float:
        for tensor in (*rows, *arguments.values()):
            tensor.grad = None
        value = loss(*rows, **arguments)
        value.backward()
        return float(value.detach())

    return run


def peak() -> float:
    """Peak memory of this process so far, MiB; unlike the resource usage, not its parent's."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 2**10


def forget_peak() -> None:
    """Let the peak so far be what this process holds now, where the system allows it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def fresh(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function gives in a process of its own, with as many threads."""
    context = multiprocessing.get_context("spawn")
    set_up = torch.set_num_threads, (torch.get_num_threads(),)
    with ProcessPoolExecutor(1, context, *set_up) as process:
        return process.submit(function, *arguments).result()


def extra_memory(make: Callable[..., Callable[[], Any]], small: tuple, shape: tuple) -> float:
    """By how much ``make(*given)()`` raises the peak of its process, MiB.

    Before, libraries have set themselves up by a small run.
    """
    make(*small)()
    run = make(*shape)
    forget_peak()
    before = peak()
    run()
    return peak() - before


def over_processes(
    count: int, size: int, dimensions: int, name: str, make: Callable[[str], Criterion]
) -> dict[str, float]:
    """One evaluation of ``make(name)`` on a batch that processes of one thread share.

    Returns the processor seconds of all processes, and the largest memory.
    """
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(
            _share, (count, size, dimensions, name, folder, make), nprocs=count
        )
        measurements = [
            json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(count)
        ]
    times, memory = zip(*measurements, strict=True)
    return {"processor": sum(times), "memory": max(memory)}


def _share(
    rank: int, count: int, size: int, dimensions: int, name: str, folder: str, make: Callable
) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=count
    )
    torch.manual_seed(rank)
    criterion = make(name)
    evaluation(criterion, [unit_rows(32, 16), unit_rows(32, 16)])()  # libraries set themselves up
    run = evaluation(
        criterion, [unit_rows(size // count, dimensions), unit_rows(size // count, dimensions)]
    )
    torch.distributed.barrier()
    forget_peak()
    before, began = peak(), time.process_time()
    run()
    Path(folder, f"{rank}.json").write_text(
        json.dumps([time.process_time() - began, peak() - before])
    )
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def times_in_turns(runs: Mapping[str, Callable[[], Any]], turns: int) -> dict[str, list[float]]:
    """CPU seconds of each run in each turn, after one of each that does not count."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    # As a process that trains has freed: until then glibc maps each larger array anew, at the cost
    # of page faults.
    torch.empty(2**22)
    for run in runs.values():
        run()
    for _ in range(turns):
        for name, run in runs.items():
            began = time.process_time()
            run()
            times[name].append(time.process_time() - began)
    return times


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """The median of the ratios within a turn."""
    return statistics.median(a / b for a, b in zip(numerators, denominators, strict=True))


def row(*cells: Any) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"
