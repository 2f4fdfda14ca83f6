"""What the folders of runs and sweeps tell: distances, paths and scores."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from gradlab import GradlabError
from gradlab.errors import nearest
from gradlab.monitor import History, read_metrics
from gradlab.plotting import Table, rounded
from gradlab.sweep import flatten, settings_text
from gradlab.train import RESUMABLE_CHANGES, RunFolder, TrainConfig, decay
from studies.analyses.distance import measured_distances, traceable_distance

# In what runs of one series may differ: places, and what is told by other settings.
_NO_SERIES = RESUMABLE_CHANGES - {"train_file"} | {"seed", "backbone"}


@dataclass(frozen=True)
class FinishedRun:
    """A run's configuration and what it measured."""

    name: str
    config: TrainConfig
    results: dict[str, Any]
    history: History

    @property
    def steps(self) -> int:
        """Optimiser steps."""
        return int(self.results["steps"])

    def metric(self, name: str) -> float:
        """What the run selected by, or the last value of ``group/name`` of the metrics file.

        The former, such as ``stsb_dev``, is the best score. NaN if not recorded.
        """
        if name == self.results.get("selection", "stsb_dev"):
            scores = self.results.get(name) or {}
            best = self.results.get("best_step")
            return float(scores[str(best)]) if best is not None else math.nan
        values = self.history.series(*name.split("/", 1))[1] if "/" in name else []
        return values[-1] if values else math.nan

    @functools.cached_property
    def decays(self) -> list[float]:
        """``η`` of each update; zeros without a momentum branch."""
        config = self.config
        if config.momentum is None:
            return [0.0] * self.steps
        start, end, schedule = config.momentum, config.momentum_end, config.momentum_schedule
        return [decay(start, end, schedule, step, self.steps) for step in range(self.steps)]

    @property
    def distance(self) -> float:
        """`traceable_distance` at the momentum of the last step; infinite where that is 1."""
        return self.distance_at(self.steps - 1)

    def distance_at(self, step: int) -> float:
        """`traceable_distance` at the momentum of a step, from 0; infinite where that is 1."""
        momentum, config = self.decays[step], self.config
        if momentum == 1:
            return math.inf
        # A step queues all of its batches.
        return traceable_distance(
            momentum, config.queue_size, config.batch_size * config.accumulation
        )


def read_history(run: Path) -> History:
    """Return what the run in a folder recorded; empty if it recorded nothing."""
    file = run / "metrics.csv"
    return History.of(read_metrics(file) if file.exists() else ())


def find_runs(folders: Iterable[str | Path]) -> list[FinishedRun]:
    """The finished runs among folders of runs, and in those of sweeps.

    Raises:
        GradlabError: if there is none, or a folder is neither.
    """
    runs: list[FinishedRun] = []
    for folder in map(Path, folders):
        places = [folder, *sorted((folder / "runs").glob("*"))]
        places = [place for place in places if (place / "manifest.json").is_file()]
        if not places:
            raise GradlabError(f"{str(folder)!r} is the folder of no run and of no sweep")
        for place in places:
            manifest = RunFolder(place).read_manifest()
            if manifest["status"] == "finished":
                # What ran, not what the recipe would give today.
                config = TrainConfig.of_run(manifest["config"])
                run = FinishedRun(place.name, config, manifest["results"], read_history(place))
                runs.append(run)
    if not runs:
        raise GradlabError("none of the runs there is finished")
    return runs


def distances_of(run: FinishedRun) -> Table:
    """Maximum traceable distance over a run, measured and by the formula.

    It is measured at the steps that recorded the ages in the queue.

    Raises:
        GradlabError: for a run without a queue.
    """
    steps, ages = run.history.series("train", "queue_age_max")
    if not steps:
        raise GradlabError(f"the run {run.name!r} recorded no ages; it has no queue")
    decays = run.decays
    # What was recorded after step t was seen by the step before.
    measured = [
        float(measured_distances([-1 if math.isnan(age) else age], step - 1, decays)[0])
        for step, age in zip(steps, ages, strict=True)
    ]
    formula = [run.distance_at(step - 1) for step in steps]
    return rounded({"step": steps, "oldest": ages, "measured": measured, "formula": formula})


def path_of(run: FinishedRun) -> Table:
    """Alignment and uniformity over the steps of a run, on its held-out share or training batches.

    Raises:
        GradlabError: for a run without diagnostics.
    """
    steps, alignment = run.history.series("diagnostics", "alignment")
    if not steps:
        raise GradlabError(f"the run {run.name!r} recorded no diagnostics")
    uniform = run.history.series("diagnostics", "uniformity")[1]
    return rounded({"step": steps, "alignment": alignment, "uniformity": uniform})


def summarise_runs(runs: Sequence[FinishedRun], x: str, metrics: Sequence[str]) -> Table:
    """Mean and standard deviation over seeds of what runs measured, against a setting.

    Args:
        runs: the runs.
        x: a setting, or "distance" for the maximum traceable distance.
        metrics: see :meth:`FinishedRun.metric`.

    Returns:
        A row a configuration, by ``series`` and x: ``series`` (as text the other settings that
        tell them from the other runs, those that follow from the ones before left out), the column
        ``x``, ``n``, and for each metric its mean and ``NAME_sd`` (NaN for one seed).

    Raises:
        GradlabError: for an unknown setting, or one that is no number.
    """
    flat = [flatten(run.config.to_dict()) for run in runs]
    names = dict.fromkeys(name for settings in flat for name in settings)
    if x != "distance" and x not in names:
        raise GradlabError(
            f"{x!r} is neither a setting of these runs nor 'distance'.{nearest(x, names)}"
        )
    varying = [name for name in names if name not in (*_NO_SERIES, x)]
    # The rest of a recipe comes with its loss.
    varying.sort(key=lambda name: not name.startswith("loss"))
    rows = []
    for run, settings in zip(runs, flat, strict=True):
        value = run.distance if x == "distance" else settings.get(x)
        if not isinstance(value, int | float):
            raise GradlabError(
                f"{x} is {value!r} in the run {run.name!r}, no number to draw against"
            )
        about = {"series": settings_text(_telling(settings, flat, varying)), x: float(value)}
        rows.append(about | {name: run.metric(name) for name in metrics})
    groups = pd.DataFrame(rows).groupby(["series", x])
    summary = groups.size().to_frame("n")
    for name in metrics:
        summary[name] = groups[name].agg(lambda values: values.mean(skipna=False))
        summary[f"{name}_sd"] = groups[name].agg(lambda values: values.std(skipna=False))
    return rounded(summary.reset_index())


def _telling(
    settings: Mapping[str, Any], flat: Sequence[Mapping[str, Any]], names: Iterable[str]
) -> dict[str, Any]:
    """The settings in which runs differ that agree in those before without what a recipe brings."""
    chosen = {}
    for name in names:
        alike = [run for run in flat if run.get(name) == settings.get(name)]
        if len(alike) < len(flat):
            chosen[name], flat = settings.get(name), alike
    return chosen
