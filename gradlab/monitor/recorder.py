"""The one recorder of training, watching and studies: what was measured goes through it, into a file, and is judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gradlab.monitor.advice import LossInUse
from gradlab.monitor.failures import Failure, Judge
from gradlab.monitor.history import DIAGNOSTICS, HISTOGRAM, History, mean_of
from gradlab.monitor.metrics import METRICS, Row, Tracker, append_metrics, read_metrics, write_metrics
from gradlab.monitor.probe import Probe, Statistics
from gradlab.monitor.snapshot import Snapshot
from gradlab.seeds import undisturbed

# Sentences of a batch on whose matrices threads cost more than they save: many times more where others want the cores.
SMALL = 256


class Recorder:
    """Keeps what a run measures, writes it down as it goes, and tells known failures from it.

    Attributes:
        folder: where ``metrics.csv`` (step, group, name, value) is written.
        history: everything recorded so far.
        seconds: time spent on measuring.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        total_steps: int | None = None,
        config: Mapping[str, Any] | None = None,
        losses: Mapping[str, LossInUse] | None = None,
    ) -> None:
        """Prepare to record; nothing is written before :meth:`begin`. For the arguments see `gradlab.monitor.failures.Judge`."""
        self.folder = Path(folder)
        self.history = History(total_steps)
        self.seconds = 0.0
        self._judge, self._told = Judge(total_steps, config, losses), 0
        self._listening: list[Tracker] | None = None  # None before there is a file

    @property
    def failures(self) -> list[Failure]:
        """The known failures that training has shown so far."""
        return self._judge.failures

    def begin(self, keep: Callable[[Row], bool] | None = None, trackers: Iterable[Tracker] = ()) -> None:
        """Open the file, with what was written here before this.

        ``keep`` says which rows of an earlier recording in the folder to go on from; None replaces it. Trackers receive
        everything too, except histograms.

        Raises:
            GradlabError, OSError: if the folder or the file cannot be written.
        """
        path = self.folder / METRICS
        early = [] if self.begun else self.history.rows()
        kept = [row for row in read_metrics(path) if keep(row)] if keep and path.exists() else []
        rows = list({row[:3]: row for row in [*early, *kept]}.values())
        write_metrics(path, rows)
        self._listening = list(trackers)
        self.history = History.of(rows, self.history.total_steps)
        self._judge, self._told = self._judge.anew(self.history), 0

    @property
    def begun(self) -> bool:
        """Whether there is a file."""
        return self._listening is not None

    def write(self, step: int, group: str, values: Mapping[str, float]) -> None:
        """Write down numbers of one moment; before :meth:`begin` they are kept for it.

        Raises:
            GradlabError: if the file cannot be written.
        """
        if self._listening is not None:
            append_metrics(self.folder / METRICS, step, group, values)
            if group != HISTOGRAM and self._listening:
                known = {f"{group}/{name}": float(value) for name, value in values.items() if value == value}
                for tracker in self._listening:
                    tracker.log(known, step=step)
        self.history.add(step, group, values)
        self._judge.see(step, group, values)

    def measure(
        self,
        step: int,
        probe: Probe,
        snapshots: Iterable[Snapshot],
        group: str = DIAGNOSTICS,
        further: Sequence[Statistics] = (),
    ) -> None:
        """Measure snapshots and write down the average; histograms too where ``group`` is that of the run's loss.

        Random generators are left as they were. The time counts among :attr:`seconds`, that of making the snapshots too.
        For ``further`` see `Probe.measure`.
        """
        began = time.perf_counter()
        found = []
        for snapshot in snapshots:
            with undisturbed(), torch.autocast(snapshot.anchors.device.type, enabled=False):
                if len(snapshot.anchors) <= SMALL:
                    torch.set_num_threads(1)
                lost = snapshot.not_finite()
                found.append(
                    {DIAGNOSTICS: {"not_finite": lost}} if lost else probe.measure(snapshot, further)
                )
        if found:
            with undisturbed():  # advice tries settings of the loss
                self.write(step, group, mean_of([one[DIAGNOSTICS] for one in found]))
            if group == DIAGNOSTICS:
                self.write(step, HISTOGRAM, mean_of([one.get(HISTOGRAM, {}) for one in found]))
        self.seconds += time.perf_counter() - began

    def judge(self) -> list[Failure]:
        """The known failures that can be told since this was last asked."""
        new = self.failures[self._told :]
        self._told = len(self.failures)
        return new

    def close(self) -> None:
        """Let the trackers write out what they hold."""
        for tracker in self._listening or ():
            tracker.finish()
