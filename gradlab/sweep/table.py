"""What a sweep has found: a row a point, with mean and spread over its seeds."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlab.files import write_csv
from gradlab.sweep.board import DIVERGED, ENDED, FAILED, FINISHED, RUNNING, WAITING, Run
from gradlab.sweep.spec import Point, Spec
from gradlab.sweep.training import run_folder

STATES = (FINISHED, RUNNING, WAITING, FAILED, DIVERGED)


@dataclass(frozen=True)
class PointSummary:
    """A point and the values of its seeds.

    Attributes:
        point: the point.
        values: of the runs that are finished.
        counts: state -> number of runs.
    """

    point: Point
    values: tuple[float, ...]
    counts: dict[str, int]

    @property
    def mean(self) -> float:
        """Mean over seeds; NaN without any."""
        return statistics.fmean(self.values) if self.values else math.nan

    @property
    def deviation(self) -> float:
        """Standard deviation over seeds (with n - 1); NaN for fewer than two."""
        return statistics.stdev(self.values) if len(self.values) > 1 else math.nan


def summarise(spec: Spec, runs: Sequence[Run]) -> list[PointSummary]:
    """A row a point, in the order of the sweep; a run that two points share counts in both."""
    known = {run.key: run for run in runs}
    rows = []
    for point in spec.points({run.key: run.value for run in runs if run.state in ENDED}):
        mine = [known[key] for key in point.runs.values()]
        values = tuple(run.value for run in mine if run.value is not None)
        counts = {state: sum(run.state == state for run in mine) for state in STATES}
        rows.append(PointSummary(point, values, counts))
    return rows


def names_of(spec: Spec, rows: Sequence[PointSummary]) -> list[str]:
    """The settings that the points of a sweep vary, in the order of the file."""
    return list(dict.fromkeys(name for row in rows for name in row.point.varied))


def as_text(spec: Spec, rows: Sequence[PointSummary]) -> str:
    """The table for people; the best mean is marked."""
    labelled = any(row.point.label for row in rows)
    names = names_of(spec, rows)
    if labelled and not spec.grid and not spec.stages:
        names = []  # the labels say it
    header = [*(["point"] if labelled else []), *names, "mean", "sd", "n", ""]
    best = _best(spec, rows)
    lines = [header]
    for row in rows:
        settings = [_cell(row.point.settings.get(name, "")) for name in names]
        ends = [_number(row.mean), _number(row.deviation), f"{len(row.values)}/{len(row.point.seeds)}"]
        notes = [f"{row.counts[state]} {state}" for state in (RUNNING, FAILED, DIVERGED) if row.counts[state]]
        notes += ["best"] if row is best else []
        lines.append([*([row.point.label] if labelled else []), *settings, *ends, ", ".join(notes)])
    widths = [max(len(line[place]) for line in lines) for place in range(len(header))]
    numbers = range(len(header) - 4, len(header) - 1)
    text = [
        "  ".join(
            cell.rjust(width) if place in numbers else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([f"{spec.name}: {spec.metric}, mean and standard deviation over seeds", *text])


def write_tables(spec: Spec, runs: Sequence[Run], output: Path) -> list[Path]:
    """Write ``results.csv`` (a row a point) and ``runs.csv`` (a row a run, with all that was measured)."""
    rows = summarise(spec, runs)
    names = names_of(spec, rows)
    points: dict[str, Any] = {
        "label": [row.point.label for row in rows],
        "stage": [row.point.stage for row in rows],
    }
    points |= {name: [_cell(row.point.settings.get(name, "")) for row in rows] for name in names}
    points |= {
        "metric": [spec.metric] * len(rows),
        "n": [len(row.values) for row in rows],
        "mean": [_blank(row.mean) for row in rows],
        "standard_deviation": [_blank(row.deviation) for row in rows],
        "min": [min(row.values, default="") for row in rows],
        "max": [max(row.values, default="") for row in rows],
    }
    points |= {state: [row.counts[state] for row in rows] for state in (RUNNING, WAITING, FAILED, DIVERGED)}
    measured = list(dict.fromkeys(name for run in runs for name in run.results or {}))
    each: dict[str, Any] = {"key": [run.key for run in runs], "label": [run.point.label for run in runs]}
    each["folder"] = [run_folder(output, run).relative_to(output).as_posix() for run in runs]
    each |= {name: [_cell(run.settings.get(name, "")) for run in runs] for name in [*names, "seed"]}
    for name in ("state", "attempts", "worker", "error"):
        each[name] = [getattr(run, name) for run in runs]
    each |= {name: [(run.results or {}).get(name, "") for run in runs] for name in measured}
    return [write_csv(output / "results.csv", points), write_csv(output / "runs.csv", each)]


def _best(spec: Spec, rows: Sequence[PointSummary]) -> PointSummary | None:
    ended = [row for row in rows if len(row.values) == len(row.point.seeds)]
    if len(ended) < 2:
        return None
    choose = max if spec.direction == "maximize" else min
    return choose(ended, key=lambda row: row.mean)


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4f}"


def _blank(value: float) -> float | str:
    return "" if math.isnan(value) else value
