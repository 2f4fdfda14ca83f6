"""`Watch` records a run on a schedule, `LoopWatch` a loop of your own; no error ends the run."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gradlab.errors import check_whole, first_line
from gradlab.files import clear_unfinished, write_json
from gradlab.monitor.batch_measurement import WITHOUT_GRADIENT, Probe, Snapshot
from gradlab.monitor.held_batch import HeldBatch, begin_copy, beside_training
from gradlab.monitor.metrics import BATCH_LOSS, DIAGNOSTICS, TRAIN, Listener, Recorder, of_dataset
from gradlab.monitor.movement import CHANGED, WEIGHTS_LEFT, WEIGHTS_MOVED
from gradlab.monitor.notebook_view import NotebookView
from gradlab.monitor.run_reader import (
    CRASHED,
    ENDED,
    FINISHED,
    MANIFEST,
    RUNNING,
    STOPPED,
    Recording,
)
from gradlab.monitor.summaries import as_cost, as_html, as_line
from gradlab.monitor.verdicts import Judgement, judge_run
from gradlab.monitor.verdicts.failures import FailureWatch, warning_text
from gradlab.monitor.watch_folder import COST, comes_before, manifest_of, notes_of
from gradlab.monitor.weights_watch import WeightsWatch
from gradlab.seeds import random_state_kept
from gradlab.verdict import Verdict

if TYPE_CHECKING:
    from pandas import DataFrame

# Usual number of steps between records, and fewest records of a short run.
USUAL_INTERVAL, FEWEST_RECORDS = 25, 20


class TrainingWarning(UserWarning):
    """Training shows a known failure; the message names it and gives advice."""


class Watch(Recorder):
    """Records what a run's loss does, on a schedule, into a folder that `gradlab report` reads.

    Records are of a detached copy of the embeddings that the loss has just used; the encoder does
    not run for them. Random generators are left unchanged. The folder holds ``metrics.csv`` and
    ``manifest.json``. Use `gradlab.watch` to create a watch.
    """

    def __init__(
        self,
        loss: Any = None,
        *,
        output: str | Path,
        every: int | None = None,
        total_steps: int | None = None,
        encoders: Callable[[], Sequence[nn.Module]] = tuple,
        settings: Mapping[str, Any] | None = None,
        named: bool = True,
        listeners: Iterable[Listener] = (),
        alerts: Iterable[Callable[[Verdict], None]] = (),
        evaluation: Callable[[], Mapping[str, Any]] = dict,
        problems: Callable[[], Sequence[Mapping[str, str]]] = tuple,
    ) -> None:
        """Prepare to watch; nothing is written before the first record.

        Args:
            loss: the trained loss, see `gradlab.watch`; a dictionary of losses by dataset; or None.
            output, every, total_steps: see `gradlab.watch`; an earlier recording is replaced.
            encoders, named: see `Probe`.
            settings: settings of the run, for the report.
            listeners: see `Recorder.begin`.
            alerts: functions that are called with each failure, when training first shows it.
            evaluation: returns what is known of the evaluator: ``primary`` and ``evaluated``, see
                `History`.
            problems: returns what the doctor found wrong before training; see
                `gradlab.monitor.doctor_problems`.

        Raises:
            GradlabError: a bad schedule, or an unknown name of a loss.
        """
        if every is not None:
            check_whole("every", every, 1)
        losses = loss if isinstance(loss, Mapping) else {"": loss}
        self._probes = {
            name: Probe(trained, encoders=encoders, named=named) for name, trained in losses.items()
        }
        used = {name: probe.in_use for name, probe in self._probes.items()}
        super().__init__(output, FailureWatch(total_steps, losses=used))
        self.settings, self._evaluation, self._encoders = dict(settings or {}), evaluation, encoders
        self._weights_watch = WeightsWatch(encoders) if encoders() else None
        self._problems = problems
        self._every, self._listening, self._began = every, list(listeners), time.perf_counter()
        self._alerts = list(alerts)
        self._notebook: NotebookView | None = None
        # Step of each dataset's latest record, and first step of the recording or its continuation.
        self._latest_steps: dict[str, int] = {}
        self._first_step = 0
        self._held: HeldBatch | None = None
        self._status, self._why = RUNNING, ""

    @property
    def every(self) -> int:
        total = self.history.total_steps
        default = (
            USUAL_INTERVAL
            if total is None
            else max(1, min(USUAL_INTERVAL, total // FEWEST_RECORDS))
        )
        return self._every or default

    def wants(self, step: int, dataset: str = "") -> bool:
        """Return whether to record a batch: its dataset's first at or after each scheduled step.

        Datasets that take turns may never have theirs at a scheduled step.
        """
        if self._held is not None:
            self.catch_up(wait=False)
        if self._weights_watch is not None:
            self._weights_watch.conclude()
        last, interval = self._latest_steps.get(dataset, self._first_step - 1), self.every
        return self._status != STOPPED and step // interval > last // interval

    def record(self, step: int, take_snapshot: Callable[[], Snapshot], dataset: str = "") -> None:
        """Measure a batch and write the result; an error ends the recording, not the run.

        On a GPU, the embeddings are copied, and measured during one of the next steps, so that
        training need not wait. A loss without a closed form is measured at once. ``step`` is the
        number of updates before the batch; ``dataset`` names its loss if there are several.
        """
        if self._held is not None:
            self.catch_up()
        self._latest_steps[dataset] = step
        with self._safely(step):
            snapshot, probe = take_snapshot(), self._probes[dataset]
            if len(snapshot.anchors) < 2:
                return
            deferred = probe.method == "closed form" and snapshot.is_on_gpu
            training_numbers, parameters_of_loss = dict[str, float](), list[Tensor]()
            if probe.loss_parameters is not None:
                training_numbers = probe.loss_parameters.numbers(snapshot.value)
                parameters_of_loss = [*probe.loss_parameters.parameters()]
            learned_loss = probe.loss_with_learned_settings()
            snapshot = dataclasses.replace(snapshot, learned_loss=learned_loss)
            if self._weights_watch is None and (
                isinstance(snapshot.value, Tensor) or self._encoders()
            ):  # without encoders, it follows the weights that the loss was computed from
                self._weights_watch = WeightsWatch(self._encoders)
            if self._weights_watch is not None:
                training_numbers |= self._weights_watch.record(
                    snapshot.value,
                    snapshot.sources,
                    parameters_of_loss,
                    lambda after_step: self._write_training_numbers(step, dataset, after_step),
                    with_gradient_numbers=not deferred,
                )
            snapshot, copy_event = begin_copy(snapshot) if deferred else (snapshot, None)
            self._held = HeldBatch(copy_event, step, dataset, snapshot, training_numbers)
        self.catch_up(wait=False)  # at once, unless a GPU still copies the batch

    def _write_training_numbers(
        self, step: int, dataset: str, numbers: Mapping[str, float]
    ) -> None:
        """Write what the optimizer step after a record has done."""
        with self._safely(step):
            self.write(step, {TRAIN: {of_dataset(n, dataset): v for n, v in numbers.items()}})

    def catch_up(self, wait: bool = True) -> None:
        """Measure the batch set aside, if any; without ``wait`` only if its copies are done."""
        held = self._held
        if held is None or not (wait or held.copy_event is None or held.copy_event.query()):
            return
        self._held = None
        step, snapshot = held.step, held.snapshot
        apart = contextlib.nullcontext() if held.copy_event is None else beside_training(held)
        with self._safely(step), apart:
            if not self.begun:
                self._open(0)
            value = snapshot.loss_value
            numbers = ({} if value is None else {BATCH_LOSS: value}) | held.numbers
            numbers |= {WITHOUT_GRADIENT: 1.0} if snapshot.detached else {}
            numbers |= dict(snapshot.label_signs)
            probe = self._probes[held.dataset]
            numbers |= probe.signs(snapshot)
            with self.timed():
                measured = probe.measure(snapshot)
            groups = {TRAIN: numbers, **measured}
            if dataset := held.dataset:
                groups = {
                    TRAIN: {of_dataset(name, dataset): v for name, v in numbers.items()},
                    of_dataset(DIAGNOSTICS, dataset): measured[DIAGNOSTICS],
                }
            cost = {"seconds": self.seconds, "run_seconds": self._elapsed}
            self.write(step, {**groups, COST: cost})
        for failure in self.new_failures():
            caution(warning_text(failure))
            for alert in self._alerts:
                alert(failure)
        self._show_in_notebook()

    def log(self, step: int, group: str, values: Mapping[str, float]) -> None:
        """Write other numbers after ``step`` updates, such as a learning rate.

        ``group`` is train or evaluation.
        """
        self.catch_up()
        if values and self._status != STOPPED:
            with self._safely(step):
                # A trainer that evaluates first has not yet said whether it resumes a run.
                self.write(step, {group: values})

    def start(self, step: int = 0, total_steps: int | None = None) -> None:
        """Begin a recording, or continue the one in the folder at ``step``.

        Without this call, the first record begins a recording. Records from ``step`` on, and
        numbers logged after it, are dropped, because the run repeats them.

        Args:
            step: number of updates so far; 0 is a new run, which replaces the folder's recording.
            total_steps: planned length of the run in steps; None keeps the known one.
        """
        self._held = None
        self._status, self._latest_steps, self._first_step = RUNNING, {}, step
        self._end_steps()
        self._weights_watch = WeightsWatch(self._encoders) if self._encoders() else None
        for probe in self._probes.values():
            probe.begin()
        if total_steps is not None:
            self.history.total_steps = total_steps
        with self._safely(step):
            self._open(step)
            self.seconds = self.history.at(COST, "seconds", step) or 0.0
            self._began = time.perf_counter() - (self.history.at(COST, "run_seconds", step) or 0.0)

    def note_end(self, step: int) -> None:
        """Write how far the weights are from where they began, if a callback has changed that."""
        moved = [v for n in self.history.names(TRAIN) if n.startswith(WEIGHTS_MOVED)
                 for v in list(self.history.points(TRAIN, n).values())[-1:]]  # fmt: skip
        left = None if self._weights_watch is None else self._weights_watch.relative()
        if left is None or not moved or self._status == STOPPED:
            return
        if left < CHANGED * max(moved):
            with self._safely(step):
                self.write(step, {TRAIN: {WEIGHTS_LEFT: left}})

    def finish(self) -> str:
        """End the recording and write the manifest; return its cost and findings in a few lines."""
        self.catch_up()
        self._end_steps()
        if self._status != STOPPED and (self.begun or self.history.groups()):
            if not self.begun:
                self._open(0)
            self._end(FINISHED)
        self._show_in_notebook()
        return self.summary()

    def summary(self) -> str:
        """Return what was recorded, what it cost, and which failures were found."""
        records = len(self.history.points(COST, "seconds"))
        cost = as_cost(records, self.seconds, self._elapsed, self.folder)
        return "\n  ".join([cost, *notes_of(self._probes), *map(warning_text, self.failures)])

    @property
    def _elapsed(self) -> float:
        return time.perf_counter() - self._began

    @property
    def recording(self) -> Recording:
        """What was recorded so far, as `gradlab report` reads it from the folder."""
        manifest = self._manifest(self._status if self.begun else "", self._why)
        history = dataclasses.replace(self.history, **self._evaluation())
        return Recording(self.folder, history, manifest, time.time())

    @property
    def judgement(self) -> Judgement | None:
        """The verdicts on the run so far; None before the first record."""
        if not self.history.groups():
            return None
        with random_state_kept():  # advice tries settings of the loss
            return judge_run(self.recording, silence=0.0)

    def __repr__(self) -> str:
        return as_line(self.recording, self.judgement)

    def _repr_html_(self) -> str:
        return as_html(self.recording, self.judgement)

    def _ipython_display_(self) -> None:
        """Show the watch in a notebook, where each record then updates it."""
        self._notebook = self._notebook or NotebookView()
        self._notebook.show(self._repr_html_())

    def _show_in_notebook(self) -> None:
        if self._notebook is not None:
            self._notebook.update(self._repr_html_)

    def to_frame(self) -> DataFrame:
        """Return the records as a pandas DataFrame indexed by step, one row per record."""
        self.catch_up()
        return self.history.to_frame()

    def _open(self, step: int) -> None:
        """Continue the recording in the folder from ``step``, without repeating its warnings."""
        clear_unfinished(self.folder, MANIFEST)
        self.begin((lambda row: comes_before(row, step)) if step else None, self._listening)
        self.new_failures()
        self._end(RUNNING)
        atexit.register(_at_exit, weakref.ref(self))

    def _end(self, status: str, why: str = "") -> None:
        """Write the manifest with the status of the run."""
        self._status, self._why = status, why
        write_json(self.folder / MANIFEST, self._manifest(status, why))

    def _manifest(self, status: str, why: str) -> dict[str, Any]:
        schedule = {"every": self.every, "total_steps": self.history.total_steps}
        start = {"resumed": self._first_step, "doctor": list(self._problems())}
        facts = dict(self._evaluation()) | start
        results: dict[str, Any] = {"failures": [failure.name for failure in self.failures]}
        results |= {"seconds": self.seconds, "run_seconds": self._elapsed}
        ended = {"status": status, "why": why, "results": results}
        return manifest_of(self._probes, self.settings, schedule, facts) | ended

    def _end_steps(self) -> None:
        """Look at no further step of the weights."""
        if self._weights_watch is not None:
            self._weights_watch.end()

    @contextlib.contextmanager
    def _safely(self, step: int) -> Iterator[None]:
        """Let an error within the block end the recording; training goes on."""
        try:
            yield
        except Exception as error:
            self._status, why = STOPPED, _text_of(error)
            with contextlib.suppress(Exception):  # the folder may be what failed
                self._end(STOPPED, why)
            caution(f"gradlab stopped recording at step {step}; training continues. {why}")

    def _exit(self) -> None:
        """Write the status of a run that did not call `finish`."""
        if self._status != RUNNING or not (self.folder / MANIFEST).exists():
            return
        error = getattr(sys, "last_value", None)
        with contextlib.suppress(Exception):
            self.catch_up()
            self._end(CRASHED if error else ENDED, _text_of(error) if error else "")


class LoopWatch(Watch):
    """Watches a loop of your own, whose steps it counts."""

    _step, _counts = 0, True  # updates so far, and whether each call counts as one
    has_gradient = False  # whether a loss that was looked at had one
    calls_without_gradient = 0  # before any with one

    def start(self, step: int = 0, total_steps: int | None = None) -> None:
        """Begin or continue a recording; see `Watch.start`."""
        if _is_first_process():
            super().start(step, total_steps)
        self._step = step

    def wants(self, step: int, dataset: str = "") -> bool:
        """Return whether to record a batch; see `Watch.wants`. Only the first process records."""
        return _is_first_process() and super().wants(step, dataset)

    @property
    def step(self) -> int:
        """Updates before the next batch: the calls so far, until your loop begins to set it.

        Set it at each step where a step has several batches, as with accumulated gradients.
        """
        return self._step

    @step.setter
    def step(self, step: int) -> None:
        self._step, self._counts = step, False

    def observe(
        self,
        anchors: Tensor,
        positives: Tensor,
        extra_negatives: Tensor | None = None,
        value: Tensor | float | None = None,
    ) -> None:
        """Record a batch if it is due; call this once per step.

        Args:
            anchors: (N, D) embeddings, of any length.
            positives: (N, D), row i is the other view of sentence i.
            extra_negatives: (M, D) or None.
            value: the loss that was computed from them, for comparison.
        """
        self.look(lambda: Snapshot(anchors, positives, extra_negatives, value=value))

    def look(self, take_snapshot: Callable[[], Snapshot], has_gradient: bool = True) -> None:
        """Count a step, and record the batch that ``take_snapshot`` returns if it is due."""
        self.has_gradient |= has_gradient
        step = self._step
        self._step += self._counts
        if self.wants(step):
            self.record(step, take_snapshot)


def caution(message: str) -> None:
    """Warn without a source line, because no line of the user's code is to blame."""
    warnings.warn_explicit(message, TrainingWarning, "gradlab.watch", 1)


def _is_first_process() -> bool:
    distributed = torch.distributed
    running = distributed.is_available() and distributed.is_initialized()
    return not running or distributed.get_rank() == 0


def _text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)}"


def _at_exit(reference: weakref.ref[Watch]) -> None:
    watch = reference()
    if watch is not None:
        watch._exit()
