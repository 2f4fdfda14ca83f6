"""A sweep from beginning to end: what is left is shared out among workers, processes of their own where there are several."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError
from gradlab.files import write_json
from gradlab.sweep.board import ENDED, Board, NotBegun, Run
from gradlab.sweep.data import check_data, check_evaluation
from gradlab.sweep.spec import Spec
from gradlab.sweep.table import write_tables
from gradlab.sweep.worker import terminable, work
from gradlab.waiting import bar_interval

HEARTBEAT = 30  # seconds between a worker's signs of life
# The specification of a sweep, in its folder: what its workers read.
SPEC = "sweep.json"


def open_board(
    spec: Spec, output: Path, storage: str | None = None, heartbeat: int = HEARTBEAT, *, create: bool = False
) -> Board:
    """The state of a sweep, in a database; by default ``study.db`` in its folder.

    Raises:
        NotBegun: if nothing of it was run yet, unless ``create``.
        GradlabError: see `Board`.
    """
    file = output.absolute() / "study.db"
    if storage is None and not create and not file.exists():
        raise NotBegun(f"no sweep has been begun in {str(output)!r} (no {file.name})")
    return Board(spec, storage or f"sqlite:///{file}", heartbeat, create=create)


def known_runs(spec: Spec, output: Path, storage: str | None = None) -> list[Run]:
    """The runs of a sweep and their states; all of them wait if it has not been begun."""
    try:
        return open_board(spec, output, storage).runs()
    except NotBegun:
        runs = {key: Run(key, point, seed) for point in spec.points({}) for seed, key in point.runs.items()}
        return list(runs.values())


def run_sweep(
    spec: Spec,
    output: Path,
    say: Callable[[str], None],
    *,
    workers: int = 1,
    storage: str | None = None,
    heartbeat: int = HEARTBEAT,
    retry_failed: bool = False,
    wait: bool = True,
) -> list[Run]:
    """Carry out what is left of a sweep, and write its tables and its specification into its folder.

    Args:
        spec: the sweep, checked.
        output: its folder.
        say: where messages go.
        workers: processes to start here; 1 is this one.
        storage: database that workers share; None is a file in the folder.
        heartbeat: seconds between a worker's signs of life.
        retry_failed: run anew what has failed.
        wait: stay while other workers have runs, to take over those of one that dies.

    Returns:
        All its runs.

    Raises:
        GradlabError: for bad input. A run that fails ends no other, and is in the table.
        KeyboardInterrupt: when interrupted; the runs under way have written checkpoints.
    """
    check_evaluation(spec)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GradlabError(f"cannot make the folder {str(output)!r}: {error.strerror or error}") from error
    board = open_board(spec, output, storage, heartbeat, create=True)
    check_data(board, output)
    board.prepare(retry_failed)
    place = write_json(output / SPEC, spec.to_dict())
    try:
        with terminable():
            if workers > 1:
                arguments = [str(place), "--output", str(output), "--heartbeat", str(heartbeat)]
                arguments += [] if wait else ["--no-wait"]
                launch(board, [*arguments, *(["--storage", storage] if storage else [])], workers, output)
            else:
                work(board, output, say, wait=wait)
    finally:
        runs = board.runs()
        write_tables(spec, runs, output)
    return runs


def launch(board: Board, arguments: Sequence[str], workers: int, output: Path) -> None:
    """Start workers, show how far they are, and wait for them.

    Args:
        board: the sweep, prepared.
        arguments: of ``gradlab sweep``, for one worker.
        workers: how many.
        output: folder of the sweep; what a worker prints goes to ``logs/`` there.

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
                    [sys.executable, "-m", "gradlab", "sweep", *arguments],
                    stdout=file,
                    stderr=file,
                    env=_environment(number - 1, workers),
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


def _environment(place: int, workers: int) -> dict[str, str]:
    """Each worker gets its share of the cores, and one of the GPUs where there are several."""
    environment = dict(os.environ)
    environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
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
            ended = sum(run.state in ENDED for run in runs)
            if sys.stderr.isatty() or ended != bar.n:  # a file gets a line where something has happened
                bar.n = ended
                bar.refresh()
            if not alive:
                return
            time.sleep(1)


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "none"
