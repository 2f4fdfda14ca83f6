"""A sweep's runs as trials of an Optuna study: a worker claims each run, another if that one dies.

A trial stores the number of its attempt at a run; only the first trial of the latest attempt
counts. Workers can thus add trials without a lock: if two begin the same attempt at once, both try
to claim the same trial.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from gradlab.errors import GradlabError, first_line, require_package
from gradlab.sweep.flat_settings import (
    FlatSettings,
    content_of,
    content_of_code,
    content_of_development,
)
from gradlab.sweep.spec import Point, Spec

DEATHS = 3  # of workers, after which their run counts as failed: it may be the cause
WAITING, RUNNING, FINISHED = "waiting", "running", "finished"
FAILED, DIVERGED = "failed", "diverged"
# The states of a run that has ended, unless it is retried.
ENDED = (FINISHED, FAILED, DIVERGED)


@dataclass(frozen=True)
class Run:
    """A point of a sweep with one of its seeds, and its state in the database.

    Attributes:
        key: identifies the run; see `gradlab.sweep.flat_settings.identify`.
        point, seed: the settings and the seed.
        state: waiting, running, finished, failed, or diverged (not finite, and would be again).
        value: the sweep's metric; None before the run is finished.
        results: all measurements by name.
        worker: ``host:process`` of the current or last worker of the run.
        error: the reason why the run failed or diverged.
        attempts: number of times that the run was begun.
        trial: number of the trial that represents the run; -1 before there is one.
    """

    key: str
    point: Point
    seed: int
    state: str = WAITING
    value: float | None = None
    results: dict[str, Any] | None = None
    worker: str = ""
    error: str = ""
    attempts: int = 0
    trial: int = -1

    @property
    def settings(self) -> FlatSettings:
        """All settings except the output folder, flat."""
        return {**self.point.settings, "seed": self.seed}

    def title(self) -> str:
        """Return the title of the point, and the seed."""
        return f"{self.point.title()}, seed {self.seed}"


def runs_of(spec: Spec, scores: Mapping[str, float | None]) -> list[Run]:
    """Return each run of the points known so far (see `Spec.points`) once, as if none had begun."""
    runs: dict[str, Run] = {}
    for point in spec.points(scores):
        for seed, key in point.runs.items():
            # Evaluated on the tasks of all its points.
            run = runs.setdefault(key, Run(key, point, seed))
            tasks = tuple(dict.fromkeys((*run.point.evaluate, *point.evaluate)))
            runs[key] = replace(run, point=replace(run.point, evaluate=tasks))
    return list(runs.values())


class NotBegun(GradlabError):
    """The database does not contain the sweep."""


class Trials:
    """The state of a sweep in its database.

    Args:
        spec: the sweep; the study has its name.
        url: SQLAlchemy URL of the database: SQLite (a file), PostgreSQL or MySQL.
        heartbeat: seconds between a worker's signs of life; without one for four times as long, it
            counts as dead.
        create: whether to create database and study if they do not exist.

    Raises:
        NotBegun: there is no such study, and ``create`` is false.
        GradlabError: the database cannot be used, or Optuna is not installed.
    """

    def __init__(self, spec: Spec, url: str, heartbeat: int = 30, *, create: bool = True) -> None:
        self.spec, self.heartbeat = spec, heartbeat
        self._optuna = optuna = require_optuna()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        # Heartbeats are experimental.
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        self._storage = _open(url, heartbeat)
        opened = optuna.create_study if create else optuna.load_study
        options = {"direction": spec.direction, "load_if_exists": True} if create else {}
        try:
            self._study = opened(study_name=spec.name, storage=self._storage, **options)
        except KeyError:
            raise NotBegun(f"the sweep {spec.name!r} has not been begun in this database") from None

    def runs(self) -> list[Run]:
        """Return all runs known so far, each once, in the order of the sweep."""
        return self._runs(self._latest())

    def retry(self) -> None:
        """Queue another attempt at every failed run, from the beginning."""
        for run in self.runs():
            if run.state == FAILED:
                self._add(run)

    def claim(self) -> Run | None:
        """Claim the first waiting run, by stage and then by seed; return None if no run waits."""
        self._optuna.storages.fail_stale_trials(self._study)
        latest = self._latest()
        runs = self._runs(latest)
        seeds = list(dict.fromkeys([*self.spec.seeds, *(run.seed for run in runs)]))
        waiting = [run for run in runs if run.state == WAITING]
        for run in sorted(waiting, key=lambda run: (run.point.stage, seeds.index(run.seed))):
            trial = latest.get(run.key)
            if trial is None or trial.state.name != "WAITING":
                self._add(run, deaths=_deaths(trial) if trial else 0)
                trial = self._latest()[run.key]
            run = replace(run, trial=trial.number)
            # The sign of life comes first: a worker that dies in between leaves a waiting trial,
            # not one that runs for ever.
            self._storage.record_heartbeat(self._id(run))
            worker = f"{socket.gethostname()}:{os.getpid()}"
            attributes: dict[str, Any] = {"worker": worker, **_contents(run)}
            if self._set(run, "RUNNING") and self._set(run, **attributes):
                return replace(run, state=RUNNING, attempts=run.attempts + 1, worker=worker)
        return None

    def finish(self, run: Run, value: float, results: dict[str, Any]) -> bool:
        """Record the results of a run; return False if the run no longer belongs to this worker."""
        results = {self.spec.metric: value, **results}
        return self._set(run, "COMPLETE", [value], results=results, evaluated=run.point.evaluate)

    def adopt(self, run: Run, results: dict[str, float]) -> None:
        """Record the results, by name, of a run finished elsewhere and never begun here."""
        attributes = {"results": results, "evaluated": run.point.evaluate}
        self._add(run, "COMPLETE", results[self.spec.metric], **attributes)

    def fail(self, run: Run, error: str, diverged: bool = False) -> bool:
        """Record why a run failed; return False if the run no longer belongs to this worker."""
        return self._set(run, "FAIL", error=error, diverged=diverged)

    def release(self, run: Run) -> bool:
        """Let any worker continue a run; return False if it no longer belongs to this worker."""
        return self._set(run, "FAIL", released=True)

    @contextmanager
    def alive(self, run: Run) -> Iterator[Callable[[], bool]]:
        """Give signs of life in the block; yields a function telling if this worker has the run."""
        stop, lost = threading.Event(), threading.Event()

        def beat() -> None:
            while not stop.wait(self.heartbeat):
                try:
                    self._storage.record_heartbeat(self._id(run))
                    if self._storage.get_trial(self._id(run)).state.name != "RUNNING":
                        lost.set()
                except Exception as error:  # a temporary database failure must not end the run
                    text = f"cannot report that this worker is alive: {error}"
                    warnings.warn(text, RuntimeWarning, stacklevel=1)

        thread = threading.Thread(target=beat, daemon=True, name="heartbeat")
        thread.start()
        try:
            yield lambda: not lost.is_set()
        finally:
            stop.set()
            thread.join()

    def _add(
        self, run: Run, state: str = "WAITING", metric: float | None = None, **attributes: Any
    ) -> None:
        """Add a trial for the next attempt at a run."""
        attributes |= {"key": run.key, "settings": run.settings, "attempt": run.attempts + 1}
        trial = self._optuna.trial
        self._study.add_trial(
            trial.create_trial(state=trial.TrialState[state], value=metric, user_attrs=attributes)
        )

    def _latest(self) -> dict[str, Any]:
        """Return the trial that represents each run: the first trial of its latest attempt."""
        latest: dict[str, Any] = {}
        for trial in self._study.get_trials(deepcopy=False):  # in the order of their numbers
            key = trial.user_attrs["key"]
            if key not in latest or _attempt(trial) > _attempt(latest[key]):
                latest[key] = trial
        return latest

    def _runs(self, latest: dict[str, Any]) -> list[Run]:
        scores = {
            key: self._score(trial)
            for key, trial in latest.items()
            if self.spec.stages and _state(trial) in ENDED
        }
        runs = runs_of(self.spec, scores)
        return [self._recorded(run, latest.get(run.key)) for run in runs]

    def _recorded(self, run: Run, trial: Any) -> Run:
        """Return the run with the content of its trial, if any.

        GradlabError if its data have changed.
        """
        if trial is None:
            return run
        attributes, state = trial.user_attrs, _state(trial)
        for name, current in _contents(run).items() if state in (FINISHED, RUNNING) else ():
            if current and attributes.get(name) not in (current, "", None):
                code = content_of_code(run.settings)
                difference = {
                    "data": f"trained on another file than {run.settings['train_file']!r}",
                    "selected": f"selected by other data than {run.settings.get('eval_data')!r}",
                    "code": f"trained with other code than {', '.join(code)!r}",
                }[name]
                raise GradlabError(
                    f"runs of this sweep were {difference} ({run.title()}, for one); give another "
                    "--output, or with --storage another name in the sweep's file"
                )
        if state == FINISHED and not _has_scores(attributes, run.point):
            state = WAITING
        return replace(
            run,
            state=state,
            value=self._score(trial) if state == FINISHED else None,
            results=attributes.get("results"),
            worker=attributes.get("worker", ""),
            error=attributes.get(
                "error", f"its worker died, {DEATHS} times" if state == FAILED else ""
            ),
            attempts=_attempt(trial) - (trial.state.name == "WAITING"),
            trial=trial.number,
        )

    def _score(self, trial: Any) -> float | None:
        """Return the metric of a run, None unless finished; GradlabError if it was not measured."""
        if _state(trial) != FINISHED:
            return None
        results: dict[str, float] = trial.user_attrs["results"]
        if self.spec.metric not in results:
            raise GradlabError(
                f"finished runs of the sweep {self.spec.name!r} did not measure "
                f"{self.spec.metric!r} (they measured {', '.join(results)}); give the sweep "
                "another name, or keep its metric"
            )
        return results[self.spec.metric]

    def _id(self, run: Run) -> int:
        study = self._storage.get_study_id_from_name(self.spec.name)
        return int(self._storage.get_trial_id_from_study_id_trial_number(study, run.trial))

    def _set(self, run: Run, state: str = "", values: Any = None, **attributes: Any) -> bool:
        """Change a run's trial, its state last; return False if another worker ended or took it."""
        states, trial_id = self._optuna.trial.TrialState, self._id(run)
        try:
            for name, content in attributes.items():
                self._storage.set_trial_user_attr(trial_id, name, content)
            return not state or bool(
                self._storage.set_trial_state_values(trial_id, states[state], values)
            )
        except self._optuna.exceptions.UpdateFinishedTrialError:
            return False


def require_optuna() -> Any:
    """Return the module optuna, or raise a GradlabError that says how to install it."""
    return require_package("optuna")


def _contents(run: Run) -> dict[str, str | None]:
    """Return hashes of the current training file, development data and code, by trial attribute."""
    eval_data = run.settings.get("eval_data")
    return {
        "data": content_of(run.settings["train_file"]),
        "selected": None if eval_data is None else content_of_development(eval_data),
        "code": " ".join(content_of_code(run.settings).values()),
    }


def _attempt(trial: Any) -> int:
    """Return the number of a trial's attempt at its run, from 1."""
    return int(trial.user_attrs.get("attempt", 1))


def _deaths(trial: Any) -> int:
    """Return the number of workers that have died during a run since it was last retried."""
    attributes = trial.user_attrs
    died = trial.state.name == "FAIL" and not {"error", "released"} & attributes.keys()
    return int(attributes.get("deaths", 0)) + died


def _state(trial: Any) -> str:
    if trial.state.name != "FAIL":
        return {"COMPLETE": FINISHED, "RUNNING": RUNNING}.get(trial.state.name, WAITING)
    if trial.user_attrs.get("diverged"):
        return DIVERGED
    return FAILED if "error" in trial.user_attrs or _deaths(trial) >= DEATHS else WAITING


def _has_scores(attributes: dict[str, Any], point: Point) -> bool:
    """Return whether a finished run was evaluated on all tasks that its point has now."""
    from gradlab.evaluate.suite import task_names

    evaluated = attributes.get("evaluated")
    return not point.evaluate or bool(
        evaluated and set(task_names(point.evaluate)) <= set(task_names(evaluated))
    )


def _open(url: str, heartbeat: int) -> Any:
    """Return Optuna's storage; its tables are created if they do not exist."""
    import optuna
    from sqlalchemy import event
    from sqlalchemy.exc import IntegrityError, SQLAlchemyError

    sqlite = url.startswith("sqlite")
    if sqlite and (url.partition("://")[2] in ("", "/") or ":memory:" in url):
        raise GradlabError("a sweep's SQLite database must be a file, such as sqlite:///study.db")
    options = {"connect_args": {"timeout": 120}} if sqlite else {"pool_pre_ping": True}
    database_errors = SQLAlchemyError, optuna.exceptions.OptunaError
    for attempt in range(5):
        try:
            storage = optuna.storages.RDBStorage(
                url,
                engine_kwargs=options,
                heartbeat_interval=heartbeat,
                grace_period=4 * heartbeat,
            )
            break
        except (
            *database_errors,
            ImportError,
            OSError,
            ValueError,
        ) as error:  # a port is no number, say
            racing = "already exists" in str(error) or isinstance(error, IntegrityError)
            if attempt == 4 or not racing:  # another worker may be creating the same tables
                raise GradlabError(
                    f"the sweep's database cannot be used: {first_line(error)}; give a URL such as "
                    "sqlite:///study.db or postgresql+psycopg://user:password@host/name"
                ) from error
            time.sleep(0.5)
    if sqlite:
        # Transactions begin with the write lock, like Optuna's SELECT FOR UPDATE on a server;
        # otherwise, two workers could both see a waiting trial and claim it. SQLAlchemy documents
        # this way to do so.
        event.listen(
            storage.engine,
            "connect",
            lambda connection, _: setattr(connection, "isolation_level", None),
        )
        event.listen(
            storage.engine,
            "begin",
            lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"),
        )
        storage.engine.dispose()  # close connections opened before
    return storage
