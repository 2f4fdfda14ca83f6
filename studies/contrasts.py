"""Contrasts from a declaration: read, measured within each seed, and judged as one family."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from gradlab import GradlabError
from studies.statistics import Interval, judge, over_seeds


@dataclass(frozen=True)
class Contrast:
    """The mean ``score`` over conditions ``plus`` minus that over ``minus``, by label.

    Differences within the margin are no effect of a size that matters; None where none was stated.
    """

    name: str
    plus: tuple[str, ...]
    minus: tuple[str, ...]
    margin: float | None = None
    score: str = "sts"

    @property
    def weights(self) -> Mapping[str, float]:
        """Label -> its factor."""
        found = {label: 1 / len(self.plus) for label in self.plus}
        for label in self.minus:
            found[label] = found.get(label, 0.0) - 1 / len(self.minus)
        return found

    def interval(self, rows: pd.DataFrame) -> Interval:
        """Of the difference in points, over the seeds that have all of its conditions."""
        return over_seeds(by_seed(rows, self.weights, self.score))


def declared(
    part: Mapping[str, Any], labels: Collection[str], kind: str = "contrasts"
) -> tuple[Contrast, ...]:
    """The contrasts that are declared for a part of these conditions.

    Raises:
        GradlabError: a pattern that is no condition's label.
    """
    score, found = part.get("score", "sts"), []
    for one in part.get(kind, ()):
        plus, minus = (_matching(one[side], labels) for side in ("plus", "minus"))
        found.append(Contrast(one["name"], plus, minus, one.get("margin"), score))
    return tuple(found)


def _matching(patterns: Iterable[str], labels: Collection[str]) -> tuple[str, ...]:
    found: list[str] = []
    for pattern in patterns:
        matching = fnmatch.filter(labels, pattern)
        if not matching:
            raise GradlabError(
                f"a contrast names {pattern!r}, which is none of the conditions' labels"
            )
        found += matching
    return tuple(found)


def by_seed(table: pd.DataFrame, weights: Mapping[str, float], score: str = "sts") -> list[float]:
    """A weighted sum over conditions in points, once for each seed that has all of them."""
    own = table[table.label.isin(weights)].pivot(index="seed", columns="label", values=score)
    wide = own.reindex(columns=list(weights)).dropna()
    return (100 * wide.to_numpy() @ np.array(list(weights.values()))).tolist()


def numbers(interval: Interval) -> dict[str, float]:
    """Columns of an interval over seeds."""
    return interval.columns("estimate", "low", "high", "seeds")


def judged(found: Sequence[tuple[Mapping[str, Any], Contrast, Interval]]) -> pd.DataFrame:
    """A row for each contrast, judged as one family: its origin, its interval and its verdict."""
    verdicts = judge([(interval, 0.0, contrast.margin) for _, contrast, interval in found])
    rows = []
    for (about, contrast, interval), one in zip(found, verdicts, strict=True):
        row = {**about, "name": contrast.name, **numbers(interval), "p": interval.p, "holm": one.p}
        row |= {"margin": contrast.margin, "equivalence": one.equivalence, "verdict": one.verdict}
        rows.append(row)
    return pd.DataFrame(rows)
