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
        return self.at_each(group, name, [step])[0]

    def at_each(self, group: str, name: str, steps: Iterable[int]) -> list[float | None]:
        """The values recorded at each of ``steps``, or last before it."""
        known, values = self.series(group, name)
        places = [bisect.bisect_right(known, step) for step in steps]
        return [values[place - 1] if place else None for place in places]

    def to_frame(self) -> DataFrame:
        """One row a step, as a pandas DataFrame; diagnostics by their names, of other groups ``group/name``."""
        import pandas as pd

        columns = {}
        for group in self.groups():
            for name in self.names(group):
                steps, values = self.series(group, name)
                columns[name if group == DIAGNOSTICS else f"{group}/{name}"] = pd.Series(values, index=steps)
        return pd.DataFrame(columns).rename_axis("step")


def histogram_rows(distributions: Mapping[str, Mapping[float, float]]) -> dict[str, float]:
    """What to record of histograms of one moment in the group `HISTOGRAM`: ``quantity:lower edge`` -> share."""
    return {
        f"{quantity}:{low:g}": share
        for quantity, shares in distributions.items()
        for low, share in shares.items()
    }


def mean_of(moments: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each number over the moments that have it; bins that a histogram lacks are empty."""
    known = [{_quantity(name) for name in moment} for moment in moments]
    names = dict.fromkeys(name for moment in moments for name in moment)
    return {
        name: float(
            np.mean(
                [
                    one.get(name, 0.0)
                    for one, has in zip(moments, known, strict=True)
                    if _quantity(name) in has
                ]
            )
        )
        for name in names
    }


def _quantity(name: str) -> str:
    """What a histogram's bin, ``quantity:lower edge``, is of; any other name as it is."""
    return name.partition(":")[0]
