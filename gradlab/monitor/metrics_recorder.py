"""`Recorder` writes measurements to a metrics file, and names known failures as they come in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gradlab.files import clear_unfinished
from gradlab.monitor.history import (
    DIAGNOSTICS,
    HISTOGRAM,
    METRICS,
    History,
    Measurement,
    Row,
    append_metrics,
    mean_of,
    read_metrics,
    write_metrics,
)
from gradlab.monitor.probe import Probe, Snapshot, Statistics
from gradlab.monitor.setting_advice import LossInUse
from gradlab.monitor.verdicts.failures import FailureWatch
from gradlab.seeds import undisturbed
from gradlab.verdict import Verdict

# Up to this batch size one thread is faster, all the more if other processes need the cores.
SMALL = 256


# Called with {``group/name``: value} and the step of everything that is written, except histograms.
Listener = Callable[[dict[str, float], int], None]


class Recorder:
    """Keeps what a run measures, writes it to a file at once, and recognises known failures."""

    def __init__(
        self,
        folder: str | Path,
        *,
        total_steps: int | None = None,
        config: Mapping[str, Any] | None = None,
        losses: Mapping[str, LossInUse] | None = None,
    ) -> None:
        """Prepare to record; `begin` creates the file.

        For the arguments, see `gradlab.monitor.verdicts.failures.FailureWatch`.
        """
        self.folder = Path(folder)  # where metrics.csv (step, group, name, value) is written
        self.seconds = 0.0  # spent on measuring and writing
        self.begun = False  # whether the file exists
        self._failures, self._reported = FailureWatch(total_steps, config, losses), 0
        self.history = self._failures.history  # everything that was recorded so far
        self._listeners: list[Listener] = []

    @property
    def failures(self) -> list[Verdict]:
        """Known failures that training has shown so far."""
        return self._failures.failures

    def begin(
        self, keep: Callable[[Row], bool] | None = None, listeners: Iterable[Listener] = ()
    ) -> None:
        """Create the file, and write the numbers that came before the first call.

        ``keep`` selects rows to continue from in the folder's earlier recording; None discards it.

        Raises:
            GradlabError, OSError: if the folder or the file cannot be written.
        """
        path = self.folder / METRICS
        clear_unfinished(self.folder, METRICS)
        early = [] if self.begun else self.history.rows()
        earlier = [row for row in read_metrics(path) if keep(row)] if keep and path.exists() else []
        rows = list({row[:3]: row for row in [*early, *earlier]}.values())
        write_metrics(path, rows)
        self.begun, self._listeners = True, list(listeners)
        self._failures = self._failures.restart(History.of(rows, self.history.total_steps))
        self.history = self._failures.history
        self._reported = 0

    def write(self, step: int, groups: Mapping[str, Mapping[str, float]]) -> None:
        """Write the numbers of one step, by group; before :meth:`begin` they are kept for the file.

        Random generators are left unchanged.

        Raises:
            GradlabError: if the file cannot be written.
        """
        began = time.perf_counter()
        if self.begun:
            append_metrics(self.folder / METRICS, step, groups)
        self.history.add_groups(step, groups)
        for group, values in groups.items() if self._listeners else ():
            named = {f"{group}/{name}": float(v) for name, v in values.items() if v == v}
            for listener in self._listeners if group != HISTOGRAM else ():
                with undisturbed():
                    listener(named, step)
        self._failures.judge(step, groups)
        self.seconds += time.perf_counter() - began

    def measure(
        self, probe: Probe, snapshots: Iterable[Snapshot], further: Sequence[Statistics] = ()
    ) -> Measurement:
        """Return the mean diagnostics and histograms of snapshots; nothing if there are none.

        Random generators are left unchanged. :attr:`seconds` includes the time to make the
        snapshots. For ``further`` see `Probe.measure`.
        """
        began = time.perf_counter()
        measurements: list[Measurement] = []
        for snapshot in snapshots:
            with undisturbed(), torch.autocast(snapshot.anchors.device.type, enabled=False):
                if len(snapshot.anchors) <= SMALL:
                    torch.set_num_threads(1)
                if lost := snapshot.not_finite():
                    measurements.append({DIAGNOSTICS: {"not_finite": lost}})
                else:
                    measurements.append(probe.measure(snapshot, further))
        measured = measurements[0] if len(measurements) == 1 else mean_of(measurements)
        self.seconds += time.perf_counter() - began
        return measured

    def new_failures(self) -> list[Verdict]:
        """Return the failures that were named since the last call."""
        failures, reported = self.failures, self._reported
        self._reported = len(failures)
        return failures[reported:]
