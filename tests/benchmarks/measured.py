"""What several benchmarks measure by: peak memory of a process, and processor times taken in turns."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def peak() -> float:
    """Peak memory of this process so far, MiB; unlike the resource usage, not what its parent had."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 2**10


def forget_peak() -> None:
    """Let the peak so far be what this process holds now, where the system allows it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def times_in_turns(runs: Mapping[str, Callable[[], Any]], turns: int) -> dict[str, list[float]]:
    """CPU seconds of each run in each turn, after one of each that does not count."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(turns):
        for name, run in runs.items():
            began = time.process_time()
            run()
            times[name].append(time.process_time() - began)
    return times
