"""A sweep from beginning to end, in this process or in several worker processes."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError
from gradlab.files import check_writable, clear_unfinished, one_at_a_time, write_json
from gradlab.progress_bars import EVERY_LINE_OF_TRAINING, bar_interval, progress_bar
from gradlab.sweep.spec import Spec
from gradlab.sweep.table import TABLES, write_tables
from gradlab.sweep.trials import ENDED, FAILED, NotBegun, Run, Trials, runs_of
from gradlab.sweep.worker import run_folder, work
from gradlab.train.config import TrainConfig
from gradlab.train.interruption import terminable


def open_trials(
    spec: Spec,
    output: Path,
    storage: str | None = None,
    heartbeat: int = 30,
    *,
    create: bool = False,
) -> Trials:
    """Return a sweep's state, by default from ``study.db`` in its folder; errors as in `Trials`."""
    file = output.absolute() / "study.db"
    if storage is None and not create and not file.exists():
        raise NotBegun(f"no sweep has been begun in {str(output)!r} (no {file.name})")
    return Trials(spec, storage or f"sqlite:///{file}", heartbeat, create=create)


def known_runs(spec: Spec, output: Path, storage: str | None = None) -> list[Run]:
    """Return the runs of a sweep with their states; all wait if the sweep has not been begun."""
    try:
        return open_trials(spec, output, storage).runs()
    except NotBegun:
        return runs_of(spec, {})


def check_evaluation(spec: Spec) -> None:
    """Raise GradlabError if a file that encoders will be evaluated on is absent or malformed."""
    from gradlab.evaluate import check_tasks

    points = [point for point in spec.points({}) if point.evaluate]
    for folder, tasks in dict.fromkeys(
        (point.settings["eval_data"], point.evaluate) for point in points
    ):
        check_tasks(folder, tasks)


def check_data(spec: Spec) -> None:
    """Raise GradlabError if data or models keep a run from beginning, or give another metric.

    No model is loaded, and a training file is read only until it has proved long enough.
    """
    from gradlab.evaluate.selection import SELECTIONS, selection
    from gradlab.train import corpus

    @functools.cache
    def selected_by(path: str) -> str:
        return selection(path).name

    def check(config: TrainConfig) -> None:
        corpus.check_data(config)
        score = None if config.eval_data is None else selected_by(config.eval_data)
        if spec.metric in SELECTIONS and score != spec.metric:
            raise GradlabError(
                f"the metric is {spec.metric}, and eval_data = {config.eval_data!r} gives "
                f"{score or 'no score'}"
            )

    spec.check_each(check)


def run_sweep(
    spec: Spec,
    output: Path,
    say: Callable[[str], None],
    *,
    workers: int = 1,
    storage: str | None = None,
    heartbeat: int = 30,
    retry_failed: bool = False,
    wait: bool = True,
) -> list[Run]:
    """Make the remaining runs of a sweep, and write its tables and specification into its folder.

    Args:
        spec: the sweep, checked.
        output: its folder.
        say: function that receives messages.
        workers: worker processes to start on this machine; 1 works in this process.
        storage: the database that workers share; None is a file in the folder.
        heartbeat: seconds between a worker's signs of life.
        retry_failed: repeat failed runs from the beginning.
        wait: whether to stay while other workers have runs, to take over those of one that dies.

    Returns:
        All runs. A failed run does not end the others; its error is in the table. A run fails when
        its workers died `gradlab.sweep.trials.DEATHS` times.

    Raises:
        GradlabError: the input is invalid.
        KeyboardInterrupt: the sweep was interrupted; the runs under way have written checkpoints.
    """
    check_writable(output, folder=True)
    over = [state for state in ENDED if not (retry_failed and state == FAILED)]
    if any(run.state not in over for run in known_runs(spec, output, storage)):
        check_data(spec)
    check_evaluation(spec)
    output.mkdir(parents=True, exist_ok=True)
    trials = open_trials(spec, output, storage, heartbeat, create=True)
    if retry_failed:
        for run in trials.runs():
            if run.state == FAILED:
                shutil.rmtree(run_folder(output, run), ignore_errors=True)
        trials.retry()
    with _alone(output):
        clear_unfinished(output, "sweep.json", *TABLES)
        place = write_json(output / "sweep.json", spec.to_dict())
    arguments = [str(place), "--output", str(output), "--heartbeat", str(heartbeat)]
    arguments += [] if wait else ["--no-wait"]
    arguments += ["--storage", storage] if storage else []
    try:
        with terminable():
            if workers > 1:
                launch(trials, arguments, workers, output)
            else:
                work(trials, output, say, wait=wait)
    finally:
        runs = trials.runs()
        with _alone(output):
            write_tables(spec, runs, output)
    return runs


def launch(trials: Trials, arguments: Sequence[str], workers: int, output: Path) -> None:
    """Start ``gradlab sweep`` processes with these arguments, show progress, and wait for them.

    Their output goes to ``logs/`` in the sweep's folder. If an interruption or a lost database ends
    this function, it ends them too, and they release their runs. GradlabError if a process ends
    with an error and leaves a run that no other process has taken over.
    """
    command = [sys.executable, "-m", "gradlab", "sweep", *arguments]
    (output / "logs").mkdir(parents=True, exist_ok=True)
    started: dict[Path, subprocess.Popen[bytes]] = {}
    try:
        for number in range(workers):
            log = output / "logs" / f"worker-{number + 1}.log"
            own = _environment(number, workers)
            with log.open("ab") as file:  # Ctrl-C reaches workers once, through this process
                started[log] = subprocess.Popen(
                    command, stdout=file, stderr=file, env=own, start_new_session=True
                )
        _watch(trials, list(started.values()))
    except BaseException:
        for process in started.values():
            process.send_signal(signal.SIGTERM)
        for process in started.values():
            process.wait()
        raise
    if all(run.state in ENDED for run in trials.runs()):
        return
    for log, process in started.items():
        if process.returncode:
            last = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
            raise GradlabError(
                f"a worker ended with code {process.returncode}; its log is {log}: {last}"
            )


def _alone(output: Path) -> AbstractContextManager[None]:
    """Keep the other workers from writing files of the sweep's folder."""
    return one_at_a_time(output / ".lock")


def _environment(place: int, workers: int) -> dict[str, str]:
    """Return the environment of a worker, with its share of the cores and one of several GPUs."""
    import torch

    cores, devices = max(1, (os.cpu_count() or 1) // workers), torch.cuda.device_count()
    own = {"OMP_NUM_THREADS": str(cores), "TOKENIZERS_PARALLELISM": "false"}
    if devices > 1:
        own["CUDA_VISIBLE_DEVICES"] = str(place % devices)
    return own | os.environ


def _watch(trials: Trials, processes: Sequence[Any]) -> None:
    """Show how many runs have ended, until the last process ends."""
    interval = bar_interval(EVERY_LINE_OF_TRAINING)
    with progress_bar(
        None, True, desc=trials.spec.name, unit="run", delay=0, leave=True, mininterval=interval
    ) as bar:
        while True:
            alive = sum(process.poll() is None for process in processes)
            runs = trials.runs()
            bar.total = len(runs)  # stages add runs
            bar.set_postfix_str(f"{alive} workers", refresh=False)
            ended = sum(run.state in ENDED for run in runs)
            if sys.stderr.isatty() or ended != bar.n:  # a log file gets a line only after a change
                bar.n = ended
                bar.refresh()
            if not alive:
                return
            time.sleep(1)
