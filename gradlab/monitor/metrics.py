"""The history of a run: its metrics file, its numbers by step, and the `Recorder` of both."""

from __future__ import annotations

import bisect
import contextlib
import csv
import itertools
import math
import operator
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from gradlab.errors import GradlabError
from gradlab.files import clear_unfinished, write_csv
from gradlab.monitor.score import NO_SCORES, Score
from gradlab.quantities import OF_CODE
from gradlab.seeds import random_state_kept
from gradlab.verdict import Verdict

if TYPE_CHECKING:
    from pandas import DataFrame

# Groups of a metrics file: diagnostics of the loss, scores, the trainer's numbers, and histograms.
DIAGNOSTICS, EVALUATION, TRAIN, HISTOGRAM = "diagnostics", "evaluation", "train", "histogram"
# Name of the loss of a recorded batch.
BATCH_LOSS = "batch_loss"
METRICS, COLUMNS = "metrics.csv", ("step", "group", "name", "value")
Row = tuple[int, str, str, float]
Measurement = dict[str, dict[str, float]]  # numbers by name, by their group in a metrics file
# Called with {``group/name``: value} and the step of what is written, but histograms and NaN.
Listener = Callable[[dict[str, float], int], None]

# Lowest and highest edges of bins: cosines begin at -1, ratios end at 3.
_LOWEST_EDGE, _HIGHEST_EDGE = -1.0, 3.0


def write_metrics(path: Path, rows: Sequence[Row]) -> None:
    """Replace a metrics file by these rows: one number a line, ``step, group, name, value``.

    ``group`` is diagnostics, evaluation, train, histogram, or watch (the cost of `gradlab.watch`).
    """
    columns = {name: [row[at] for row in rows] for at, name in enumerate(COLUMNS)}
    write_csv(path, columns, exact=True)


def append_metrics(path: Path, step: int, groups: Mapping[str, Mapping[str, float]]) -> None:
    """Append the numbers of one step, by group and name, to a metrics file.

    Raises:
        GradlabError: if the file cannot be written.
    """
    try:
        with path.open("a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows(
                [
                    (step, group, name, repr(float(value)))
                    for group, values in groups.items()
                    for name, value in values.items()
                ]
            )
    except OSError as error:
        raise GradlabError(f"cannot write {path}: {error.strerror or error}") from error


def read_metrics(path: str | Path) -> list[Row]:
    """Return the rows ``(step, group, name, value)`` of a metrics file, without any other lines."""
    return scan_metrics(path)[0]


def scan_metrics(path: str | Path) -> tuple[list[Row], list[int]]:
    """Return the rows of a metrics file, and numbers (from 1) of lines that are not whole rows."""
    rows, left_out = [], []
    with Path(path).open(encoding="utf-8", errors="replace", newline="") as file:
        for number, line in enumerate(file, start=1):
            row = _row_of(line)
            if row is not None:
                rows.append(row)
            elif line.rstrip("\r\n") != ",".join(COLUMNS):
                left_out.append(number)
    return rows, left_out


@dataclass
class History:
    """Numbers by group, name and step, as in metrics files of `gradlab train` and watched runs."""

    total_steps: int | None = None  # planned length of the run in steps; None if unknown
    primary: str = ""  # name, or end of the name, of the score that its evaluator calls primary
    evaluated: int = 0  # queries, pairs or triplets of its evaluator; 0 if unknown
    _series: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, rows: Iterable[Row], total_steps: int | None = None, primary: str = "",
        evaluated: int = 0,
    ) -> History:  # fmt: skip
        """Return the history of rows ``(step, group, name, value)``.

        The last of repeated rows counts.
        """
        history = cls(total_steps, primary, evaluated)
        for step, group, name, value in rows:
            history.add(step, group, {name: value})
        return history

    def add(self, step: int, group: str, values: Mapping[str, float]) -> None:
        self.add_groups(step, {group: values})

    def add_groups(self, step: int, groups: Mapping[str, Mapping[str, float]]) -> None:
        for group, values in groups.items():
            for name, value in values.items():
                self._series.setdefault((group, name), {})[step] = value

    def rows(self) -> list[Row]:
        """Return all numbers as rows ``(step, group, name, value)``."""
        return [
            (at, *key, float(v)) for key, points in self._series.items() for at, v in points.items()
        ]

    def records(self) -> list[tuple[int, str, dict[str, float]]]:
        """Return (step, group, values) of each moment in the order of steps."""
        moments: dict[tuple[int, str], dict[str, float]] = {}
        for step, group, name, value in self.rows():
            moments.setdefault((step, group), {})[name] = value
        return [(*at, moments[at]) for at in sorted(moments, key=operator.itemgetter(0))]

    def latest(self, group: str) -> tuple[int, dict[str, float]]:
        """Return the last step of a group and its values there; -1 and nothing without any."""
        series = [(name, self.points(group, name)) for name in self.names(group)]
        step = max((max(points) for _, points in series if points), default=-1)
        return step, {name: points[step] for name, points in series if step in points}

    def points(self, group: str, name: str) -> dict[int, float]:
        """Return the values of a series by step, in the order in which they were added.

        Of a loss given as code, those of the series that takes its place; see `OF_CODE`.
        """
        return self._series.get((group, self.recorded_as(group, name)), {})

    def series(self, group: str, name: str) -> tuple[list[int], list[float]]:
        """Return the steps and values of a series in order, or two empty lists."""
        points = dict(sorted(self.points(group, name).items()))
        return list(points), list(points.values())

    def recorded_as(self, group: str, name: str) -> str:
        """Return the name of the series that `points` returns."""
        of_code = OF_CODE.get(name, name)
        only_of_code = (group, name) not in self._series and (group, of_code) in self._series
        return of_code if only_of_code else name

    def names(self, group: str) -> list[str]:
        return [name for kind, name in self._series if kind == group]

    def groups(self) -> list[str]:
        """Return the groups in order of appearance, without histograms."""
        groups = dict.fromkeys(group for group, _ in self._series)
        return [group for group in groups if group != HISTOGRAM]

    def last_step(self) -> int:
        return max((max(points) for points in self._series.values()), default=0)

    def histograms(self, quantity: str) -> dict[int, dict[float, float]]:
        """Return the histograms of a quantity by step, each as {lower edge of a bin: share}.

        Without bins that are empty, or whose edge or share is no number; a histogram of zeros is
        left out.
        """
        histograms: dict[int, dict[float, float]] = {}
        if not any(name.startswith(f"{quantity}:") for name in self.names(HISTOGRAM)):
            quantity = OF_CODE.get(quantity, quantity)
        for name in self.names(HISTOGRAM):
            kind, _, edge = name.partition(":")
            for step, share in self.points(HISTOGRAM, name).items() if kind == quantity else ():
                if _LOWEST_EDGE <= (low := _number(edge)) <= _HIGHEST_EDGE and 0 < share < math.inf:
                    histograms.setdefault(step, {})[low] = share
        return {step: dict(sorted(shares.items())) for step, shares in sorted(histograms.items())}

    def at(self, group: str, name: str, step: int) -> float | None:
        """Return the value recorded at ``step`` or last before it; None if there is none."""
        steps, values = self.series(group, name)
        place = bisect.bisect_right(steps, step)
        return values[place - 1] if place else None

    def score(self, name: str) -> Score:
        points = tuple(sorted(self.points(EVALUATION, name).items()))
        is_primary = bool(self.primary) and name.endswith(self.primary)
        return Score(name, points, is_primary, self.evaluated)

    def scores(self) -> list[Score]:
        """Return all scores that are ever finite: `primary` first, then qualities; losses last."""
        names = [name for name in self.names(EVALUATION) if not name.endswith(NO_SCORES)]
        scores = [self.score(name) for name in names]
        finite = [s for s in scores if any(math.isfinite(value) for _, value in s.points)]
        return sorted(finite, key=self._rank)

    @staticmethod
    def _rank(score: Score) -> tuple[bool, bool, bool]:
        return not score.is_primary, not score.is_quality, score.is_loss

    def to_frame(self) -> DataFrame:
        """Return the records as a pandas DataFrame indexed by step, one row per record.

        Columns are called ``name`` for diagnostics, else ``group/name``. A number logged between
        two records goes into the row of the earlier one. Without diagnostics, each step has a row.
        """
        import pandas as pd

        names = [(group, name) for group in self.groups() for name in self.names(group)]
        measured = [self.points(*key) for key in names if key[0].startswith(DIAGNOSTICS)]
        records = sorted(set().union(*measured))
        columns = {}
        for group, name in names:
            steps, values = self.series(group, name)
            if records:
                steps = [records[max(bisect.bisect_right(records, at) - 1, 0)] for at in steps]
            column = name if group == DIAGNOSTICS else f"{group}/{name}"
            columns[column] = pd.Series(dict(zip(steps, values, strict=True)), dtype=float)
        return pd.DataFrame(columns).sort_index().rename_axis("step")


class NamesFailures(Protocol):
    """What a `Recorder` asks about the numbers that it has added to the history."""

    history: History
    failures: list[Verdict]

    def look_for_failures(self, step: int, groups: Mapping[str, Mapping[str, float]]) -> None:
        """Name the failures that numbers of one step confirm."""

    def restart(self, history: History) -> Self:
        """Return one for the same losses that was given a whole history."""


class Recorder:
    """Adds what a run measures to its history and at once to a file, and keeps known failures."""

    def __init__(self, folder: str | Path, failure_watch: NamesFailures) -> None:
        """Prepare to record; `begin` creates the file.

        ``failure_watch`` names failures; see `gradlab.monitor.verdicts.failures.FailureWatch`.
        """
        self.folder = Path(folder)  # where metrics.csv (step, group, name, value) is written
        self.seconds = 0.0  # spent on measuring, writing and judging
        self.begun = False  # whether the file exists
        self.history = failure_watch.history  # everything that was recorded so far
        self._failure_watch, self._reported = failure_watch, 0
        self._listeners: list[Listener] = []

    @property
    def failures(self) -> list[Verdict]:
        """Known failures that training has shown so far."""
        return self._failure_watch.failures

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
        self._failure_watch = self._failure_watch.restart(
            History.of(rows, self.history.total_steps)
        )
        self.history = self._failure_watch.history
        self._reported = 0

    def write(self, step: int, groups: Mapping[str, Mapping[str, float]]) -> None:
        """Add the numbers of one step, by group, to the history and to the file; judge them.

        Listeners are told of them, without histograms and NaN. Before :meth:`begin` they are kept
        for the file. Random generators are left unchanged.

        Raises:
            GradlabError: if the file cannot be written.
        """
        with self.timed():
            if self.begun:
                append_metrics(self.folder / METRICS, step, groups)
            self.history.add_groups(step, groups)
            if self._listeners:
                self._tell_listeners(step, groups)
            self._failure_watch.look_for_failures(step, groups)

    def _tell_listeners(self, step: int, groups: Mapping[str, Mapping[str, float]]) -> None:
        for group, values in groups.items():
            if group == HISTOGRAM:
                continue
            by_full_name = {
                f"{group}/{name}": float(number)
                for name, number in values.items()
                if number == number  # not NaN
            }
            for listener in self._listeners:
                with random_state_kept():
                    listener(by_full_name, step)

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Add the time that the block takes to :attr:`seconds`."""
        began = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - began

    def new_failures(self) -> list[Verdict]:
        """Return the failures that were named since the last call."""
        failures, reported = self.failures, self._reported
        self._reported = len(failures)
        return failures[reported:]


def of_dataset(name: str, dataset: str) -> str:
    """Return the name of a group or number of one dataset, such as ``"batch_loss quora"``."""
    return f"{name} {dataset}".strip()


def histogram_rows(distributions: Mapping[str, Mapping[float, float]]) -> dict[str, float]:
    """Return histograms as values for the group `HISTOGRAM`: {``quantity:lower edge``: share}."""
    return {
        f"{name}:{low:g}": share
        for name, shares in distributions.items()
        for low, share in shares.items()
    }


def mean_of(measurements: Sequence[Measurement]) -> Measurement:
    """Return the mean of each number over the measurements that have it, by group.

    A bin is named ``quantity:lower edge``; measurements with other bins of the quantity count as 0.
    One measurement is returned as it is.
    """
    if len(measurements) == 1:
        return measurements[0]
    means: Measurement = {}
    for group in dict.fromkeys(group for measured in measurements for group in measured):
        moments = [measured.get(group, {}) for measured in measurements]
        quantities = [{name.partition(":")[0] for name in moment} for moment in moments]
        means[group] = {}
        for name in dict.fromkeys(name for moment in moments for name in moment):
            measured = [name.partition(":")[0] in measured for measured in quantities]
            numbers = [moment.get(name, 0.0) for moment in itertools.compress(moments, measured)]
            means[group][name] = float(np.mean(numbers))
    return means


def _row_of(line: str) -> Row | None:
    """Return the row of a complete line, or None; a lone quote must not swallow later lines."""
    if not line.endswith("\n") or "\ufffd" in line:  # the replacement for bytes that are not UTF-8
        return None
    try:
        ((step, group, name, value),) = csv.reader([line])
        # Digits that ran together from two lines are no step either.
        return (int(step), group, name, float(value)) if 0 <= int(step) < 2**53 else None
    except (ValueError, csv.Error):
        return None


def _number(text: str) -> float:
    """Return the number of a text; NaN if it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
