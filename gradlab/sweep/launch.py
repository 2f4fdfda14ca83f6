"""A sweep from beginning to end, by this process or by several that it starts."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError
from gradlab.files import write_json
from gradlab.sweep.spec import Spec
from gradlab.sweep.table import write_tables
from gradlab.sweep.trials import ENDED, FAILED, HEARTBEAT, NotBegun, Run, Trials, runs_of
from gradlab.sweep.worker import run_folder, work
from gradlab.train.config import TrainConfig
from gradlab.train.interruption import terminable
from gradlab.waiting import EVERY_LINE_OF_TRAINING, bar_interval, progress_bar

# The specification of a sweep, in its folder: what its workers read.
SPEC = "sweep.json"


def open_trials(
    spec: Spec, output: Path, storage: str | None = None, heartbeat: int = HEARTBEAT, *, create: bool = False
) -> Trials:
    """The state of a sweep, in a database; by default ``study.db`` in its folder. For errors see `Trials`."""
    file = output.absolute() / "study.db"
    if storage is None and not create and not file.exists():
        raise NotBegun(f"no sweep has been begun in {str(output)!r} (no {file.name})")
    return Trials(spec, storage or f"sqlite:///{file}", heartbeat, create=create)


def known_runs(spec: Spec, output: Path, storage: str | None = None) -> list[Run]:
    """The runs of a sweep and their states; all of them wait if the sweep has not been begun."""
    try:
        return open_trials(spec, output, storage).runs()
    except NotBegun:
        return runs_of(spec, {})


def check_evaluation(spec: Spec) -> None:
    """Raise GradlabError for a file that encoders will be evaluated on and that is absent or malformed."""
    from gradlab.evaluate import check_tasks

    points = [point for point in spec.points({}) if point.evaluate]
    for folder, tasks in dict.fromkeys((point.settings["sts"], point.evaluate) for point in points):
        check_tasks(folder, tasks)


def check_data(spec: Spec) -> None:
    """Raise GradlabError if a run could not begin with its models and data, or its development data give another metric.

    No model is loaded, and of a training file no more is read than tells that it is long enough.
    """
    from gradlab.evaluate.selection import SELECTIONS, selection
    from gradlab.train import corpus

    @functools.cache
    def selected_by(path: str) -> str:
        return selection(path).name

    def check(config: TrainConfig) -> None:
        corpus.check_data(config)
        found = None if config.sts is None else selected_by(config.sts)
        if spec.metric in SELECTIONS and found != spec.metric:
            raise GradlabError(
                f"the metric is {spec.metric}, and sts = {config.sts!r} gives {found or 'no score'}"
            )

    spec.check_each(check)


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
    """Make the runs of a sweep that are left, and write its tables and its specification into its folder.

    Args:
        spec: the sweep, checked.
        output: its folder.
        say: where messages go.
        workers: worker processes to start on this machine; 1 works in this process.
        storage: the database that workers share; None is a file in the folder.
        heartbeat: seconds between a worker's signs of life.
        retry_failed: repeat failed runs from the beginning.
        wait: stay while other workers have runs, to take over those of one that dies.

    Returns:
        All runs. One that fails does not end the others; its error is in the table. One whose workers died
        `gradlab.sweep.trials.DEATHS` times is given up.

    Raises:
        GradlabError: bad input.
        KeyboardInterrupt: when interrupted; the runs under way have written checkpoints.
    """
    if any(
        run.state not in ENDED or (retry_failed and run.state == FAILED)
        for run in known_runs(spec, output, storage)
    ):
        check_data(spec)
    check_evaluation(spec)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GradlabError(f"cannot make the folder {str(output)!r}: {error.strerror or error}") from error
    trials = open_trials(spec, output, storage, heartbeat, create=True)
    if retry_failed:
        for run in trials.runs():
            if run.state == FAILED:
                shutil.rmtree(run_folder(output, run), ignore_errors=True)
        trials.retry()
    place = write_json(output / SPEC, spec.to_dict())
    try:
        with terminable():
            if workers > 1:
                arguments = [str(place), "--output", str(output), "--heartbeat", str(heartbeat)]
                arguments += [] if wait else ["--no-wait"]
                arguments += ["--storage", storage] if storage else []
                launch(trials, arguments, workers, output)
            else:
                work(trials, output, say, wait=wait)
    finally:
        runs = trials.runs()
        write_tables(spec, runs, output)
    return runs


def launch(trials: Trials, arguments: Sequence[str], workers: int, output: Path) -> None:
    """Start processes of ``gradlab sweep`` with these arguments, show how far they are, and wait for them.

    What they print goes to ``logs/`` in the sweep's folder. Whatever ends this function before they end, an interruption or a
    lost database, ends them too, after they have given back their runs. Raises GradlabError if one ends with an error.
    """
    logs = output / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    started: dict[Path, subprocess.Popen[bytes]] = {}
    try:
        for number in range(workers):
            log = logs / f"worker-{number + 1}.log"
            with log.open("ab") as file:
                started[log] = subprocess.Popen(
                    [sys.executable, "-m", "gradlab", "sweep", *arguments],
                    stdout=file,
                    stderr=file,
                    env=_environment(number, workers),
                    start_new_session=True,  # Ctrl-C reaches them once, from here
                )
        _watch(trials, list(started.values()))
    except BaseException:
        for process in started.values():
            process.send_signal(signal.SIGTERM)
        for process in started.values():
            process.wait()
        raise
    for log, process in started.items():
        if process.returncode:
            words = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["none"]
            ended = f"a worker ended with code {process.returncode}"
            raise GradlabError(f"{ended}; its log is {log}: {words[-1]}")


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


def _watch(trials: Trials, processes: Sequence[Any]) -> None:
    """Show how many runs are over, until the last process ends."""
    every = bar_interval(EVERY_LINE_OF_TRAINING)
    with progress_bar(
        None, True, desc=trials.spec.name, unit="run", delay=0, leave=True, mininterval=every
    ) as bar:
        while True:
            alive = sum(process.poll() is None for process in processes)
            runs = trials.runs()
            bar.total = len(runs)  # stages add to it
            bar.set_postfix_str(f"{alive} workers", refresh=False)
            ended = sum(run.state in ENDED for run in runs)
            if sys.stderr.isatty() or ended != bar.n:  # a file gets a line where something has happened
                bar.n = ended
                bar.refresh()
            if not alive:
                return
            time.sleep(1)
