"""The page of a study's report, in Markdown: the tables beside it, as rows for its template."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from gradlab import get_loss, loss_names
from gradlab.gradient import LEMMA_STEP
from studies.conjectures.conditions import TWICE
from studies.conjectures.repairs import PUBLISHED_GAINS
from studies.conjectures.results import METRICS, Frames
from studies.conjectures.settings import LEMMA_STEPS, TEMPERATURE
from studies.conjectures.verdicts import CONJECTURE, PERFORMANCE, PERFORMANCE_MARGIN
from studies.statistics import CONTRADICTED, INCONCLUSIVE, OVER_SEEDS, OVER_SENTENCES, SUPPORTED

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


# Conjecture -> question, and what the paper says.
CLAIMED = {
    1: (
        "Does gradient dissipation keep negatives and positives closer together?",
        "Once an anchor's negatives are far enough, the loss leaves the anchor alone. Without this, the gap between the angles to "
        "negatives and to positives grows needlessly (Conjecture 1, Figure 5).",
    ),
    2: (
        "Does the hardest negative dominate the gradient?",
        "At a temperature of 0.05 most of the push on an anchor comes from its nearest negative (Conjecture 2, Figure 7). "
        "The paper does not say what dominating is; here it is more than all other negatives together.",
    ),
    3: (
        "Does a larger ratio bring positives closer?",
        "Pulling harder than pushing meets the condition of Lemma 1 more often, and brings an anchor closer to its positive "
        "(Conjecture 3, Figure 8).",
    ),
}
ANSWERS = {
    SUPPORTED: "**Yes**, as the paper says.",
    CONTRADICTED: "**No**, the opposite was measured.",
    INCONCLUSIVE: "**Not decided.**",
}
# From here on a share has no room left to grow.
CEILING = 0.99


def page(tables: Frames, figures: Sequence[str], manifest: Mapping[str, Any], notes: Sequence[str]) -> str:
    """The report as Markdown, from its tables, the names of its pictures, and what sections add in words."""
    claims = tables.get("claims", pd.DataFrame({"seeds": [], "role": []}))
    least = int(claims.seeds[claims.role == CONJECTURE].min()) if len(claims) else 0
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
        few_seeds=least <= FEW_SEEDS,
        least_seeds=least,
        performance_margin=PERFORMANCE_MARGIN,
        fewer=_fewer(tables),
        metrics=list(METRICS.values()),
        published_gains=[(get_loss(name).title, gain) for name, gain in PUBLISHED_GAINS.items()],
        differences={name: _lines(tables, name, _comparison) for name in COMPARISONS},
        verdicts=_lines(
            tables, "verdicts", lambda row: [row["conjecture"], row["statement"], f"**{row['verdict']}**"]
        ),
        claims=_lines(tables, "claims", _claim),
        gaps=_lines(
            tables,
            "conjecture1-gap",
            lambda row: [row["difference"], row["interval"], _count(row), _interval(row, 180 / math.pi, 3)],
        ),
        repairs=_lines(tables, "repairs", _repair),
        angles=_angles(tables),
        **{
            name: _means(tables, table, keys, line)
            for name, (table, keys, line) in {
                "shares": ("conjecture2-share", ["anchors", "encoder", "temperature"], _share),
                "minimum_ratios": (
                    "conjecture3-minimum-ratio", ["encoder", "triples", "step", "rule"], _minimum_ratio
                ),
                "closer": ("conjecture3-closer", ["condition", "step"], _closer),
                "assumptions": ("assumptions-angles", ["encoder", "angle"], _assumption),
            }.items()
        },
    )  # fmt: skip


def plain_verdicts(tables: Frames, manifest: Mapping[str, Any]) -> str:
    """The verdicts in plain words: what the paper claims, what was measured here, and how sure that is."""
    claims = list(tables["claims"].itertuples()) if "claims" in tables else []
    closer = tables.get("conjecture3-closer")
    return rendered(
        "verdicts.md",
        manifest=manifest,
        settings=manifest["settings"],
        claims=claims,
        verdicts=list(tables["verdicts"].itertuples()) if claims else [],
        questions=CLAIMED,
        answers=ANSWERS,
        seeds=min((one.seeds for one in claims if one.role == CONJECTURE), default=0),
        scores=[one for one in claims if one.role == PERFORMANCE and one.seeds > 1],
        at_ceiling=closer is not None and closer[closer.step == LEMMA_STEP].closer_one.min() > CEILING,
        step=LEMMA_STEP,
        ceiling=CEILING,
    )


def rendered(template: str, **content: Any) -> str:
    """A page from its template, with no more than one blank line between two others."""
    text = _TEMPLATES.get_template(template).render(**content)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _lines(tables: Frames, name: str, line: Callable[[pd.Series], list[Any]]) -> Cells:
    """The cells of every row of a table; nothing if there is no such table."""
    return [line(row) for _, row in tables[name].iterrows()] if name in tables else []


def _means(
    tables: Frames, name: str, keys: list[str], line: Callable[[Any, pd.Series], list[Any] | None]
) -> Cells:
    """The cells of means over seeds by the columns ``keys``, in the order of the table."""
    if name not in tables:
        return []
    groups = tables[name].groupby(keys, sort=False)
    found = (line(key, part.drop(columns=keys).mean(numeric_only=True)) for key, part in groups)
    return [cells for cells in found if cells is not None]


def _claim(row: pd.Series) -> list[Any]:
    p = "" if math.isnan(row["p_holm"]) else f"{row['p_holm']:.2g}"
    return [row["conjecture"], row["role"], row["claim"], f"{row['statistic']} > {row['threshold']:g}", row["seeds"],
            _interval(row, 1, 4), p, row["verdict"]]  # fmt: skip


def _angles(tables: Frames) -> Cells:
    if "conjecture1-angles" not in tables:
        return []
    columns = ("theta_pos_mean", "theta_pos_std", "theta_neg_mean", "theta_neg_std", "gap")
    return [
        [name, len(part), *(f"{math.degrees(part[column].mean()):.2f}" for column in columns)]
        for name, part in tables["conjecture1-angles"].groupby("condition", sort=False)
    ]


def _share(key: Any, mean: pd.Series) -> list[Any] | None:
    anchors, encoder, temperature = key
    if anchors != "gated":
        return None
    return [
        encoder,
        f"{temperature:g}",
        f"{mean['count']:.0f}",
        f"{mean.projection:.3f}",
        f"{mean.share:.3f}",
    ]


def _minimum_ratio(key: Any, mean: pd.Series) -> list[Any]:
    encoder, triples, step, rule = key
    names = ("feasible", "satisfied_1", "satisfied_1.5", "satisfied_2")
    shares = [f"{100 * mean[name]:.1f}" for name in names]
    return [encoder, triples, f"{step:g}", RULES[rule], *shares, f"{mean['median']:.3f}"]


def _closer(key: Any, mean: pd.Series) -> list[Any]:
    shares = [f"{100 * mean[name]:.2f}" for name in ("closer_one", "closer_own", "lemma_one", "lemma_own")]
    return [get_loss(key[0]).title, f"{key[1]:g}", f"{mean.ratio_median:.2f}", *shares]


def _assumption(key: Any, mean: pd.Series) -> list[Any]:
    names = ("mean", "std", "skewness", "excess_kurtosis", "distance_from_normal")
    return [*key, *(f"{mean[name]:.3f}" for name in names)]


def _repair(row: pd.Series) -> list[Any]:
    published = [row["published_sts_average"], row["published_transfer_average"]]
    return [row["type"], _title(row["condition"]), int(row["stsb_dev_count"]),
            *(_score(row, name) for name in METRICS), *("" if pd.isna(one) else f"{one:.2f}" for one in published)]  # fmt: skip


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


def _comparison(row: pd.Series) -> list[Any]:
    p = row.get("p", math.nan)
    return [f"{_title(row['first'])} − {_title(row['second'])}", METRICS[row["metric"]], row["interval"],
            _count(row), _interval(row, 100, 2), "" if math.isnan(p) else f"{p:.2g}"]  # fmt: skip


def _count(row: pd.Series) -> str:
    """How many seeds or sentences an interval is over."""
    count, unit = int(row["count"]), str(row["unit"])
    return f"{count} {unit.removesuffix('s') if count == 1 else unit}"


def _title(condition: str) -> str:
    """A loss's name in words; other conditions as they are."""
    name, suffix = (condition.removesuffix(TWICE), TWICE) if condition.endswith(TWICE) else (condition, "")
    return (get_loss(name).title if name in loss_names() and name != "baseline" else name) + suffix


def _score(row: pd.Series, metric: str) -> str:
    mean, low = row.get(f"{metric}_mean", math.nan), row.get(f"{metric}_low", math.nan)
    if math.isnan(mean):
        return ""
    return f"{100 * mean:.2f}" + ("" if math.isnan(low) else f" ± {100 * (mean - low):.2f}")


def _interval(row: pd.Series, scale: float, digits: int) -> str:
    mean, low, high = (scale * float(row[name]) for name in ("mean", "low", "high"))
    if math.isnan(mean):
        return ""
    return f"{mean:+.{digits}f}" + ("" if math.isnan(low) else f" [{low:+.{digits}f}, {high:+.{digits}f}]")
