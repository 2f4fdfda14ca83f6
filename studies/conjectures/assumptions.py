"""What the simulations assume: normal angles of fixed spread (Fig. 9, Appendix A.1)."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from studies.conjectures.conditions import BASELINE
from studies.conjectures.results import Results, density
from studies.conjectures.settings import StudySettings
from studies.conjectures.views import HeldOutViews, moments
from studies.statistics import Array

BINS = np.linspace(-5, 5, 41)


def tables_of(results: Results, settings: StudySettings) -> dict[str, pd.DataFrame]:
    """Moments of the angles, and their distance from normality, before and after training."""
    rows: list[dict[str, Any]] = []
    standard = defaultdict(list)
    for seed, encoder, views in results.before_and_after(BASELINE):
        for angle, values in angles_of(views).items():
            rows.append({"encoder": encoder, "seed": seed, "angle": angle, **normality(values)})
            standard[encoder, angle].append((values - values.mean()) / values.std())
    if not rows:
        return {}
    densities = [
        density(BINS, of_seeds, encoder=encoder, angle=angle)
        for (encoder, angle), of_seeds in standard.items()
    ]
    table = pd.concat(densities, ignore_index=True)
    return {
        "assumptions-angles": pd.DataFrame(rows),
        "assumptions-distribution": table[table.density > 0].reset_index(drop=True),
    }


def angles_of(views: HeldOutViews) -> dict[str, Array]:
    """Flat angles in radians: positive, negative, and negative less the mean of their anchor."""
    angles = views.angles()
    negative = angles["negative"]
    angles["negative of one anchor"] = negative - negative.mean(axis=-1, keepdims=True)
    return {name: values.ravel() for name, values in angles.items()}


def normality(values: Array) -> dict[str, float]:
    """Their `moments`, and Kolmogorov's distance from the fitted normal distribution, in [0, 1]."""
    shape = moments(values)
    distance = stats.kstest(values, "norm", args=(shape["mean"], shape["std"])).statistic
    shape["excess_kurtosis"] = shape.pop("kurtosis")
    return {"count": len(values), **shape, "distance_from_normal": float(distance)}
