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

# Points of a score of 1; alignment and uniformity are no correlations and stay as they are.
POINTS, UNITS = 100, {"alignment_uniformity": 1}


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
        weights = {label: 1 / len(self.plus) for label in self.plus}
        for label in self.minus:
            weights[label] = weights.get(label, 0.0) - 1 / len(self.minus)
        return weights

    def interval(self, rows: pd.DataFrame) -> Interval:
        """Of the difference, over the seeds that have all of its conditions."""
        return over_seeds(by_seed(rows, self.weights, self.score))


def declared(
    design: Mapping[str, Any], labels: Collection[str], kind: str = "contrasts"
) -> tuple[Contrast, ...]:
    """The contrasts that are declared for a part of these conditions.

    Raises:
        GradlabError: a pattern that is no condition's label.
    """
    score, contrasts = design.get("score", "sts"), []
    for entry in design.get(kind, ()):
        plus, minus = (_matching(entry[side], labels) for side in ("plus", "minus"))
        contrasts.append(Contrast(entry["name"], plus, minus, entry.get("margin"), score))
    return tuple(contrasts)


def _matching(patterns: Iterable[str], labels: Collection[str]) -> tuple[str, ...]:
    matches: list[str] = []
    for pattern in patterns:
        own = fnmatch.filter(labels, pattern)
        if not own:
            raise GradlabError(
                f"a contrast names {pattern!r}, which is none of the conditions' labels"
            )
        matches += own
    return tuple(matches)


def by_seed(table: pd.DataFrame, weights: Mapping[str, float], score: str = "sts") -> list[float]:
    """A weighted sum of a score over conditions, once for each seed that has all of them.

    It is in points, unless the score has a unit of its own (`UNITS`).
    """
    own = table[table.label.isin(weights)].pivot(index="seed", columns="label", values=score)
    wide = own.reindex(columns=list(weights)).dropna()
    points = UNITS.get(score, POINTS)
    return (points * wide.to_numpy() @ np.array(list(weights.values()))).tolist()


def numbers(interval: Interval) -> dict[str, float]:
    """Columns of an interval over seeds."""
    return interval.columns("estimate", "low", "high", "seeds")


def judged_table(measured: Sequence[tuple[Mapping[str, Any], Contrast, Interval]]) -> pd.DataFrame:
    """A row for each contrast, judged as one family: its origin, interval and judgement."""
    judgements = judge([(interval, 0.0, contrast.margin) for _, contrast, interval in measured])
    rows = []
    for (origin, contrast, interval), judgement in zip(measured, judgements, strict=True):
        row = {**origin, "name": contrast.name, **numbers(interval)}
        row |= {"p": interval.p, "holm": judgement.p, "margin": contrast.margin}
        row |= {"equivalence": judgement.equivalence, "verdict": judgement.verdict}
        row |= {"within_margin": judgement.within_margin}
        rows.append(row)
    return pd.DataFrame(rows)
