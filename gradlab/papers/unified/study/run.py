"""The whole study: budget, runs, transfer tasks, report."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError
from gradlab.files import write_json
from gradlab.papers.unified.study.budget import Budget, budget, measure
from gradlab.papers.unified.study.conditions import plan
from gradlab.papers.unified.study.runs import (
    STS,
    TRANSFER,
    UNTUNED,
    Task,
    clear,
    make_run,
    read_json,
    score_sts,
    score_transfer,
    train_config,
)
from gradlab.papers.unified.study.settings import StudySettings, check_parts

STUDY, RUNS = "study.json", "runs"
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run_study(
    model: str,
    train_file: str | os.PathLike[str],
    sts: str | os.PathLike[str],
    output: str | os.PathLike[str],
    settings: StudySettings | None = None,
    *,
    parts: Iterable[str] | None = None,
    jobs: int | None = None,
    device: str = "auto",
    say: Callable[[str], None] = print,
) -> Path:
    """Train what the parts of a study need, and write its report. Called again, it goes on where it stopped.

    Args:
        model: encoder to start from: a local folder or a hub name.
        train_file: sentences, as for `gradlab.train`.
        sts: SentEval's ``data/downstream`` folder.
        output: the study's folder; ``report`` in it is what to read and to keep.
        settings: its size; None is the preset "light".
        parts: of :data:`gradlab.papers.unified.study.PARTS`; None is all.
        jobs: runs side by side; None is one a core on a CPU (each with one thread) and one on other devices.
        device: as for `gradlab.train`.
        say: told the budget before anything starts.

    Returns:
        the folder of the report.

    Raises:
        GradlabError: bad input, or a folder with a study of other settings.
        KeyboardInterrupt: when interrupted; the runs under way have written checkpoints.
    """
    study = Study.open(model, train_file, sts, output, settings, parts=parts, jobs=jobs, device=device)
    say(study.budget().text())
    study.run()
    return study.report()


@dataclass(frozen=True)
class Study:
    """A study and its folder; see :func:`run_study`.

    Attributes:
        folder: everything it writes.
        settings: its size.
        parts: what is wanted of it.
        tasks: its runs, the most important first.
        jobs: runs side by side.
        description: model, data, device, versions: for the manifest of the report.
    """

    folder: Path
    settings: StudySettings
    parts: tuple[str, ...]
    tasks: list[Task]
    jobs: int
    description: dict[str, Any]

    @classmethod
    def open(
        cls,
        model: str,
        train_file: str | os.PathLike[str],
        sts: str | os.PathLike[str],
        output: str | os.PathLike[str],
        settings: StudySettings | None = None,
        *,
        parts: Iterable[str] | None = None,
        jobs: int | None = None,
        device: str = "auto",
    ) -> Study:
        """Check everything that can be wrong before the first step, and plan the runs.

        Raises:
            GradlabError: bad input, or a folder with a study of other data or another model.
        """
        from gradlab.encoder.model import Encoder
        from gradlab.evaluate import check_tasks
        from gradlab.evaluate.sts import load_stsb_dev
        from gradlab.papers.unified.study.manifest import describe
        from gradlab.train.distributed import find_device
        from gradlab.train.sentences import check_file

        settings = settings or StudySettings.preset("light")
        wanted = check_parts(parts)
        check_file(Path(train_file))
        load_stsb_dev(sts)
        if "repairs" in wanted:
            for group, seeds in (("sts", settings.sts_seeds), ("transfer", settings.transfer_seeds)):
                if seeds:
                    check_tasks(sts, group)
        found = find_device(device)
        cores = os.cpu_count() or 1
        if jobs is not None and jobs < 1:
            raise GradlabError(f"jobs must be at least 1, not {jobs}")
        jobs = jobs or (cores if found.type == "cpu" else 1)
        encoder = Encoder.load(model)
        folder = Path(output)
        if folder.exists() and not folder.is_dir():
            raise GradlabError(f"{str(folder)!r} is a file; --output is a folder")
        description = describe(model, train_file, sts, settings, found, jobs)
        _check_same(folder, description)
        inner = max(1, cores // jobs)
        tasks = [
            Task(
                planned,
                train_config(
                    planned, settings, model, str(train_file), folder / RUNS / planned.folder, device
                ),
                settings,
                str(sts),
                inner,
            )
            for planned in plan(settings, wanted, encoder.dimension)
        ]
        return cls(folder, settings, wanted, tasks, jobs, description)

    def budget(self, timed: bool = True) -> Budget:
        """What is still to do; ``timed`` runs a short trial to estimate the time."""
        left = [task for task in self.tasks if task.result() is None]
        with _quiet(), _threads(max(1, self._cores // self.jobs)):
            speed = measure(left) if left and timed else None
        return budget(self.tasks, self.jobs, self.description["device"]["name"], speed)

    def run(self) -> None:
        """Make the runs that have not been made, then score encoders on the STS sets and the transfer tasks."""
        write_json(self.folder / STUDY, self.description)
        self._each(make_run, [t for t in self.tasks if t.result() is None], "Runs", "run")
        if "repairs" in self.parts:
            self._score_untuned("stsb_dev")
            self._score_untuned("sts")
            self._score(STS, score_sts)
            if self.settings.transfer_seeds:
                self._score(TRANSFER, score_transfer)
                self._score_untuned("transfer")
        for task in self.tasks:
            clear(task)  # what an interruption left behind

    @property
    def _cores(self) -> int:
        return int(self.description["device"]["cores"])

    def report(self) -> Path:
        """Write the report on what is finished, and return its folder."""
        from gradlab.papers.unified.study.report import write_report

        return write_report(self.folder, self.parts, self.tasks, self.settings, self.description)

    def _score(self, name: str, work: Callable[[Task], None]) -> None:
        tasks = [task for task in self.tasks if name in task.missing()]
        self._each(work, tasks, f"Scores ({name.removesuffix('.json')})", "encoder")

    def _score_untuned(self, what: str) -> None:
        """The rows of the table before training."""
        from gradlab.papers.unified.study.untuned import score_untuned

        with _quiet():
            score_untuned(self.folder / UNTUNED, self.tasks[0], what)

    def _each(self, work: Callable[[Task], None], tasks: Sequence[Task], title: str, unit: str) -> None:
        from tqdm.auto import tqdm

        if not tasks:
            return
        with tqdm(total=len(tasks), desc=title, unit=unit, file=sys.stderr) as bar:
            if self.jobs == 1:
                for task in tasks:
                    bar.set_postfix_str(task.planned.folder)
                    _named(work, task)
                    bar.update()
                return
            for _ in self._side_by_side(work, tasks):
                bar.update()

    def _side_by_side(self, work: Callable[[Task], None], tasks: Sequence[Task]) -> Iterator[None]:
        # Fresh processes rather than forks: threads of a parent do not survive a fork.
        with _environment({name: "1" for name in _THREADS}):
            pool = ProcessPoolExecutor(
                min(self.jobs, len(tasks)), multiprocessing.get_context("spawn"), _one_thread
            )
            futures = [pool.submit(_named, work, task) for task in tasks]
        try:
            for future in as_completed(futures):
                future.result()
                yield
        except BrokenProcessPool as error:
            raise GradlabError(
                "a process died (out of memory?); fewer --jobs need less; call again to go on"
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


_interrupted = False


def _named(work: Callable[[Task], None], task: Task) -> None:
    global _interrupted
    if _interrupted:  # this process has been told to stop, but had another task waiting
        raise KeyboardInterrupt
    try:
        work(task)
    except GradlabError as error:
        raise GradlabError(f"run {task.planned.folder}: {error}") from error
    except KeyboardInterrupt:
        _interrupted = multiprocessing.parent_process() is not None
        raise


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _check_same(folder: Path, description: dict[str, Any]) -> None:
    before = read_json(folder / STUDY)
    for name in ("model", "data"):
        if before is not None and before.get(name) != description[name]:
            raise GradlabError(
                f"{str(folder)!r} holds a study with another {name}: {before.get(name)}; choose another --output"
            )


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Environment variables that processes started within inherit."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    """As many threads as a run will have."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the bars and messages of the trial."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):
        yield
