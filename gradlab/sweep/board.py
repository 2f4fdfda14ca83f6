"""The runs of a sweep as trials of an Optuna study: enqueued once, claimed once, requeued if a worker dies."""

from __future__ import annotations

import os
import socket
import threading
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from gradlab.errors import GradlabError, missing
from gradlab.sweep.mutex import exclusive
from gradlab.sweep.settings import FlatSettings, content_of
from gradlab.sweep.spec import Point, Spec

# A run whose workers died this often is not tried again by itself: it may be what kills them.
DEATHS = 3
WAITING, RUNNING, FINISHED, FAILED, DIVERGED = "waiting", "running", "finished", "failed", "diverged"

# What a run that is not retried may end as.
ENDED = (FINISHED, FAILED, DIVERGED)


@dataclass(frozen=True)
class Run:
    """What is known of one run: a point with one of its seeds.

    Attributes:
        key: see :func:`gradlab.sweep.settings.identify`.
        point, seed: what it runs.
        state: waiting, running, finished, failed, or diverged: no longer finite, as it would be if it were run again.
        value: the metric; None before it is finished.
        results: everything measured.
        worker: who has it, or had it last ("host:process").
        error: why it failed or diverged.
        attempts: how often it was begun.
        data: SHA-256 of the training file that it was last begun with; empty if that is not known.
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
    data: str = ""

    @property
    def settings(self) -> FlatSettings:
        """All settings but the output, flat."""
        return {**self.point.settings, "seed": self.seed}


@dataclass(frozen=True)
class Assignment:
    """A run that this worker has, the trial that says so, and whether what is left of the run is to be ignored."""

    run: Run
    trial_id: int
    anew: bool


def require_optuna() -> Any:
    """The module, or a GradlabError that says how it is installed."""
    try:
        import optuna
    except ImportError as error:
        raise missing("Optuna", "sweep") from error
    return optuna


class NotBegun(GradlabError):
    """There is no such sweep in the database yet."""


class Board:
    """The state of a sweep in its database. Everything that hands out runs happens under one lock."""

    def __init__(self, spec: Spec, url: str, heartbeat: int = 30, *, create: bool = True) -> None:
        """Open the study, or make it.

        Args:
            spec: the sweep.
            url: SQLAlchemy's; the study of the spec's name is in it.
            heartbeat: seconds between a worker's signs of life; after four times as long without one it is dead.
            create: make database and study where there is none.

        Raises:
            NotBegun: if the database has no such study.
            GradlabError: if it cannot be reached, or Optuna is not installed.
        """
        self.spec, self.heartbeat = spec, heartbeat
        self._url = url
        optuna = require_optuna()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna = optuna
        with self._lock():  # two workers would make the tables at the same moment
            self._storage = _open(url, heartbeat)
            try:
                if create:
                    self._study = optuna.create_study(
                        storage=self._storage,
                        study_name=spec.name,
                        direction=spec.direction,  # type: ignore[arg-type]  # one of the two, checked before
                        load_if_exists=True,
                    )
                else:
                    self._study = optuna.load_study(storage=self._storage, study_name=spec.name)
            except KeyError as error:
                raise NotBegun(f"the sweep {spec.name!r} has not been begun in this database") from error
        self._study_id = self._storage.get_study_id_from_name(spec.name)

    def runs(self) -> list[Run]:
        """Every run known by now, in the order of the sweep; equal ones once."""
        return list(self._survey()[0].values())

    def prepare(self, retry_failed: bool = False) -> None:
        """Enqueue what is to be done and nowhere yet, exactly once however many workers do this together.

        Args:
            retry_failed: also what has failed.
        """
        with self._lock():
            self._refresh((FAILED,) if retry_failed else ())

    def claim(self) -> Assignment | None:
        """Take the first waiting run, of all points with a seed before the next seed; None if there is none."""
        with self._lock():
            self._refresh()
            runs, waiting = self._survey()
            seeds = list(dict.fromkeys([*self.spec.seeds, *(run.seed for run in runs.values())]))
            for run in sorted(runs.values(), key=lambda run: (run.point.stage, seeds.index(run.seed))):
                tried = waiting.get(run.key)
                if tried is None:
                    continue
                trial = tried[-1]
                trial_id = self._storage.get_trial_id_from_study_id_trial_number(self._study_id, trial.number)
                # The sign of life first: a worker that dies between the two leaves a trial that waits, not one that
                # runs for ever.
                self._storage.record_heartbeat(trial_id)
                self._storage.set_trial_user_attr(trial_id, "worker", f"{socket.gethostname()}:{os.getpid()}")
                data = content_of(run.settings["train_file"])
                self._storage.set_trial_user_attr(trial_id, "data", data or "")
                self._storage.set_trial_state_values(trial_id, self._states.RUNNING)
                return Assignment(run, trial_id, _begins_anew(tried))
        return None

    def emptied(self, claim: Assignment) -> None:
        """Record that nothing is left of what a run that begins anew had before; from now on it is continued."""
        self._storage.set_trial_user_attr(claim.trial_id, "emptied", True)

    def finish(self, claim: Assignment, value: float, results: dict[str, Any]) -> bool:
        """Record a run's result; False if it is no longer this worker's."""
        about = {"results": {self.spec.metric: value, **results}, "evaluated": claim.run.point.evaluate}
        return self._end(claim, self._states.COMPLETE, [value], **about)

    def fail(self, claim: Assignment, error: str, diverged: bool = False) -> bool:
        """Record that a run failed, and why; False if it is no longer this worker's."""
        return self._end(claim, self._states.FAIL, error=error, diverged=diverged)

    def release(self, claim: Assignment) -> bool:
        """Give a run back, to be continued by anyone; False if it is no longer this worker's."""
        return self._end(claim, self._states.FAIL, released=True)

    @contextmanager
    def alive(self, claim: Assignment) -> Iterator[Callable[[], bool]]:
        """Give signs of life during the block; yields a function that says whether the run is still this worker's."""
        stop, lost = threading.Event(), threading.Event()

        def beat() -> None:
            while not stop.wait(self.heartbeat):
                try:
                    self._storage.record_heartbeat(claim.trial_id)
                    if self._storage.get_trial(claim.trial_id).state != self._states.RUNNING:
                        lost.set()
                except Exception as error:  # a database that is away for a while must not end the run
                    warnings.warn(f"no sign of life could be given: {error}", RuntimeWarning, stacklevel=1)

        thread = threading.Thread(target=beat, daemon=True, name="heartbeat")
        thread.start()
        try:
            yield lambda: not lost.is_set()
        finally:
            stop.set()
            thread.join()

    @property
    def _states(self) -> Any:
        return self._optuna.trial.TrialState

    def _lock(self) -> Any:
        return exclusive(self._url, self.spec.name)

    def _end(self, claim: Assignment, state: Any, values: Any = None, **attributes: Any) -> bool:
        with self._lock():
            if self._storage.get_trial(claim.trial_id).state != self._states.RUNNING:
                return False
            for name, content in attributes.items():
                self._storage.set_trial_user_attr(claim.trial_id, name, content)
            self._storage.set_trial_state_values(claim.trial_id, state, values)
            return True

    def _refresh(self, again: Collection[str] = ()) -> None:
        """Under the lock: give up on the dead, and enqueue what has no trial that waits, runs or is finished.

        What is in one of the states ``again`` begins anew.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self._optuna.exceptions.ExperimentalWarning)
            self._optuna.storages.fail_stale_trials(self._study)
        runs, waiting = self._survey()
        for run in runs.values():
            anew = run.state in again
            if anew or (run.state == WAITING and run.key not in waiting):
                about = {"key": run.key, "settings": run.settings, "anew": anew}
                self._study.add_trial(
                    self._optuna.trial.create_trial(state=self._states.WAITING, user_attrs=about)
                )

    def _survey(self) -> tuple[dict[str, Run], dict[str, list[Any]]]:
        """Runs by key, and of those that have a waiting trial all of theirs, that one last."""
        trials: dict[str, list[Any]] = {}
        for trial in self._study.get_trials(deepcopy=False):
            trials.setdefault(trial.user_attrs["key"], []).append(trial)
        scores: dict[str, float | None] = {}
        for key, tried in trials.items():
            state = self._state(tried)
            if state in ENDED and self.spec.stages:
                scores[key] = self._score(tried[-1]) if state == FINISHED else None
        runs: dict[str, Run] = {}
        for point in self.spec.points(scores):
            for seed, key in point.runs.items():
                first = runs[key].point if key in runs else point
                if key not in runs or not set(point.evaluate) <= set(first.evaluate):
                    # A run that points share is evaluated on what any of them asks for.
                    tasks = tuple(dict.fromkeys((*first.evaluate, *point.evaluate)))
                    runs[key] = self._run(key, replace(first, evaluate=tasks), seed, trials.get(key, []))
        waiting = {key: tried for key, tried in trials.items() if tried[-1].state == self._states.WAITING}
        return runs, waiting

    def _score(self, trial: Any) -> float:
        """The metric of a finished run: the spec's, which may have changed since the run."""
        results: dict[str, float] = trial.user_attrs["results"]
        if self.spec.metric not in results:
            raise GradlabError(
                f"finished runs of the sweep {self.spec.name!r} did not measure {self.spec.metric!r} (they measured "
                f"{', '.join(results)}); give the sweep another name, or keep its metric"
            )
        return results[self.spec.metric]

    def _state(self, tried: list[Any]) -> str:
        """Of a run, from its trials, the last of which counts."""
        last = tried[-1]
        if last.state == self._states.COMPLETE:
            return FINISHED
        if last.state == self._states.RUNNING:
            return RUNNING
        if last.state == self._states.WAITING:
            return WAITING
        if last.user_attrs.get("diverged"):
            return DIVERGED
        return FAILED if "error" in last.user_attrs or self._deaths(tried) >= DEATHS else WAITING

    def _deaths(self, tried: list[Any]) -> int:
        """Workers that died over a run since it last began anew."""
        count = 0
        for trial in reversed(tried):
            ended = trial.state == self._states.FAIL
            count += ended and "error" not in trial.user_attrs and "released" not in trial.user_attrs
            if trial.user_attrs.get("anew"):
                break
        return count

    def _run(self, key: str, point: Point, seed: int, tried: list[Any]) -> Run:
        if not tried:
            return Run(key, point, seed)
        state, last = self._state(tried), tried[-1]
        if state == FINISHED and not _has_scores(last, point):
            state = WAITING
        died = f"its worker died, {DEATHS} times"
        error = last.user_attrs.get("error", died) if state in (FAILED, DIVERGED) else ""
        begun = [trial for trial in tried if trial.state != self._states.WAITING]
        return Run(
            key,
            point,
            seed,
            state,
            self._score(last) if state == FINISHED else None,
            last.user_attrs.get("results"),
            begun[-1].user_attrs.get("worker", "") if begun else "",
            error,
            len(begun),
            begun[-1].user_attrs.get("data", "") if begun else "",
        )


def _has_scores(trial: Any, point: Point) -> bool:
    """Whether a finished run was evaluated on all that is asked for now, which may be more than then."""
    if not point.evaluate:
        return True
    from gradlab.evaluate.suite import task_names

    done = trial.user_attrs.get("evaluated")
    known = trial.user_attrs["results"] if done is None else task_names(done) if done else ()
    return set(task_names(point.evaluate)) <= set(known)


def _begins_anew(tried: list[Any]) -> bool:
    """Whether a run, from its trials, was asked to begin anew and no worker has come to that yet."""
    for trial in reversed(tried):
        if "emptied" in trial.user_attrs:
            return False
        if trial.user_attrs.get("anew"):
            return True
    return False


def _open(url: str, heartbeat: int) -> Any:
    """Optuna's storage."""
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    options = {"connect_args": {"timeout": 120}} if url.startswith("sqlite") else {"pool_pre_ping": True}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return optuna.storages.RDBStorage(
                url, engine_kwargs=options, heartbeat_interval=heartbeat, grace_period=4 * heartbeat
            )
    except (SQLAlchemyError, ImportError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise GradlabError(f"the sweep's database cannot be used: {reason}") from error
