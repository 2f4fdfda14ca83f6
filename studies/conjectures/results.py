"""What the finished runs of a study left, as tables."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gradlab.evaluate import STS_TASKS, TRANSFER_TASKS
from gradlab.monitor import DIAGNOSTICS, EVALUATION, read_metrics
from gradlab.sweep import DIVERGED, FINISHED, Run, run_folder, unflatten
from studies.conjectures.untuned import UNTUNED, read_untuned
from studies.conjectures.verdicts import Claim
from studies.conjectures.views import DEV_COSINES, ENCODERS, HeldOutViews
from studies.statistics import (
    OVER_SEEDS,
    Interval,
    over_seeds,
    spearman_difference_over_sentences,
)

# Groups of a run's metrics file.
MEASURED = (DIAGNOSTICS, EVALUATION)
METRICS = {
    "stsb_dev": "STS-B dev",
    "stsb_dev_last": "STS-B dev, last step",
    "sts_average": "STS average",
    "transfer_average": "transfer average",
}
SCORES = ("stsb_dev", "stsb_dev_last", *STS_TASKS, "sts_average", *TRANSFER_TASKS, "transfer_average")
# The report's tables by name.
Frames = Mapping[str, pd.DataFrame]


@dataclasses.dataclass(frozen=True)
class Section:
    """What one part of a study found.

    Attributes:
        tables: name of the CSV file without suffix -> numbers.
        claims: what is judged.
        notes: sentences for the report, on what was measured and how.
    """

    tables: dict[str, pd.DataFrame]
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class StudyRun:
    """A finished run: where it is, and what the sweep knows of it."""

    folder: Path
    run: Run

    @property
    def condition(self) -> str:
        """The name of its condition."""
        return self.run.point.label

    @property
    def seed(self) -> int:
        """Its seed."""
        return self.run.seed

    def score(self, name: str) -> float:
        """One of `SCORES`; NaN where absent."""
        return float((self.run.results or {}).get(name.removesuffix("_average"), math.nan))

    @functools.cached_property
    def training(self) -> pd.DataFrame:
        """What was measured during training: a row a step, a column a quantity."""
        rows = read_metrics(self.folder / "metrics.csv")
        kept = [(step, name, value) for step, group, name, value in rows if group in MEASURED]
        frame = pd.DataFrame(kept, columns=["step", "name", "value"])
        return frame.pivot(index="step", columns="name", values="value")

    def row(self) -> dict[str, Any]:
        """Settings, scores, cost."""
        settings, results = unflatten(self.run.point.settings), self.run.results or {}
        return {
            "condition": self.condition,
            "seed": self.seed,
            "loss": settings["loss"],
            "settings": json.dumps(settings.get("loss_settings", {})),
            "diverged": self.run.error,
            "steps": results.get("steps"),
            "best_step": results.get("best_step"),
            **{name: self.score(name) for name in SCORES},
            "seconds": results.get("seconds"),
        }

    def dev(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Cosines and gold scores of the pairs of STS-B dev, by the best encoder."""
        if not (self.folder / DEV_COSINES).exists():
            return None
        with np.load(self.folder / DEV_COSINES) as content:
            return content["cosines"], content["gold"]


@dataclasses.dataclass(frozen=True)
class Results:
    """All finished runs of a study; ``untuned`` holds the scores of the encoder before training, by pooler."""

    runs: tuple[StudyRun, ...]
    untuned: dict[str, Any]

    @classmethod
    def read(cls, runs: Iterable[Run], output: Path) -> Results:
        """What has come of these runs of the study in a folder, finished or diverged."""
        ended = [run for run in runs if run.state in (FINISHED, DIVERGED)]
        found = tuple(StudyRun(run_folder(output, run), run) for run in ended)
        return cls(found, read_untuned(output / UNTUNED))

    def of(self, condition: str) -> dict[int, StudyRun]:
        """The finished runs of a condition that did not diverge, by seed."""
        return {
            one.seed: one for one in self.runs if one.condition == condition and one.run.state == FINISHED
        }

    def kept(self, condition: str) -> Iterator[tuple[int, str, HeldOutViews]]:
        """Seed, a key of `ENCODERS`, and the embeddings of held-out sentences, where runs of a condition kept them."""
        for seed, run in sorted(self.of(condition).items()):
            for encoder, name in ENCODERS.items():
                if (run.folder / name).exists():
                    yield seed, encoder, HeldOutViews.load(run.folder / name)

    def tuned(self, condition: str) -> Iterator[tuple[int, HeldOutViews]]:
        """Those of the trained encoders alone."""
        return ((seed, views) for seed, encoder, views in self.kept(condition) if encoder == "tuned")

    def scores(self, condition: str, metric: str = "stsb_dev") -> dict[int, float]:
        """A score of a condition, by seed; seeds without it are left out."""
        found = {seed: run.score(metric) for seed, run in self.of(condition).items()}
        return {seed: score for seed, score in found.items() if not math.isnan(score)}

    def differences(self, first: str, second: str, metric: str = "stsb_dev") -> list[float]:
        """``first - second`` for the seeds that both have."""
        one, other = self.scores(first, metric), self.scores(second, metric)
        return [one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())]

    def dev_difference_over_sentences(self, first: str, second: str) -> Interval | None:
        """The difference on STS-B dev with its bootstrap interval over sentence pairs, the seeds as they are."""
        one, other = self.of(first), self.of(second)
        pairs = [(one[seed].dev(), other[seed].dev()) for seed in sorted(one.keys() & other.keys())]
        known = [(a, b) for a, b in pairs if a is not None and b is not None]
        if not known:
            return None
        gold = known[0][0][1]
        return spearman_difference_over_sentences([a[0] for a, _ in known], [b[0] for _, b in known], gold)

    def runs_table(self) -> pd.DataFrame:
        """One row a run: settings, scores, cost."""
        return pd.DataFrame([one.row() for one in self.runs])

    def training_table(self) -> pd.DataFrame:
        """What was measured during every run: a row a step of a run."""
        runs = [one for one in self.runs if one.run.state != DIVERGED]
        frames = {(one.condition, one.seed): one.training for one in runs}
        return pd.concat(frames, names=["condition", "seed"]).reset_index() if frames else pd.DataFrame()


def summary(results: Results, values: Sequence[tuple[float, str]], metric: str = "stsb_dev") -> pd.DataFrame:
    """Performance against one setting: a row a value, with its interval over seeds."""
    rows = []
    for value, condition in values:
        found = over_seeds(list(results.scores(condition, metric).values()))
        if found.count:
            rows.append({"value": value, "condition": condition, "metric": metric, **interval_columns(found)})
    return pd.DataFrame(rows)


def comparison(results: Results, first: str, second: str, metric: str = "stsb_dev") -> list[dict[str, Any]]:
    """``first - second``: a row with the interval over seeds, and for STS-B dev one with that over sentences."""
    head = {"first": first, "second": second, "metric": metric}
    found = over_seeds(results.differences(first, second, metric))
    if not found.count:
        return []
    rows = [{**head, **interval_columns(found), "p": found.p}]
    if metric == "stsb_dev":
        other = results.dev_difference_over_sentences(first, second)
        rows += [{**head, **interval_columns(other)}] if other else []
    return rows


def comparisons(results: Results, pairs: Iterable[tuple[str, str]]) -> pd.DataFrame:
    """`comparison` of each pair of conditions, one after another."""
    return pd.DataFrame([row for pair in pairs for row in comparison(results, *pair)])


def binned(bins: NDArray[Any], name: str, values: NDArray[Any], **columns: Any) -> pd.DataFrame:
    """A histogram as a table: the columns, ``low`` and ``high`` of each bin, and its value."""
    return pd.DataFrame({**columns, "low": bins[:-1], "high": bins[1:], name: values})


def interval_columns(interval: Interval) -> dict[str, Any]:
    """An interval as columns of a table."""
    unit = "seeds" if interval.kind == OVER_SEEDS else "sentences"
    about = {"interval": interval.kind, "count": interval.count, "unit": unit}
    return about | {"mean": interval.mean, "low": interval.low, "high": interval.high}
