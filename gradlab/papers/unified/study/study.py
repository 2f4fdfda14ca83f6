"""The whole study: budget, runs, transfer tasks, report."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError
from gradlab.files import write_json
from gradlab.papers.unified.study.budget import Budget, budget, measure
from gradlab.papers.unified.study.conditions import plan
from gradlab.papers.unified.study.runs import UNTUNED, Task, base_settings, clear, make_run, read_json
from gradlab.papers.unified.study.settings import StudySettings, check_parts
from gradlab.papers.unified.study.untuned import score_untuned
from gradlab.sweep.board import FAILED, Board, Run
from gradlab.sweep.launch import launch
from gradlab.sweep.settings import configure
from gradlab.sweep.spec import Spec
from gradlab.sweep.training import owner
from gradlab.sweep.worker import terminable, work
from gradlab.train.machine import using_threads
from gradlab.train.progress import say
from gradlab.waiting import waiting

STUDY, RUNS, BOARD = "study.json", "runs", "study.db"
HEARTBEAT = 15  # seconds between signs of life of a process


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
        base: the settings of training that they share.
        description: model, data, device, versions: for the manifest of the report.
    """

    folder: Path
    settings: StudySettings
    parts: tuple[str, ...]
    tasks: list[Task]
    jobs: int
    base: dict[str, Any]
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
        from gradlab.papers.unified.study.manifest import about_study
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
        description = about_study(model, train_file, sts, settings, found, jobs)
        _check_same(folder, description)
        inner = max(1, cores // jobs)
        base = base_settings(settings, model, str(train_file), str(sts), device)
        tasks = [
            Task(
                planned,
                configure({**base, **planned.settings}, str(folder / RUNS / planned.folder)),
                settings,
                inner,
            )
            for planned in plan(settings, wanted, encoder.dimension)
        ]
        return cls(folder, settings, wanted, tasks, jobs, base, description)

    def budget(self, timed: bool = True) -> Budget:
        """What is still to do; ``timed`` runs a short trial to estimate the time."""
        left = [task for task in self.tasks if task.result() is None]
        speed = None
        if left and timed:
            say("Taking a few steps here, to estimate the time.")
            with using_threads(max(1, (os.cpu_count() or 1) // self.jobs)):
                speed = measure(left)
        return budget(self.tasks, self.jobs, self.description["device"]["name"], speed)

    def left(self) -> list[Task]:
        """The runs that are to be made, or that lack scores which can still be had.

        Raises:
            GradlabError: if some were made with other settings.
        """
        return [task for task in self.tasks if task.result() is None or task.missing()]

    def spec(self) -> Spec:
        """The runs that are left as a sweep: a point a condition, with its own seeds."""
        seeds: dict[str, list[int]] = {}
        points: dict[str, dict[str, Any]] = {}
        for planned in (task.planned for task in self.left()):
            name, own = planned.condition.name, planned.settings
            seeds.setdefault(name, []).append(own.pop("seed"))
            points[name] = {"label": name, "seeds": seeds[name], **own}
        every = dict.fromkeys(seed for some in seeds.values() for seed in some)
        return Spec("study", self.base, points_given=tuple(points.values()) or ({},), seeds=tuple(every))

    def run(self) -> None:
        """Make the runs that are left, as a sweep; scores are part of a run.

        Raises:
            GradlabError: for runs that failed, the others being made.
            KeyboardInterrupt: when interrupted; the runs under way have written checkpoints.
        """
        write_json(self.folder / STUDY, self.description)
        spec = self.spec()
        if self.left():
            board = self._board(spec)
            # The folders say what is left, not the database: some may have been deleted, or want more scores.
            board.prepare(retry_failed=True, retry_finished=True)
            workers = min(self.jobs, len(board.runs()))
            with terminable():
                if workers == 1:
                    self.work(board)
                else:
                    launch(board, [self._arguments()], workers, self.folder, (__name__,), threads=1)
            failed = [run for run in board.runs() if run.state == FAILED]
            if failed:
                name = self._task(failed[0]).planned.folder
                more = f" (and {len(failed) - 1} more runs failed)" if len(failed) > 1 else ""
                raise GradlabError(f"run {name}: {failed[0].error}{more}")
        if "repairs" in self.parts:
            for what in ("stsb_dev", "sts", *(("transfer",) if self.settings.transfer_seeds else ())):
                with waiting(f"Scoring the encoder as it was before ({what})"):
                    score_untuned(self.folder / UNTUNED, self.tasks[0], what)
        for task in self.tasks:
            clear(task)  # what an interruption left behind

    def work(self, board: Board | None = None) -> None:
        """Make runs of the sweep until none is left to claim."""
        board = board or self._board(self.spec())

        def make(run: Run, mine: Callable[[], bool]) -> tuple[float, dict[str, Any]]:
            task = self._task(run)
            make_run(task, owner(mine))
            result = task.result() or {}
            best = result.get("stsb_dev", {}).get(str(result.get("best_step")))
            return (-math.inf if best is None else best), {}

        work(board, self.folder, say, instead=make)

    def report(self) -> Path:
        """Write the report on what is finished, and return its folder."""
        from gradlab.papers.unified.study.report import write_report

        return write_report(self.folder, self.parts, self.tasks, self.settings, self.description)

    def _board(self, spec: Spec) -> Board:
        return Board(spec, f"sqlite:///{self.folder.absolute() / BOARD}", HEARTBEAT)

    def _task(self, run: Run) -> Task:
        known = ((task.planned.condition.name, task.planned.seed) for task in self.tasks)
        return self.tasks[list(known).index((run.point.label, run.seed))]

    def _arguments(self) -> str:
        """All that `open` needs to know in another process."""
        given = {name: self.base[name] for name in ("model", "train_file", "sts", "device")}
        size = {"settings": self.settings.to_dict(), "parts": self.parts, "jobs": self.jobs}
        return json.dumps({**given, **size, "output": str(self.folder)})


def _check_same(folder: Path, description: dict[str, Any]) -> None:
    before = read_json(folder / STUDY)
    for name in ("model", "data"):
        if before is not None and before.get(name) != description[name]:
            raise GradlabError(
                f"{str(folder)!r} holds a study with another {name}: {before.get(name)}; choose another --output"
            )


def _work_with(arguments: str) -> None:
    """Be one of several workers of a study; what ends it is the last line of its log."""
    given = json.loads(arguments)
    try:
        with terminable():
            Study.open(**{**given, "settings": StudySettings(**given["settings"])}).work()
    except KeyboardInterrupt:
        sys.exit("Interrupted.")
    except GradlabError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    _work_with(sys.argv[1])
