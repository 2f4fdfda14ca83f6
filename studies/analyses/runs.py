"""What the folders of runs and sweeps tell: distances and paths."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlab import GradlabError
from gradlab.monitor import History, read_metrics
from gradlab.plotting import Table, rounded
from gradlab.train import RunFolder, TrainConfig, decay
from studies.analyses.distance import measured_distances, traceable_distance


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

    @functools.cached_property
    def decays(self) -> list[float]:
        """``η`` of each update; zeros without a momentum branch."""
        config = self.config
        if config.momentum is None:
            return [0.0] * self.steps
        start, end, schedule = config.momentum, config.momentum_end, config.momentum_schedule
        return [decay(start, end, schedule, step, self.steps) for step in range(self.steps)]

    def distance_at(self, step: int) -> float:
        """`traceable_distance` at the momentum of a step, from 0; infinite where that is 1."""
        momentum, config = self.decays[step], self.config
        if momentum == 1:
            return math.inf
        # A step queues all of its batches.
        return traceable_distance(
            momentum, config.queue_size, config.batch_size * config.accumulation
        )


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
                file = place / "metrics.csv"
                history = History.of(read_metrics(file) if file.exists() else ())
                runs.append(FinishedRun(place.name, config, manifest["results"], history))
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
