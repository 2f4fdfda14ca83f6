"""What the simulations assume: normal angles of fixed spread (Fig. 9, Appendix A.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from gradlab.simulation import Setting
from studies.conjectures.conditions import BASELINE
from studies.conjectures.results import Results, Section, binned
from studies.conjectures.settings import StudySettings
from studies.conjectures.views import HeldOutViews

BINS = np.linspace(-5, 5, 41)


def section(results: Results, settings: StudySettings) -> Section | None:
    """Moments of the angles and their distance from a normal distribution, before and after training."""
    rows: list[dict[str, Any]] = []
    standard: dict[tuple[str, str], list[NDArray[Any]]] = {}
    for seed, encoder, views in results.kept(BASELINE):
        for angle, values in angles_of(views).items():
            rows.append({"encoder": encoder, "seed": seed, "angle": angle, **normality(values)})
            standard.setdefault((encoder, angle), []).append((values - values.mean()) / values.std())
    if not rows:
        return None
    parts = [
        binned(
            BINS,
            "density",
            np.histogram(np.concatenate(values), BINS, density=True)[0],
            encoder=encoder,
            angle=angle,
        )
        for (encoder, angle), values in standard.items()
    ]
    table = pd.concat(parts, ignore_index=True)
    note = (
        f"The paper's simulations take a spread of {Setting.sigma_pos:g} for the positive angles and "
        f"{Setting.sigma_neg:g} for the negative ones."
    )
    tables = {
        "assumptions-angles": pd.DataFrame(rows),
        "assumptions-distribution": table[table.density > 0].reset_index(drop=True),
    }
    return Section(tables, notes=(note,))


def angles_of(views: HeldOutViews) -> dict[str, NDArray[Any]]:
    """Positive and negative angles in radians, and the latter less the mean of their anchor; all flat."""
    angles = views.angles()
    angles["negative of one anchor"] = angles["negative"] - angles["negative"].mean(axis=-1, keepdims=True)
    return {name: values.ravel() for name, values in angles.items()}


def normality(values: NDArray[Any]) -> dict[str, float]:
    """Mean, spread, skewness, excess kurtosis, and the largest difference of the distribution function from the
    fitted normal's (Kolmogorov's distance, in [0, 1])."""
    mean, spread = float(values.mean()), float(values.std(ddof=1))
    return {
        "count": len(values),
        "mean": mean,
        "std": spread,
        "skewness": float(stats.skew(values)),
        "excess_kurtosis": float(stats.kurtosis(values)),
        "distance_from_normal": float(stats.kstest(values, "norm", args=(mean, spread)).statistic),
    }
