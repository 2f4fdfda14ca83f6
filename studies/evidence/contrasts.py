"""Contrasts as they were declared: measured within each seed, and judged as families."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from studies.statistics import Interval, judge, over_seeds

# An entry of a declaration: name, conditions `plus` and `minus`, perhaps a margin.
Entry = Mapping[str, Any]
# Points of a score of 1; alignment and uniformity are no correlations and stay as they are.
POINTS, UNITS = 100, {"alignment_uniformity": 1}


def measured(
    design: Mapping[str, Any], rows: pd.DataFrame, kind: str = "contrasts"
) -> Iterator[tuple[Entry, Interval]]:
    """Yield the declared contrasts of a part, over the seeds that have all of their conditions.

    A contrast is the mean score over the conditions ``plus`` minus that over ``minus``, which are
    patterns of labels. It has no seed where no row has a label that a pattern asks for.
    """
    labels, score = list(dict.fromkeys(rows.label)), design.get("score", "sts")
    for entry in design.get(kind, ()):
        weights: dict[str, float] = {}
        for side, sign in (("plus", 1), ("minus", -1)):
            sets = [fnmatch.filter(labels, pattern) or [pattern] for pattern in entry[side]]
            matches = [label for matching in sets for label in matching]
            for label in matches:
                weights[label] = weights.get(label, 0.0) + sign / len(matches)
        yield entry, over_seeds(by_seed(rows, weights, score))


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


def judged_table(contrasts: Sequence[tuple[Mapping[str, Any], Entry, Interval]]) -> pd.DataFrame:
    """A row for each contrast, judged as one family: its origin, interval and judgement."""
    judgements = judge([(interval, 0.0, entry.get("margin")) for _, entry, interval in contrasts])
    rows = []
    for (origin, entry, interval), judgement in zip(contrasts, judgements, strict=True):
        row = {**origin, "name": entry["name"], **numbers(interval)}
        row |= {"p": interval.p, "holm": judgement.p, "margin": entry.get("margin")}
        row |= {"equivalence": judgement.equivalence, "verdict": judgement.verdict}
        row |= {"within_margin": judgement.within_margin}
        rows.append(row)
    return pd.DataFrame(rows)


def judge_claim(contrasts: pd.DataFrame, claim: str = "better") -> str:
    """Judge a paper's claim: reproduced, contradicted or inconclusive.

    Args:
        contrasts: of its part, judged.
        claim: "better", by papers.toml's rule, or "equal": reproduced if every difference is shown
            to be within its margin, contradicted if one differs from 0 and is not.
    """
    significant = contrasts.holm < 0.05
    if claim == "equal":
        within = contrasts.within_margin == "yes"
        if (significant & ~within).any():
            return "contradicted"
        return "reproduced" if within.all() else "inconclusive"
    if (significant & (contrasts.estimate < 0)).any():
        return "contradicted"
    return "reproduced" if (significant & (contrasts.estimate > 0)).all() else "inconclusive"
