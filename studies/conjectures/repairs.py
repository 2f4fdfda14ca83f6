"""Repaired non-contrastive losses, the originals and four contrastive ones (Fig. 1, Table 3)."""

from __future__ import annotations

from typing import Any

import pandas as pd

from studies.conjectures.conditions import BASELINE, CONTRASTIVE, REPAIRS, TWICE
from studies.conjectures.results import METRICS, Results, comparison
from studies.conjectures.settings import StudySettings
from studies.statistics import over_seeds

# Li et al. 2024, Table 3, BERT-base: condition -> (STS, transfer average), and gains by repair.
PUBLISHED = {
    "untuned": (56.70, 85.34),
    "infonce": (76.25, 85.81),
    "arccon": (77.25, 86.08),
    "mpt": (77.25, 87.56),
    "met": (78.38, 87.94),
    "modified_mhe": (78.40, 85.07),
    "modified_mhs": (78.27, 85.42),
    "modified_barlow_twins": (78.34, 85.28),
    "modified_vicreg": (78.24, 85.40),
}
PUBLISHED_GAINS = {"mhe": 15.78, "mhs": 5.54, "barlow_twins": 12.74, "vicreg": 12.71}
TYPES = {
    **dict.fromkeys(CONTRASTIVE, "contrastive"),
    **dict.fromkeys(REPAIRS, "original"),
    **dict.fromkeys(REPAIRS.values(), "repaired"),
    **dict.fromkeys([f"{name}{TWICE}" for name in REPAIRS.values()], "repaired, 2r"),
}


def tables_of(results: Results, settings: StudySettings) -> dict[str, pd.DataFrame]:
    """Scores of every loss over seeds, gains by repair, and the effect of the doubled ratio."""
    rows = [_row(results, condition, kind) for condition, kind in TYPES.items()]
    rows = [row for row in rows if row]
    if not rows:
        return {}
    gains, variants = [], []
    for metric in METRICS:
        for before, after in REPAIRS.items():
            gains += comparison(results, after, before, metric)
            variants += comparison(results, after + TWICE, after, metric)
        variants += comparison(results, BASELINE + TWICE, BASELINE, metric)
    return {
        "repairs": pd.DataFrame([*_untuned(results), *rows]),
        "repairs-gains": pd.DataFrame(gains),
        "repairs-effective-ratio": pd.DataFrame(variants),
    }


def _row(results: Results, condition: str, kind: str) -> dict[str, Any]:
    row: dict[str, Any] = {"type": kind, "condition": condition}
    for metric in METRICS:
        interval = over_seeds(results.scores(condition, metric).to_numpy())
        if metric == "stsb_dev" and not interval.count:
            return {}
        columns = {"count": interval.count} | interval.columns("mean", "low", "high")
        row |= {f"{metric}_{name}": value for name, value in columns.items()}
    return row | _published(condition)


def _published(condition: str) -> dict[str, Any]:
    names = "published_sts_average", "published_transfer_average"
    return dict(zip(names, PUBLISHED.get(condition, (None, None)), strict=True))


def _untuned(results: Results) -> list[dict[str, Any]]:
    rows = []
    for pooler, scores in results.untuned.items():
        row: dict[str, Any] = {"type": "untuned", "condition": f"untuned, {pooler}"}
        row |= {"stsb_dev_count": 1, "stsb_dev_mean": scores["stsb_dev"]}
        for name in ("sts", "transfer"):
            values = list(scores.get(name, {}).values())
            row[f"{name}_average_count"] = len(values) and 1
            row[f"{name}_average_mean"] = sum(values) / len(values) if values else None
        rows.append(row | _published("untuned" if pooler == "first_last" else ""))
    return rows
