"""All theory figures from a cold start, and the computing behind a move of a slider.

    python tests/benchmarks/figures.py

Each is measured in a fresh process; user time is what the work costs, wall time what one waits for on this machine.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from threadpoolctl import ThreadpoolController

MOVES = {
    "temperature": [{"temperature": 0.03 + 0.004 * k} for k in range(15)],
    "low temperature": [{"temperature": 0.01 + 0.0005 * k} for k in range(15)],
    "margin": [{"margin": 0.1 + 0.02 * k} for k in range(15)],
    "spread of the negatives": [{"sigma_neg": 0.05 + 0.02 * k} for k in range(15)],
    "number of negatives": [{"negatives": 1 + 20 * k} for k in range(15)],
}


def all_figures() -> None:
    """``gradlab figures`` into an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "gradlab", "figures", "--output", folder],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"gradlab figures, cold: {after.ru_utime - before.ru_utime:.1f} s user, {wall:.1f} s wall")


def sliders(loss: str) -> None:
    """What `LiveHeatmap.update` takes: simulate on 100 x 100 mean angles and exchange the colours."""
    from gradlab.plotting.live import LiveHeatmap

    live = LiveHeatmap(loss)
    threads = ThreadpoolController()  # as `explore` does
    for name, moves in MOVES.items():
        if not set(moves[0]) <= {"temperature", "margin", "sigma_neg", "negatives"} - (
            set() if loss == "arccon" else {"temperature"}
        ):
            continue
        user, wall = [], []
        for settings in moves:
            start, cpu = time.perf_counter(), time.process_time()
            with threads.limit(limits=1, user_api="blas"):
                live.update(**settings)
            wall.append(1000 * (time.perf_counter() - start))
            user.append(1000 * (time.process_time() - cpu))
        print(
            f"slider, {loss}, {name}: median {statistics.median(user):.1f} ms user, {statistics.median(wall):.1f} ms "
            f"wall; largest {max(user):.1f} and {max(wall):.1f}"
        )


if __name__ == "__main__":
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    all_figures()
    for loss in ("arccon", "met"):
        sliders(loss)
