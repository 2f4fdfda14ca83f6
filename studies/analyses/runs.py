"""What finished runs tell: how far back their queues reach, and their paths.

MoCoSE (Cao et al. 2022), section 5.7: a negative of the queue was made some steps ago, by a branch
that is itself an average of weights of earlier steps. Both are counted in steps. The paper counts
the newest weights in the average as one step away, and so does everything here.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradlab import GradlabError
from gradlab.monitor import History, read_metrics
from gradlab.plotting import Table, rounded
from gradlab.train import RunFolder, TrainConfig, decay


@dataclass(frozen=True)
class FinishedRun:
    """A run's configuration and what it measured."""

    name: str
    config: TrainConfig
    results: dict[str, Any]
    history: History

    @functools.cached_property
    def decays(self) -> list[float]:
        """``η`` of each update; zeros without a momentum branch."""
        config, steps = self.config, int(self.results["steps"])
        if config.momentum is None:
            return [0.0] * steps
        start, end, schedule = config.momentum, config.momentum_end, config.momentum_schedule
        return [decay(start, end, schedule, step, steps) for step in range(steps)]

    def distance_at(self, step: int) -> float:
        """`traceable_distance` at the momentum of a step, from 0; infinite where that is 1."""
        momentum, config = self.decays[step], self.config
        if momentum == 1:
            return math.inf
        # A step queues all of its batches.
        rows = config.batch_size * config.accumulation
        return traceable_distance(momentum, config.queue_size, rows)


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


def traceable_distance(momentum: float, queue_size: float, batch_size: float) -> float:
    """``1/(1 - η) + queue_size/batch_size`` (Eq. 4): steps to the oldest negative, in the long run.

    ``momentum`` is the weight ``η`` of the old average, in [0, 1); 0 without a momentum branch.
    Sizes are in rows. GradlabError for values out of range.
    """
    _check_momentum(momentum)
    if not (queue_size >= 0 and batch_size > 0):
        raise GradlabError(
            f"a queue of {queue_size} and a batch of {batch_size}: sizes must not be negative, "
            "nor the batch 0"
        )
    return 1 / (1 - momentum) + queue_size / batch_size


def branch_distance(momentum: float, k: ArrayLike) -> NDArray[np.float64]:
    """``S_k = Σ_{i=0}^{k} (1 - η) η^i (i + 1) = (1 - η^{k+1})/(1 - η) - (k + 1) η^{k+1}``.

    These are the first k + 1 terms of a mean over the average's weights (Eqs. 5 and 6). They do not
    sum to 1: what is left, ``η^{k+1}``, lies on the weights that the branch began with;
    :func:`branch_distances` counts it too. The limit of ``S_k`` is ``1/(1 - η)``. GradlabError for
    ``η`` outside [0, 1) or a negative k.
    """
    _check_momentum(momentum)
    terms = np.asarray(k, dtype=np.float64) + 1
    if not bool(np.all(terms >= 1)):
        raise GradlabError("k must not be negative")
    weight_left = np.power(momentum, terms)
    return np.asarray((1 - weight_left) / (1 - momentum) - terms * weight_left)


def branch_distances(decays: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean distance in steps from the trained weights to those in the average, for any schedule.

    From ``η`` of each update, (n,), those after 0, 1, ... updates, (n + 1,): ``A_0 = 1`` (a copy)
    and ``A_n = 1 + η_n A_{n-1}``. For a constant ``η``, ``A_n`` is ``S_{n-1} + (n + 1) η^n``.
    """
    steps = itertools.accumulate(decays, lambda before, eta: 1 + eta * before, initial=1.0)
    return np.array(list(steps))


def measured_distances(
    ages: ArrayLike, step: int, decays: Sequence[float] | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Distance in steps of each negative that a step saw.

    It is the negative's real age plus the distance of the weights that made it.

    Args:
        ages: (M,) steps since each was made, as a `gradlab.train.Queue` has them; negative for
            random vectors, which no weights made, and whose distance is NaN.
        step: the step that saw them, from 0.
        decays: (at least ``step``,) ``η`` of each update; zeros where there is no momentum branch.

    Raises:
        GradlabError: for a negative that is older than the run.
    """
    ages = np.asarray(ages, dtype=np.float64)
    random = ~(ages >= 0)
    steps = step - np.where(random, 0, ages)
    if bool(np.any(steps < 0)):
        raise GradlabError(f"a negative is {int(np.nanmax(ages))} steps old in step {step}")
    distances = branch_distances(decays)[steps.astype(np.int64)]
    return np.where(random, np.nan, ages + distances)


def _check_momentum(momentum: float) -> None:
    if not 0 <= momentum < 1:
        raise GradlabError(f"momentum must be at least 0 and below 1, not {momentum!r}")
