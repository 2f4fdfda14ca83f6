"""Watching a training run: what its loss does to the embeddings, recorded without touching it."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gradlab.errors import GradlabError
from gradlab.files import versions, write_json
from gradlab.monitor.finding import DIAGNOSTICS, Finding
from gradlab.monitor.findings import findings
from gradlab.monitor.history import HISTOGRAM, History
from gradlab.monitor.measurement import Batch, Measurement, Probe
from gradlab.monitor.metrics import Metrics
from gradlab.train.random_state import undisturbed

if TYPE_CHECKING:
    from pandas import DataFrame

# Steps between records, and how many records a short run gets at least.
EVERY, FEWEST_RECORDS = 25, 20
PACKAGES = ("torch", "transformers", "sentence-transformers", "accelerate", "numpy")
SMALL = 256  # sentences
LOSS, COST = ("train", "batch_loss"), "watch"


class TrainingWarning(UserWarning):
    """Training shows a known failure; the message says which, and what to do about it."""


class Watcher:
    """Records what a run's loss does, on a schedule, into a folder that `gradlab report` reads.

    A record costs no pass through the encoder; it is computed from detached copies of the embeddings that the loss was
    just computed from, and random generators are left as they were. `gradlab.watch` makes one.

    Attributes:
        folder: where ``metrics.csv`` (step, group, name, value) and ``manifest.json`` are written.
        history: everything recorded so far.
        findings: the known failures that training has shown so far.
        seconds: time spent on watching.
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
        to_trackers: Callable[[dict[str, float]], None] | None = None,
    ) -> None:
        """Prepare to watch; nothing is written before the first record.

        Args:
            loss: what is trained: a gradlab loss or its name, a loss of sentence-transformers or
                pytorch-metric-learning, any ``loss(anchors, positives)``; a dictionary of them by dataset; or None.
            output: the folder to write to; an earlier recording there is replaced.
            every: steps between records; None is 25, or a twentieth of a run that is shorter than 500 steps.
            total_steps: planned length of the run, if known.
            encoders: gives the modules that the loss holds but that are not part of it.
            settings: of the run, for the report.
            named: whether the user named the loss, see `Probe`.
            to_trackers: where to send numbers beside the files.

        Raises:
            GradlabError: a bad schedule, or an unknown name of a loss.
        """
        if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
            raise GradlabError(f"every must be a whole number of at least 1, or None, not {every!r}")
        losses = loss if isinstance(loss, Mapping) else {"": loss}
        self._probes = {name: Probe(one, encoders=encoders, named=named) for name, one in losses.items()}
        self.folder = Path(output)
        self.settings = dict(settings or {})
        self.history = History(total_steps)
        self.findings: list[Finding] = []
        self.seconds = 0.0
        self._every = every
        self._to_trackers = to_trackers
        self._metrics: Metrics | None = None
        self._early: list[tuple[int, str, str, float]] = []
        self._began = time.perf_counter()
        self._step = 0
        self._last: dict[str, int] = {}
        self._failed = False

    # The schedule

    @property
    def every(self) -> int:
        """Steps between records."""
        total = self.history.total_steps
        return self._every or (EVERY if total is None else max(1, min(EVERY, total // FEWEST_RECORDS)))

    def wants(self, step: int, dataset: str = "") -> bool:
        """Whether a batch of this step is to be recorded: the first one of each scheduled step."""
        return not self._failed and step % self.every == 0 and self._last.get(dataset) != step

    # Recording

    def observe(
        self,
        anchors: Tensor,
        positives: Tensor,
        extra_negatives: Tensor | None = None,
        value: Tensor | float | None = None,
    ) -> None:
        """Take a look at a batch of a loop of your own; call it once a step.

        Args:
            anchors: (N, D) embeddings, of any length.
            positives: (N, D), row i the other view of sentence i.
            extra_negatives: (M, D) or None.
            value: the loss that was computed from them, to compare with.
        """
        number = value.detach() if isinstance(value, Tensor) else value

        def find() -> Batch:
            whole = None if number is None else float(number)
            return Batch(anchors, positives, extra_negatives, value=whole)

        self.look(find)

    def look(self, find: Callable[[], Batch]) -> None:
        """A step of a loop of your own: record the batch that ``find`` gives if this step is to be recorded."""
        step, self._step = self._step, self._step + 1
        if self.wants(step):
            self.record(step, find)

    def record(self, step: int, find: Callable[[], Batch], dataset: str = "") -> None:
        """Measure a batch now and write it down; an error in doing so ends the watching, not the run.

        Args:
            step: how many updates were made before it.
            find: gives its embeddings.
            dataset: its dataset, where there are several losses.
        """
        began = time.perf_counter()
        self._last[dataset] = step
        try:
            batch = find()
            if len(batch.anchors) > 1:
                with _aside(batch):
                    measured = self._probes[dataset].measure(batch)
                self._write(step, measured, batch.value, dataset)
        except Exception as error:
            self._fail(error)
        self.seconds += time.perf_counter() - began
        self._warn()

    def log(self, step: int, group: str, values: Mapping[str, float]) -> None:
        """Write down further numbers of the run, such as its learning rate.

        Args:
            step: how many updates were made.
            group: ``train`` or ``evaluation``.
            values: by name.
        """
        if not values or self._failed:
            return
        try:
            if self._metrics is not None:
                self._metrics.record(step, group, values)
            else:  # a trainer that evaluates before it trains has yet to say whether it resumes a run
                self._early += [(step, group, name, float(value)) for name, value in values.items()]
            self.history.add(step, group, values)
        except GradlabError as error:
            self._fail(error)

    def start(self, step: int = 0, total_steps: int | None = None) -> None:
        """Begin a recording, or continue the one in the folder at ``step``.

        Without this the first record begins one. What was measured at ``step`` or later is measured again and
        dropped; so is what was logged after it.

        Args:
            step: how many updates were made; 0 is a new run, which replaces the recording of any other.
            total_steps: planned length of the run; None keeps what was said before.
        """
        self._failed, self._last, self._step = False, {}, step
        if total_steps is not None:
            self.history.total_steps = total_steps
        try:
            self._begin(step)
            self.seconds, elapsed = (
                (self.history.series(COST, name)[1] or [0.0])[-1] for name in ("seconds", "run_seconds")
            )
            self._began = time.perf_counter() - elapsed
        except Exception as error:
            self._fail(error)

    def finish(self) -> str:
        """End the recording: what it cost and found, in a few lines; also written to the manifest."""
        if not self._failed and (self._metrics is not None or self._early):
            if self._metrics is None:
                self._begin(0)
            self._write_manifest("finished")
        return self.summary()

    def summary(self) -> str:
        """What was watched, what it cost, and what was found."""
        elapsed = max(time.perf_counter() - self._began, 1e-9)
        records = len(self._record_steps())
        lines = [
            f"gradlab: {records} records in {self.seconds:.2g} s, {100 * self.seconds / elapsed:.1f}% of the run; "
            f"see them with: gradlab report {self.folder}"
        ]
        lines += [f"  {probe.note}" for probe in self._probes.values() if probe.note]
        lines += [f"  {finding.headline} {finding.advice}" for finding in self.findings]
        return "\n".join(lines)

    def to_frame(self) -> DataFrame:
        """What was measured, one row a record, as a pandas DataFrame indexed by step."""
        import pandas as pd

        columns = {}
        for group in self.history.groups():
            for name in self.history.names(group):
                steps, values = self.history.series(group, name)
                columns[name if group == DIAGNOSTICS else f"{group}/{name}"] = pd.Series(values, index=steps)
        return pd.DataFrame(columns).rename_axis("step")

    def _record_steps(self) -> list[int]:
        return self.history.series(COST, "seconds")[0]

    def _write(self, step: int, measured: Measurement, value: float | None, dataset: str) -> None:
        began = time.perf_counter()
        metrics = self._metrics or self._begin(0)
        group = f"{DIAGNOSTICS} {dataset}" if dataset else DIAGNOSTICS
        for kind, values in (
            (group, measured.values),
            (LOSS[0], {} if value is None else {LOSS[1]: value}),
        ):
            metrics.record(step, kind, values)
            self.history.add(step, kind, values)
        if not dataset:
            metrics.record(step, HISTOGRAM, self.history.add_histograms(step, measured.distributions))
        cost = {"seconds": self.seconds, "run_seconds": began - self._began}
        metrics.record(step, COST, cost)
        self.history.add(step, COST, cost)
        if self._to_trackers is not None:
            prefix = f"gradlab/{dataset}/" if dataset else "gradlab/"
            self._to_trackers({f"{prefix}{name}": number for name, number in measured.values.items()})

    def _begin(self, step: int) -> Metrics:
        """Open the metrics file with what it is to keep, which is the history so far."""
        self.folder.mkdir(parents=True, exist_ok=True)
        metrics = Metrics(self.folder / "metrics.csv")
        kept = [row for row in metrics.rows() if _before(row, step)] if step else []
        known = {row[:3] for row in kept}
        kept += [row for row in self._early if row[:3] not in known]
        metrics.rewrite(kept)
        self._metrics, self._early = metrics, []
        self.history = History.of(kept, self.history.total_steps)
        self.findings = findings(self.history)
        self._write_manifest("running")
        return metrics

    def _write_manifest(self, status: str) -> None:
        content = {
            "kind": "watched run",
            "config": {"loss": self._loss_text(), **self.settings},
            "watch": {
                "every": self.every,
                "total_steps": self.history.total_steps,
                "components": {name or "loss": probe.method for name, probe in self._probes.items()},
                "notes": [probe.note for probe in self._probes.values() if probe.note],
            },
            "versions": versions(*PACKAGES),
            "status": status,
            "results": {
                "findings": [finding.name for finding in self.findings],
                "seconds": self.seconds,
                "run_seconds": time.perf_counter() - self._began,
            },
        }
        write_json(self.folder / "manifest.json", content)

    def _loss_text(self) -> str | dict[str, str]:
        texts = {name: probe.describe() for name, probe in self._probes.items()}
        return texts.get("", texts)

    def _warn(self) -> None:
        """Say in words what has gone wrong, once each."""
        known = {finding.name for finding in self.findings}
        for finding in findings(self.history):
            if finding.name not in known:
                self.findings.append(finding)
                _caution(f"Step {finding.step}: {finding.headline} {finding.advice}")

    def _fail(self, error: Exception) -> None:
        """Stop watching; training goes on."""
        self._failed = True
        _caution(f"gradlab stopped watching this run, which goes on: {type(error).__name__}: {error}")


def _before(row: tuple[int, str, str, float], step: int) -> bool:
    """Whether a row was recorded before a run went on from ``step``.

    The watcher measures the first batch after ``step`` updates; what a trainer logs at ``step`` is of the updates before.
    """
    at, group, name, _ = row
    measured = group.startswith(DIAGNOSTICS) or group in (HISTOGRAM, COST) or (group, name) == LOSS
    return at < step if measured else at <= step


def _caution(message: str) -> None:
    """Warn, without a line of code: none is to blame."""
    warnings.warn_explicit(message, TrainingWarning, "gradlab.watch", 1)


@contextlib.contextmanager
def _aside(batch: Batch) -> Iterator[None]:
    """Random generators left alone, no autocast, and for a small batch one thread.

    On matrices so small threads cost more than they save: many times more where other processes want the cores.
    """
    threads = torch.get_num_threads()
    with undisturbed(), torch.autocast(batch.anchors.device.type, enabled=False):
        if len(batch.anchors) <= SMALL:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def say(message: str) -> None:
    """Print on standard error, where progress bars are."""
    print(message, file=sys.stderr)
