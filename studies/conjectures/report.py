"""The report of a study: CSV files, pictures drawn from them, and pages that show both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gradlab import get_loss, loss_names
from gradlab.files import read_object, write_json, write_text
from gradlab.plotting import close, save
from gradlab.simulation import AngleGrid
from gradlab.sweep import DIVERGED, FINISHED, Run
from studies.conjectures import claims as rule
from studies.conjectures.conditions import LEMMA_STEPS, TEMPERATURE, TWICE, StudySettings
from studies.conjectures.figures import FEW_POINTS, FIGURES, finite_points, read_tables
from studies.conjectures.measures import PUBLISHED, TABLES
from studies.conjectures.results import METRICS, UNTUNED, Frames, Results, read_untuned
from studies.output import render
from studies.statistics import OVER_SEEDS, OVER_SENTENCES, six

Row = Mapping[str, Any]
PAGES = ("report.md", "verdicts.md")
# Decimals of a claim's numbers, by unit.
DIGITS = {"degrees": 2, "percent": 1, "percentage points": 2, "points": 1}


def write_report(
    folder: Path,
    sections: Sequence[str],
    runs: Sequence[Run],
    settings: StudySettings,
    about: dict[str, Any],
) -> Path:
    """Analyse the finished runs and write ``folder/report``; ``about`` is for its manifest."""
    ended = tuple(run for run in runs if run.state in (FINISHED, DIVERGED))
    results, place = Results(ended, folder, read_untuned(folder / UNTUNED)), folder / "report"
    tables = {"runs": results.table(), "training": results.training}
    for name in sections:
        tables |= TABLES[name](results, settings)
    # A table that is not written again would be out of date.
    for pattern in ("*.csv", "figure-*.png"):
        for path in place.glob(pattern):
            path.unlink()
    write_tables(place, tables)
    manifest = about | {"runs": len(runs), "finished": len(results.runs), "parts": list(sections)}
    write_json(place / "manifest.json", manifest)
    rewrite_report(place)
    return place


def rewrite_report(place: Path) -> list[Path]:
    """Judge the claims, draw the pictures and write the pages of a report from its tables.

    Pictures and pages can thus show nothing that is not in the tables. Returns the pages.
    """
    tables, manifest = read_tables(place), read_object(place / "manifest.json")
    settings = manifest["settings"]
    claims = rule.claims_table(rule.claims_of(tables, settings), settings["steps"])
    write_tables(place, {"claims": claims, "verdicts": rule.verdicts_table(claims)})
    tables = read_tables(place)
    drawings = {name: draw(tables) for name, draw in FIGURES.items()}
    pictures = {name: drawing[0] for name, drawing in drawings.items() if drawing is not None}
    for name, figure in pictures.items():
        save(figure, place / f"{name}.png")
        close(figure)
    pages = {name: page(name, tables, list(pictures), manifest) for name in PAGES}
    return [write_text(place / name, text) for name, text in pages.items()]


def write_tables(place: Path, tables: Frames) -> None:
    """Write tables that have rows as CSV files, with six significant digits."""
    for name, table in tables.items():
        if len(table):
            text = table.map(six).to_csv(index=False, lineterminator="\n")
            write_text(place / f"{name}.csv", text)


def page(template: str, tables: Frames, figures: Sequence[str], manifest: Mapping[str, Any]) -> str:
    """One of the pages: ``report.md``, or ``verdicts.md`` in plain words."""
    # The fewest seeds that a deciding claim rests on; 0 without claims.
    claims = tables.get("claims")
    seeds = 0 if claims is None else int(claims.seeds[claims.role == rule.CONJECTURE].min())
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
        assumed=AngleGrid,
        over_seeds=OVER_SEEDS,
        over_sentences=OVER_SENTENCES,
        degrees=180 / math.pi,
        temperature=TEMPERATURE,
        lemma_steps=LEMMA_STEPS,
        seeds=seeds,
        digits=DIGITS,
        fewer=_fewer(tables),
        metrics=METRICS,
        published_gains=PUBLISHED["gains"],
        rule=rule,
        few_points=FEW_POINTS,
        points={name: finite_points(tables, name) for name in tables if "performance" in name},
    )


def _fewer(tables: Frames) -> list[str]:
    """Which scores of the repairs rest on fewer seeds than the column of seeds says."""
    if "repairs" not in tables:
        return []
    table = tables["repairs"]
    most = {metric: int(table[f"{metric}_count"].max()) for metric in METRICS}
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


def _measured(row: Row, digits: int) -> str:
    """A claim's mean with its interval and unit, as a sentence says it."""
    unit = row["unit"] if isinstance(row["unit"], str) else ""
    unit = {"degrees": "°", "percent": "%"}.get(unit, f" {unit}" if unit else "")
    mean, low, high = (_fixed(row[name], digits) for name in ("mean", "low", "high"))
    return f"{mean}{unit} ({low} to {high})"


def _fixed(value: float, digits: int) -> str:
    """A number with so many decimals; what rounds to 0 has no sign."""
    text = f"{value:.{digits}f}"
    return text if float(text) else text.removeprefix("-")


def _counted(row: Row) -> str:
    """How many seeds or sentences an interval is over."""
    count, unit = int(row["count"]), str(row["unit"])
    return f"{count} {unit.removesuffix('s') if count == 1 else unit}"


def _number(value: float, form: str) -> str:
    return "" if math.isnan(value) else form % value


FILTERS: dict[str, Any] = {
    "means": _means, "titled": _titled, "score": _score, "interval": _interval,
    "counted": _counted, "measured": _measured, "number": _number,
}  # fmt: skip
