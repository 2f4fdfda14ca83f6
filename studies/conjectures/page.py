"""The pages of a study's report: their templates show the tables that lie beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from gradlab import get_loss, loss_names
from gradlab.gradient import LEMMA_STEP
from gradlab.simulation import Setting
from studies.conjectures.conditions import TWICE
from studies.conjectures.repairs import PUBLISHED_GAINS
from studies.conjectures.results import METRICS, Frames
from studies.conjectures.settings import LEMMA_STEPS, TEMPERATURE
from studies.conjectures.verdicts import CONJECTURE, PERFORMANCE_MARGIN
from studies.pages import render
from studies.statistics import OVER_SEEDS, OVER_SENTENCES

Row = Mapping[str, Any]
# Up to so many seeds the report says that they are few.
FEW_SEEDS = 2
# From here on a share has no room left to grow.
CEILING = 0.99


def page(template: str, tables: Frames, figures: Sequence[str], manifest: Mapping[str, Any]) -> str:
    """One of the pages: ``report.md``, or ``verdicts.md`` in plain words."""
    # The fewest seeds that a deciding claim rests on; 0 without claims.
    claims, closer = tables.get("claims"), tables.get("conjecture3-closer")
    least = 0 if claims is None else int(claims.seeds[claims.role == CONJECTURE].min())
    at_ceiling = closer is not None and closer[closer.step == LEMMA_STEP].closer_one.min() > CEILING
    return render(
        "conjectures",
        template,
        FILTERS,
        tables=tables,
        rows={name: table.to_dict("records") for name, table in tables.items()},
        manifest=manifest,
        settings=manifest["settings"],
        missing=manifest["runs"] - manifest["finished"],
        figures=figures,
        assumed=Setting,
        over_seeds=OVER_SEEDS,
        over_sentences=OVER_SENTENCES,
        degrees=180 / math.pi,
        temperature=TEMPERATURE,
        lemma_steps=LEMMA_STEPS,
        few_seeds=least <= FEW_SEEDS,
        seeds=least,
        performance_margin=PERFORMANCE_MARGIN,
        fewer=_fewer(tables),
        metrics=METRICS,
        published_gains=PUBLISHED_GAINS,
        at_ceiling=at_ceiling,
        step=LEMMA_STEP,
        ceiling=CEILING,
    )


def _fewer(tables: Frames) -> list[str]:
    """Which scores of the repairs rest on fewer seeds than the column of seeds says."""
    if "repairs" not in tables:
        return []
    repairs = tables["repairs"]
    most = {one: int(repairs[f"{one}_count"].max()) for one in METRICS if f"{one}_count" in repairs}
    return [
        f"{METRICS[metric]} over {count} {'seed' if count == 1 else 'seeds'} at most"
        for metric, count in most.items()
        if 0 < count < most["stsb_dev"]
    ]


def _means(table: pd.DataFrame, *keys: str) -> list[dict[str, Any]]:
    """Rows of means over seeds, and of how many, by ``keys``, in the order of the table."""
    groups = table.groupby(list(keys), sort=False)
    means = groups.mean(numeric_only=True).assign(seeds=groups.size())
    return means.reset_index().to_dict("records")


def _titled(condition: str) -> str:
    """A loss's name in words; other conditions as they are."""
    name = condition.removesuffix(TWICE)
    title = get_loss(name).title if name in loss_names() and name != "baseline" else name
    return title + condition[len(name) :]


def _score(row: Row, metric: str) -> str:
    mean, low = row.get(f"{metric}_mean", math.nan), row.get(f"{metric}_low", math.nan)
    if math.isnan(mean):
        return ""
    return f"{100 * mean:.2f}" + ("" if math.isnan(low) else f" ± {100 * (mean - low):.2f}")


def _interval(row: Row, digits: int, scale: float = 1.0) -> str:
    mean, low, high = (f"{scale * row[name]:+.{digits}f}" for name in ("mean", "low", "high"))
    if math.isnan(row["mean"]):
        return ""
    return mean if math.isnan(row["low"]) else f"{mean} [{low}, {high}]"


def _counted(row: Row) -> str:
    """How many seeds or sentences an interval is over."""
    count, unit = int(row["count"]), str(row["unit"])
    return f"{count} {unit.removesuffix('s') if count == 1 else unit}"


def _number(value: float, form: str) -> str:
    return "" if math.isnan(value) else form % value


FILTERS: dict[str, Any] = {
    "means": _means, "titled": _titled, "score": _score, "interval": _interval,
    "counted": _counted, "number": _number,
}  # fmt: skip
