"""The one recorder of training, watching and studies: what was measured goes through it, into a file, and is judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gradlab.errors import GradlabError
from gradlab.monitor.advice import LossInUse
from gradlab.monitor.history import (
    DIAGNOSTICS,
    HISTOGRAM,
    METRICS,
    History,
    Row,
    append_metrics,
    mean_of,
    read_metrics,
    write_metrics,
)
from gradlab.monitor.judge import Failure, Judge
from gradlab.monitor.probe import Probe, Snapshot, Statistics
from gradlab.seeds import undisturbed

# Sentences of a batch on whose matrices threads cost more than they save: many times more where others want the cores.
SMALL = 256


# Told what is written, as ``group/name`` and value, and the step; not of histograms.
Listener = Callable[[dict[str, float], int], None]


class Recorder:
    """Keeps what a run measures, writes it down as it goes, and tells known failures from it."""

    def __init__(
        self,
        folder: str | Path,
        *,
        total_steps: int | None = None,
        config: Mapping[str, Any] | None = None,
        losses: Mapping[str, LossInUse] | None = None,
    ) -> None:
        """Prepare to record; nothing is written before :meth:`begin`. For the arguments see `gradlab.monitor.judge.Judge`."""
        self.folder = Path(folder)  # where metrics.csv (step, group, name, value) is written
        self.history = History(total_steps)  # everything recorded so far
        self.seconds = 0.0  # spent on measuring
        self.begun = False  # whether there is a file
        self._judge, self._told = Judge(total_steps, config, losses), 0
        self._listeners: list[Listener] = []

    @property
    def failures(self) -> list[Failure]:
        """The known failures that training has shown so far."""
        return self._judge.failures

    def begin(self, keep: Callable[[Row], bool] | None = None, listeners: Iterable[Listener] = ()) -> None:
        """Open the file, with what was written here before this.

        ``keep`` says which rows of an earlier recording in the folder to go on from; None replaces it.

        Raises:
            GradlabError, OSError: if the folder or the file cannot be written.
        """
        path = self.folder / METRICS
        early = [] if self.begun else self.history.rows()
        kept = [row for row in read_metrics(path) if keep(row)] if keep and path.exists() else []
        rows = list({row[:3]: row for row in [*early, *kept]}.values())
        write_metrics(path, rows)
        self.begun, self._listeners = True, list(listeners)
        self.history = History.of(rows, self.history.total_steps)
        self._judge, self._told = self._judge.anew(self.history), 0

    def write(self, step: int, group: str, values: Mapping[str, float]) -> None:
        """Write down numbers of one moment; before :meth:`begin` they are kept for it.

        Raises:
            GradlabError: if the file cannot be written.
        """
        if self.begun:
            append_metrics(self.folder / METRICS, step, group, values)
        for told in self._listeners if group != HISTOGRAM else ():
            told({f"{group}/{name}": float(value) for name, value in values.items() if value == value}, step)
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


def start_trackers(names: Iterable[str], folder: Path, config: Mapping[str, Any], step: int) -> list[Any]:
    """accelerate's trackers of these names, logging into ``folder`` from ``step`` on; tell them to ``finish`` at the end.

    Raises:
        GradlabError: if one is not installed or cannot start.
    """
    names = list(names)
    if not names:
        return []
    from accelerate import PartialState, tracking

    PartialState()  # accelerate's trackers ask it which process is the main one
    available = {getattr(kind, "value", kind) for kind in tracking.get_available_trackers()}
    plain = {
        key: value if isinstance(value, int | float | str) else str(value) for key, value in config.items()
    }
    trackers = []
    for name in names:
        if name not in available:
            raise GradlabError(f"the tracker {name!r} is not installed; pip install {name}")
        # TensorBoard hides what a run that died recorded after the step it is resumed from.
        options: dict[str, Any] = {"dir": str(folder)}
        if name == "tensorboard":
            options = {"logging_dir": str(folder), "purge_step": step}
        try:
            tracker = tracking.LOGGER_TYPE_TO_CLASS[name]("gradlab", **options)
            tracker.start()
            tracker.store_init_configuration(plain)
        except Exception as error:  # whatever a service raises that is down or wants a key
            why = " ".join(str(error).split())[:200]
            raise GradlabError(f"the tracker {name!r} cannot start: {why}") from error
        trackers.append(tracker)
    return trackers
