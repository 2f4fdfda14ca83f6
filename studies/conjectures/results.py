"""What the finished runs of a study left, as tables."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gradlab.evaluate import STS_TASKS, TRANSFER_TASKS
from gradlab.files import read_arrays, read_object
from gradlab.monitor import DIAGNOSTICS, EVALUATION, read_metrics
from gradlab.sweep import FINISHED, Run, run_folder, unflatten
from studies.conjectures.views import DEV_COSINES, ENCODERS, HeldOutViews
from studies.statistics import (
    Array,
    Interval,
    over_seeds,
    spearman_difference_over_sentences,
)

METRICS = {
    "stsb_dev": "STS-B dev",
    "stsb_dev_last": "STS-B dev, last step",
    "sts_average": "STS average",
    "transfer_average": "transfer average",
}
SCORES = (
    "stsb_dev", "stsb_dev_last",
    *STS_TASKS, "sts_average",
    *TRANSFER_TASKS, "transfer_average",
)  # fmt: skip
# Scores of the encoder before training, by pooler.
UNTUNED = "untuned.json"
# The report's tables by name.
Frames = Mapping[str, pd.DataFrame]


@dataclasses.dataclass(frozen=True)
class Results:
    """The runs of a study that have ended; ``untuned`` are scores before training, by pooler."""

    runs: tuple[Run, ...]
    output: Path
    untuned: dict[str, Any]

    def finished(self, condition: str) -> dict[int, Run]:
        """The runs of a condition that did not diverge, by seed."""
        own = [run for run in self.runs if run.point.label == condition and run.state == FINISHED]
        return {run.seed: run for run in sorted(own, key=lambda run: run.seed)}

    def files(self, condition: str, name: str) -> dict[int, Path]:
        """The files of this name that runs of a condition kept, by seed."""
        runs = self.finished(condition).items()
        paths = {seed: run_folder(self.output, run) / name for seed, run in runs}
        return {seed: path for seed, path in paths.items() if path.exists()}

    def tuned(self, condition: str) -> Iterator[tuple[int, HeldOutViews]]:
        """Seeds and held-out embeddings of trained encoders of a condition."""
        for seed, path in self.files(condition, ENCODERS["tuned"]).items():
            yield seed, HeldOutViews.load(path)

    def before_and_after(self, condition: str) -> Iterator[tuple[int, str, HeldOutViews]]:
        """The same of both `ENCODERS`: seed, encoder and held-out embeddings."""
        files = {encoder: self.files(condition, name) for encoder, name in ENCODERS.items()}
        for seed, encoder in itertools.product(self.finished(condition), ENCODERS):
            if seed in files[encoder]:
                yield seed, encoder, HeldOutViews.load(files[encoder][seed])

    def scores(self, condition: str, metric: str = "stsb_dev") -> pd.Series:
        """A score of a condition, by seed; seeds without it are left out."""
        scores = {seed: _score(run, metric) for seed, run in self.finished(condition).items()}
        return pd.Series(scores, dtype=float).dropna()

    def table(self) -> pd.DataFrame:
        """One row a run: settings, scores, cost."""
        rows = []
        for run in self.runs:
            settings, results = unflatten(run.point.settings), run.results or {}
            about = {"condition": run.point.label, "seed": run.seed, "loss": settings["loss"]}
            about["settings"] = json.dumps(settings.get("loss_settings", {}))
            about["diverged"] = run.error
            about |= {name: results.get(name) for name in ("steps", "best_step")}
            scores = {name: _score(run, name) for name in SCORES}
            rows.append(about | scores | {"seconds": results.get("seconds")})
        return pd.DataFrame(rows)

    @functools.cached_property
    def training(self) -> pd.DataFrame:
        """What was measured during every run: a row a step of a run, a column a quantity."""
        frames = {}
        for run in self.runs:
            if run.state == FINISHED:
                rows = read_metrics(run_folder(self.output, run) / "metrics.csv")
                frame = pd.DataFrame(rows, columns=["step", "group", "name", "value"])
                frame = frame[frame.group.isin((DIAGNOSTICS, EVALUATION))]
                frames[run.point.label, run.seed] = frame.pivot(
                    index="step", columns="name", values="value"
                )
        if not frames:
            return pd.DataFrame()
        return pd.concat(frames, names=["condition", "seed"]).reset_index()


def read_untuned(place: Path) -> dict[str, Any]:
    """Pooler -> scores before training, as a study left them; empty if it did not."""
    return read_object(place) if place.exists() else {}


def _score(run: Run, name: str) -> float:
    """One of `SCORES`; NaN where absent."""
    return float((run.results or {}).get(name.removesuffix("_average"), math.nan))


def paired(plus: pd.Series, minus: pd.Series) -> list[float]:
    """The differences of two measures for the seeds that both have."""
    return (plus - minus).dropna().sort_index().to_list()


def summary(results: Results, values: Sequence[tuple[float, str]]) -> pd.DataFrame:
    """STS-B dev against one setting: a row a value, with its interval over seeds."""
    rows = []
    for value, condition in values:
        interval = over_seeds(results.scores(condition).to_numpy())
        if interval.count:
            head = {"value": value, "condition": condition, "metric": "stsb_dev"}
            rows.append(head | interval_columns(interval))
    return pd.DataFrame(rows)


def comparison(
    results: Results, first: str, second: str, metric: str = "stsb_dev"
) -> list[dict[str, Any]]:
    """``first - second`` with its interval over seeds; for STS-B dev also over sentence pairs."""
    head = {"first": first, "second": second, "metric": metric}
    scores = [results.scores(name, metric) for name in (first, second)]
    interval = over_seeds(paired(*scores))
    if not interval.count:
        return []
    rows = [head | interval_columns(interval) | {"p": interval.p}]
    if metric == "stsb_dev":
        files = [results.files(name, DEV_COSINES) for name in (first, second)]
        if seeds := [seed for seed in files[0] if seed in files[1]]:
            plus, minus = (
                [read_arrays(paths[seed])["cosines"] for seed in seeds] for paths in files
            )
            gold = read_arrays(files[0][seeds[0]])["gold"]
            over_pairs = spearman_difference_over_sentences(plus, minus, gold)
            rows.append(head | interval_columns(over_pairs))
    return rows


def comparisons(results: Results, pairs: Iterable[tuple[str, str]]) -> pd.DataFrame:
    """`comparison` of each pair of conditions, one after another."""
    return pd.DataFrame([row for pair in pairs for row in comparison(results, *pair)])


def binned(bins: Array, name: str, values: Array, **columns: Any) -> pd.DataFrame:
    """A histogram as a table: the columns, ``low`` and ``high`` of each bin, and its value."""
    return pd.DataFrame({**columns, "low": bins[:-1], "high": bins[1:], name: values})


def density(bins: Array, samples: Sequence[Array], **columns: Any) -> pd.DataFrame:
    """The ``density`` of all samples together, as `binned` tables it."""
    densities, _ = np.histogram(np.concatenate(samples), bins, density=True)
    return binned(bins, "density", densities, **columns)


def interval_columns(interval: Interval) -> dict[str, Any]:
    """An interval as columns of a table."""
    unit = interval.kind.removeprefix("over ")
    about = {"interval": interval.kind, "count": interval.count, "unit": unit}
    return about | interval.columns("mean", "low", "high")
