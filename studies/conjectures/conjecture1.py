"""Conjecture 1: dissipation keeps the gap between positives and negatives smaller (Figs. 5, 6)."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd

from studies.conjectures.conditions import BASELINE, NO_DISSIPATION, baseline
from studies.conjectures.results import Results, comparisons, density, interval_columns, summary
from studies.conjectures.settings import MARGIN, StudySettings
from studies.statistics import over_seeds, over_sentences

CONDITIONS = (BASELINE, NO_DISSIPATION)
BINS = np.linspace(0, math.pi, 91)
# Condition and seed -> the angles of held-out sentences.
Angles = dict[tuple[str, int], dict[str, Any]]


def tables_of(results: Results, settings: StudySettings) -> dict[str, pd.DataFrame]:
    """Angles with and without dissipation, and performance against the margin."""
    angles = {
        (condition, seed): views.angles()
        for condition in CONDITIONS
        for seed, views in results.tuned(condition)
    }
    seeds = [seed for name, seed in angles if name == BASELINE and (NO_DISSIPATION, seed) in angles]
    if not seeds:
        return {}
    gaps = [_gap(angles[NO_DISSIPATION, seed]) - _gap(angles[BASELINE, seed]) for seed in seeds]
    means = [float(gap.mean()) for gap in gaps]
    margins = [(m, baseline(margin=m).name) for m in sorted({MARGIN, *settings.margins})]
    rivals = [NO_DISSIPATION, *(name for m, name in margins if m != MARGIN)]
    intervals = pd.DataFrame(map(interval_columns, (over_seeds(means), over_sentences(gaps))))
    intervals.insert(0, "difference", f"{NO_DISSIPATION} - {BASELINE}")
    return {
        "conjecture1-angles": _angles_table(angles),
        "conjecture1-gap": intervals,
        "conjecture1-distribution": _distribution(angles),
        "conjecture1-performance": summary(results, [*margins, (math.inf, NO_DISSIPATION)]),
        "conjecture1-comparisons": comparisons(results, [(BASELINE, name) for name in rivals]),
    }


def _gap(angles: dict[str, Any]) -> Any:
    """One number a held-out sentence: mean angle to its negatives minus that to its positive."""
    return (angles["negative"].mean(axis=-1) - angles["positive"]).ravel()


def _angles_table(by_run: Angles) -> pd.DataFrame:
    names = "gap", "gap_low_over_sentences", "gap_high_over_sentences", "sentences"
    rows = []
    for (condition, seed), angles in by_run.items():
        row: dict[str, Any] = {"condition": condition, "seed": seed}
        for short, pair in (("pos", "positive"), ("neg", "negative")):
            row[f"theta_{short}_mean"] = angles[pair].mean()
            row[f"theta_{short}_std"] = angles[pair].std(ddof=1)
        rows.append(row | over_sentences([_gap(angles)]).columns(*names))
    return pd.DataFrame(rows)


def _distribution(by_run: Angles) -> pd.DataFrame:
    """Densities over all seeds together, 1/radian; bins that are empty everywhere are left out."""
    densities = []
    for condition, pair in itertools.product(CONDITIONS, ("positive", "negative")):
        own = [angles[pair].ravel() for (name, _), angles in by_run.items() if name == condition]
        densities.append(density(BINS, own, condition=condition, pair=pair))
    table = pd.concat(densities, ignore_index=True)
    used = table.groupby("low")["density"].transform("max") > 0
    return table[used].reset_index(drop=True)
