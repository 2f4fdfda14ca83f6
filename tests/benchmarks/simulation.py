"""How long simulation takes: ``python tests/benchmarks/simulation.py``.

Wall and CPU time, minimum and median over repetitions; process pairs run in turn, so that both see the
same load.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from gradlab import simulate
from gradlab.simulation import exact

PUBLISHED = ("infonce", "arccon", "mpt", "met")


def repeat(function: Callable[[], object], times: int) -> str:
    """Call it; report wall and CPU milliseconds."""
    wall, cpu = [], []
    for _ in range(times):
        start = time.perf_counter(), time.process_time()
        function()
        wall.append(1e3 * (time.perf_counter() - start[0]))
        cpu.append(1e3 * (time.process_time() - start[1]))
    return (
        f"wall min {min(wall):7.1f} median {statistics.median(wall):7.1f} ms, "
        f"cpu min {min(cpu):7.1f} median {statistics.median(cpu):7.1f} ms"
    )


def four_grids() -> None:
    """The published 100 x 100 grids, nothing kept from before."""
    exact._negative_side.cache_clear()
    for name in PUBLISHED:
        simulate(name)


def processes(commands: dict[str, list[str]], times: int) -> None:
    """Time fresh processes, in turn."""
    wall: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(times):
            for name, command in commands.items():
                start = time.perf_counter()
                subprocess.run(command, check=True, capture_output=True, cwd=folder)
                wall[name].append(1e3 * (time.perf_counter() - start))
    for name, values in wall.items():
        print(f"{name:48} wall min {min(values):7.1f} median {statistics.median(values):7.1f} ms")


def main() -> None:
    """Print the table."""
    four_grids()
    print(f"{'four exact 100 x 100 grids, in process':48} {repeat(four_grids, 30)}")
    for name in ("infonce", "mpt"):
        print(
            f"{'one Monte-Carlo grid of 1000 batches, ' + name:48} "
            f"{repeat(lambda name=name: simulate(name, engine='monte_carlo'), 7)}"
        )
    gradlab = [sys.executable, "-m", "gradlab"]
    processes(
        {
            "gradlab --help": [*gradlab, "--help"],
            "gradlab simulate --loss arccon": [*gradlab, "simulate", "--loss", "arccon"],
            "import torch, matplotlib.pyplot": [sys.executable, "-c", "import torch, matplotlib.pyplot"],
        },
        7,
    )


if __name__ == "__main__":
    main()
