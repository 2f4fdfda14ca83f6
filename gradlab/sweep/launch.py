"""Several workers on one machine: processes of their own, which share the sweep through its database."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError
from gradlab.sweep.board import FAILED, FINISHED, Board
from gradlab.waiting import bar_interval


def launch(
    board: Board,
    arguments: Sequence[str],
    workers: int,
    output: Path,
    module: Sequence[str] = ("gradlab", "sweep"),
    threads: int | None = None,
) -> None:
    """Start workers, show how far they are, and wait for them.

    Args:
        board: the sweep, prepared.
        arguments: of ``module``, for one worker.
        workers: how many.
        output: folder of the sweep; what a worker prints goes to ``logs/`` there.
        module: what ``python -m`` runs as a worker, with its first arguments.
        threads: of each; None is OMP_NUM_THREADS, or its share of the cores.

    Whatever ends this before they do, an interruption or a database that is gone, ends them too.

    Raises:
        GradlabError: if a worker ended with an error.
        KeyboardInterrupt: when interrupted, after the workers have given back their runs.
    """
    logs = output / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    started: list[tuple[Path, subprocess.Popen[bytes]]] = []
    try:
        for number in range(1, workers + 1):
            log = logs / f"worker-{number}.log"
            with log.open("ab") as file:
                process = subprocess.Popen(
                    [sys.executable, "-m", *module, *arguments],
                    stdout=file,
                    stderr=file,
                    env=_environment(number - 1, workers, threads),
                    start_new_session=True,  # Ctrl-C reaches them once, from here
                )
            started.append((log, process))
        _watch(board, [process for _, process in started])
    except BaseException:
        for _, process in started:
            process.send_signal(signal.SIGTERM)
        for _, process in started:
            process.wait()
        raise
    for log, process in started:
        if process.returncode:
            raise GradlabError(
                f"a worker ended with code {process.returncode}; its last words are in {log}: {_last_line(log)}"
            )


def _environment(place: int, workers: int, threads: int | None) -> dict[str, str]:
    """Each worker gets its share of the cores, and one of the GPUs where there are several."""
    environment = dict(os.environ)
    environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
    if threads is not None:
        environment |= {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "OPENBLAS", "MKL")}
    environment.setdefault("TOKENIZERS_PARALLELISM", "false")
    if "CUDA_VISIBLE_DEVICES" not in environment:
        import torch

        if (devices := torch.cuda.device_count()) > 1:
            environment["CUDA_VISIBLE_DEVICES"] = str(place % devices)
    return environment


def _watch(board: Board, processes: list[Any]) -> None:
    from tqdm.auto import tqdm

    with tqdm(desc=board.spec.name, unit="run", mininterval=bar_interval()) as bar:
        while True:
            alive = [process for process in processes if process.poll() is None]
            runs = board.runs()
            bar.total = len(runs)  # stages add to it
            bar.set_postfix_str(f"{len(alive)} workers", refresh=False)
            ended = sum(run.state in (FINISHED, FAILED) for run in runs)
            if sys.stderr.isatty() or ended != bar.n:  # a file gets a line where something has happened
                bar.n = ended
                bar.refresh()
            if not alive:
                return
            time.sleep(1)


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "none"
