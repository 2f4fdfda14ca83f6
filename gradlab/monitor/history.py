"""What a run recorded, as series over steps."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pandas import DataFrame

# Groups of a metrics file: what a run's loss does to the embeddings, its scores, its own numbers, and histograms.
DIAGNOSTICS, EVALUATION, TRAIN, HISTOGRAM = "diagnostics", "evaluation", "train", "histogram"


@dataclass
class History:
    """Numbers by group, name and step, as in the metrics files of `gradlab train` and of watched runs.

    Attributes:
        total_steps: how many steps the run was planned to take, or None.
    """

    total_steps: int | None = None
    _series: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[tuple[int, str, str, float]], total_steps: int | None = None) -> History:
        """From rows ``(step, group, name, value)``; of repeated ones the last counts."""
        history = cls(total_steps)
        for step, group, name, value in rows:
            history.add(step, group, {name: value})
        return history

    def add(self, step: int, group: str, values: Mapping[str, float]) -> None:
        """Take in numbers of one moment."""
        for name, value in values.items():
            self._series.setdefault((group, name), {})[step] = value

    def rows(self) -> list[tuple[int, str, str, float]]:
        """All of it as rows ``(step, group, name, value)``."""
        return [
            (step, *key, float(value))
            for key, points in self._series.items()
            for step, value in points.items()
        ]

    def records(self) -> list[tuple[int, str, dict[str, float]]]:
        """What was recorded at each moment, (step, group, values), in the order of the steps; without the histograms."""
        moments: dict[tuple[int, str], dict[str, float]] = {}
        for (group, name), points in self._series.items():
            if group != HISTOGRAM:
                for step, value in points.items():
                    moments.setdefault((step, group), {})[name] = value
        return [(*at, values) for at, values in sorted(moments.items(), key=lambda moment: moment[0][0])]

    def series(self, group: str, name: str) -> tuple[list[int], list[float]]:
        """Steps and values, in order; empty if there are none."""
        points = sorted(self._series.get((group, name), {}).items())
        return [step for step, _ in points], [value for _, value in points]

    def names(self, group: str) -> list[str]:
        """Names recorded in a group, in order of appearance."""
        return [name for kind, name in self._series if kind == group]

    def groups(self) -> list[str]:
        """Groups, in order of appearance, without the histograms."""
        return [group for group in dict.fromkeys(kind for kind, _ in self._series) if group != HISTOGRAM]

    def last_step(self) -> int:
        """The last step with any record; 0 if there is none."""
        return max((max(points) for points in self._series.values()), default=0)

    def histograms(self, quantity: str) -> dict[int, dict[float, float]]:
        """Histograms of a quantity by step: lower edge of a bin -> share."""
        found: dict[int, dict[float, float]] = {}
        for (group, name), points in self._series.items():
            kind, _, low = name.partition(":")
            if group == HISTOGRAM and kind == quantity:
                for step, share in points.items():
                    found.setdefault(step, {})[float(low)] = share
        return {step: dict(sorted(found[step].items())) for step in sorted(found)}

    def at(self, group: str, name: str, step: int) -> float | None:
        """The value recorded at ``step`` or last before it."""
        known, values = self.series(group, name)
        place = bisect.bisect_right(known, step)
        return values[place - 1] if place else None

    def to_frame(self) -> DataFrame:
        """One row a record, as a pandas DataFrame indexed by step.

        Diagnostics by their names, of other groups ``group/name``. What a trainer logs at other steps than those of the
        records stands in the row of the record before it; without diagnostics there is a row for each step.
        """
        import pandas as pd

        measured = [key for key in self._series if key[0].startswith(DIAGNOSTICS)]
        records = sorted({step for key in measured for step in self._series[key]})
        columns = {}
        for group in self.groups():
            for name in self.names(group):
                steps, values = self.series(group, name)
                places = [max(bisect.bisect_right(records, step) - 1, 0) for step in steps]
                rows = {
                    records[at] if records else step: value
                    for at, step, value in zip(places, steps, values, strict=True)
                }
                columns[name if group == DIAGNOSTICS else f"{group}/{name}"] = pd.Series(rows, dtype=float)
        return pd.DataFrame(columns).sort_index().rename_axis("step")


def histogram_rows(distributions: Mapping[str, Mapping[float, float]]) -> dict[str, float]:
    """What to record of histograms of one moment in the group `HISTOGRAM`: ``quantity:lower edge`` -> share."""
    return {
        f"{quantity}:{low:g}": share
        for quantity, shares in distributions.items()
        for low, share in shares.items()
    }


def mean_of(moments: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each number over the moments that have it; bins that a histogram lacks are empty.

    A histogram's bin has the name ``quantity:lower edge``.
    """
    if len(moments) == 1:
        return dict(moments[0])
    known = [{name.partition(":")[0] for name in moment} for moment in moments]
    means = {}
    for name in dict.fromkeys(name for moment in moments for name in moment):
        quantity = name.partition(":")[0]
        values = [one.get(name, 0.0) for one, has in zip(moments, known, strict=True) if quantity in has]
        means[name] = float(np.mean(values))
    return means
