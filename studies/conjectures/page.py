"""The page of a study's report, in Markdown: the tables beside it, as rows for its template."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from gradlab import get_loss
from studies.conjectures.conditions import TWICE
from studies.conjectures.repairs import PUBLISHED_GAINS
from studies.conjectures.results import METRICS
from studies.conjectures.section import Frames
from studies.conjectures.settings import LEMMA_STEPS, TEMPERATURE
from studies.conjectures.verdicts import CONJECTURE, PERFORMANCE_MARGIN
from studies.statistics import OVER_SEEDS, OVER_SENTENCES

_TEMPLATES = Environment(
    loader=PackageLoader("studies.conjectures"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip
Cells = list[list[Any]]
# Up to so many seeds the report says that they are few.
FEW_SEEDS = 2
RULES = {"tangent": "Lemma 1", "projected": "exact, projected", "unprojected": "exact, unprojected"}
COMPARISONS = (
    "conjecture1-comparisons", "conjecture2-comparisons", "conjecture3-comparisons", "repairs-gains",
    "repairs-effective-ratio",
)  # fmt: skip


def page(tables: Frames, figures: Sequence[str], manifest: Mapping[str, Any], notes: Sequence[str]) -> str:
    """The report as Markdown.

    Args:
        tables: the CSV files by name.
        figures: the pictures' names.
        manifest: of the study.
        notes: what sections add in words.
    """
    least = _least_seeds(tables)
    return rendered(
        "report.md",
        tables=list(tables),
        figures=figures,
        manifest=manifest,
        settings=manifest["settings"],
        notes=notes,
        missing=manifest["runs"] - manifest["finished"],
        over_seeds=OVER_SEEDS,
        over_sentences=OVER_SENTENCES,
        temperature=TEMPERATURE,
        lemma_steps=LEMMA_STEPS,
        verdicts=_verdicts(tables),
        claims=_claims(tables),
        few_seeds=least <= FEW_SEEDS,
        least_seeds=least,
        performance_margin=PERFORMANCE_MARGIN,
        angles=_angles(tables),
        gaps=_gaps(tables),
        shares=_shares(tables),
        minimum_ratios=_minimum_ratios(tables),
        closer=_closer(tables),
        assumptions=_assumptions(tables),
        repairs=_repairs(tables),
        fewer=_fewer(tables),
        metrics=list(METRICS.values()),
        published_gains=[(get_loss(name).title, gain) for name, gain in PUBLISHED_GAINS.items()],
        differences={name: _comparisons(tables, name) for name in COMPARISONS},
    )


def rendered(template: str, **content: Any) -> str:
    """A page from its template, with no more than one blank line between two others."""
    text = _TEMPLATES.get_template(template).render(**content)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _verdicts(tables: Frames) -> Cells:
    if "verdicts" not in tables:
        return []
    return [[row.conjecture, row.statement, f"**{row.verdict}**"] for row in tables["verdicts"].itertuples()]


def _claims(tables: Frames) -> Cells:
    if "claims" not in tables:
        return []
    return [
        [row.conjecture, row.role, row.claim, f"{row.statistic} > {row.threshold:g}", row.seeds,
         _interval(row, 1, 4), "" if math.isnan(row.p_holm) else f"{row.p_holm:.2g}", row.verdict]
        for row in tables["claims"].itertuples()
    ]  # fmt: skip


def _least_seeds(tables: Frames) -> int:
    """The fewest seeds that a deciding claim rests on."""
    if "claims" not in tables:
        return 0
    claims = tables["claims"]
    return int(claims.seeds[claims.role == CONJECTURE].min())


def _means(tables: Frames, name: str, keys: list[str]) -> list[tuple[tuple[Any, ...], pd.Series]]:
    """Means over seeds by the columns ``keys``, in the order of the table; nothing if there is no such table."""
    if name not in tables:
        return []
    groups = tables[name].groupby(keys, sort=False)
    return [(key, part.drop(columns=keys).mean(numeric_only=True)) for key, part in groups]


def _angles(tables: Frames) -> Cells:
    if "conjecture1-angles" not in tables:
        return []
    columns = ("theta_pos_mean", "theta_pos_std", "theta_neg_mean", "theta_neg_std", "gap")
    return [
        [name, len(part), *(f"{math.degrees(part[column].mean()):.2f}" for column in columns)]
        for name, part in tables["conjecture1-angles"].groupby("condition", sort=False)
    ]


def _gaps(tables: Frames) -> Cells:
    if "conjecture1-gap" not in tables:
        return []
    return [
        [row["difference"], row["interval"], _count(row), _interval_of(row, 180 / math.pi, 3)]
        for _, row in tables["conjecture1-gap"].iterrows()
    ]


def _shares(tables: Frames) -> Cells:
    if "conjecture2-share" not in tables:
        return []
    table = tables["conjecture2-share"]
    gated = {"gated": table[table.anchors == "gated"].drop(columns="anchors")}
    return [
        [keys[0], f"{keys[1]:g}", f"{mean['count']:.0f}", f"{mean.projection:.3f}", f"{mean.share:.3f}"]
        for keys, mean in _means(gated, "gated", ["encoder", "temperature"])
    ]


def _minimum_ratios(tables: Frames) -> Cells:
    names = ("feasible", "satisfied_1", "satisfied_1.5", "satisfied_2")
    return [
        [keys[0], keys[1], f"{keys[2]:g}", RULES[keys[3]], *(f"{100 * mean[name]:.1f}" for name in names),
         f"{mean['median']:.3f}"]
        for keys, mean in _means(tables, "conjecture3-minimum-ratio", ["encoder", "triples", "step", "rule"])
    ]  # fmt: skip


def _closer(tables: Frames) -> Cells:
    names = ("closer_one", "closer_own", "lemma_one", "lemma_own")
    return [
        [get_loss(keys[0]).title, f"{keys[1]:g}", f"{mean.ratio_median:.2f}",
         *(f"{100 * mean[name]:.2f}" for name in names)]
        for keys, mean in _means(tables, "conjecture3-closer", ["condition", "step"])
    ]  # fmt: skip


def _assumptions(tables: Frames) -> Cells:
    names = ("mean", "std", "skewness", "excess_kurtosis", "distance_from_normal")
    return [
        [*keys, *(f"{mean[name]:.3f}" for name in names)]
        for keys, mean in _means(tables, "assumptions-angles", ["encoder", "angle"])
    ]


def _repairs(tables: Frames) -> Cells:
    if "repairs" not in tables:
        return []
    return [
        [row["type"], _title(row["condition"]), int(row["stsb_dev_count"]), *(_score(row, name) for name in METRICS),
         _published(row["published_sts_average"]), _published(row["published_transfer_average"])]
        for _, row in tables["repairs"].iterrows()
    ]  # fmt: skip


def _fewer(tables: Frames) -> list[str]:
    """Which scores of the repairs rest on fewer seeds than the column of seeds says."""
    if "repairs" not in tables:
        return []
    repairs = tables["repairs"]
    most = {
        metric: int(repairs[f"{metric}_count"].max()) for metric in METRICS if f"{metric}_count" in repairs
    }
    return [
        f"{METRICS[metric]} over {count} {'seed' if count == 1 else 'seeds'} at most"
        for metric, count in most.items()
        if 0 < count < most["stsb_dev"]
    ]


def _comparisons(tables: Frames, name: str) -> Cells:
    if name not in tables:
        return []
    rows = []
    for _, row in tables[name].iterrows():
        p = row.get("p", math.nan)
        rows.append(
            [f"{_title(row['first'])} − {_title(row['second'])}", METRICS[row["metric"]], row["interval"],
             _count(row), _interval_of(row, 100, 2), "" if math.isnan(p) else f"{p:.2g}"]
        )  # fmt: skip
    return rows


def _count(row: pd.Series) -> str:
    """How many seeds or sentences an interval is over."""
    count, unit = int(row["count"]), str(row["unit"])
    return f"{count} {unit.removesuffix('s') if count == 1 else unit}"


def _title(condition: str) -> str:
    """A loss's name in words; other conditions as they are."""
    from gradlab import loss_names

    name, suffix = (condition.removesuffix(TWICE), TWICE) if condition.endswith(TWICE) else (condition, "")
    return (get_loss(name).title if name in loss_names() and name != "baseline" else name) + suffix


def _score(row: pd.Series, metric: str) -> str:
    mean, low = row.get(f"{metric}_mean", math.nan), row.get(f"{metric}_low", math.nan)
    if math.isnan(mean):
        return ""
    return f"{100 * mean:.2f}" + ("" if math.isnan(low) else f" ± {100 * (mean - low):.2f}")


def _published(value: float) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.2f}"


def _interval(row: Any, scale: float, digits: int) -> str:
    return _interval_of({"mean": row.mean, "low": row.low, "high": row.high}, scale, digits)


def _interval_of(row: Mapping[str, float] | pd.Series, scale: float, digits: int) -> str:
    mean, low, high = (scale * float(row[name]) for name in ("mean", "low", "high"))
    if math.isnan(mean):
        return ""
    return f"{mean:+.{digits}f}" + ("" if math.isnan(low) else f" [{low:+.{digits}f}, {high:+.{digits}f}]")
