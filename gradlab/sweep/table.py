"""Results of a sweep: one row per point, with mean and spread over its seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradlab.files import spreadsheet_text, write_text
from gradlab.sweep.flat_settings import plain
from gradlab.sweep.spec import Spec
from gradlab.sweep.trials import DIVERGED, ENDED, FAILED, FINISHED, RUNNING, WAITING, Run
from gradlab.sweep.worker import run_folder

if TYPE_CHECKING:
    import pandas as pd

# Files of the two tables: one row per point, and one row per run.
TABLES = ("results.csv", "runs.csv")
STATES = (FINISHED, RUNNING, WAITING, FAILED, DIVERGED)


def summarise(spec: Spec, runs: Sequence[Run]) -> pd.DataFrame:
    """Return one row per point, in the sweep's order; a run that two points share counts in both.

    The columns are label, stage, the varied settings, metric, n (finished runs), mean,
    standard_deviation (over seeds, with n - 1), min, max, and the number of runs in each state.
    Undefined values are NaN.
    """
    import pandas as pd

    by_key = {run.key: run for run in runs}
    points = spec.points({run.key: run.value for run in runs if run.state in ENDED})
    names = dict.fromkeys(name for point in points for name in point.varied)
    rows = []
    for point in points:
        of_point = [by_key[key] for key in point.runs.values()]
        scores = pd.Series([run.value for run in of_point if run.value is not None], dtype=float)
        summary = scores.agg(["mean", "std", "min", "max"]).rename({"std": "standard_deviation"})
        rows.append(
            {"label": point.label, "stage": point.stage}
            | {name: plain(point.settings.get(name, "")) for name in names}
            | {"metric": spec.metric, "n": len(scores), **summary}
            | {state: sum(run.state == state for run in of_point) for state in STATES}
        )
    return pd.DataFrame(rows)


def as_text(spec: Spec, rows: pd.DataFrame) -> str:
    """Return the table as text for display; the best mean is marked."""
    settings = list(rows.columns[2 : rows.columns.get_loc("metric")])
    labelled = rows["label"].any()
    table = rows[["label"]].rename(columns={"label": "point"}) if labelled else rows[[]].copy()
    if not labelled or spec.grid or spec.stages:  # else labels identify the points
        table = table.join(rows[settings])
    total = rows[list(STATES)].sum(axis=1)
    whole = rows["n"] == total
    means = rows["mean"].where(whole)
    best = means.max() if spec.direction == "maximize" else means.min()
    notes = [
        ", ".join(
            [f"{row[state]} {state}" for state in (RUNNING, FAILED, DIVERGED) if row[state]]
            + (["best"] if whole.sum() > 1 and means[place] == best else [])
        )
        for place, row in rows.iterrows()
    ]
    for name, column in {"mean": "mean", "sd": "standard_deviation"}.items():
        table[name] = rows[column].map(lambda mean: "" if mean != mean else f"{mean:.4f}")
    table["n"] = rows["n"].astype(str) + "/" + total.astype(str)
    table[""] = notes
    return (
        f"{spec.name}: {spec.metric}, mean and standard deviation over seeds\n"
        f"{table.to_string(index=False)}"
    )


def write_tables(spec: Spec, runs: Sequence[Run], output: Path) -> list[Path]:
    """Write ``results.csv`` (`summarise`) and ``runs.csv`` (one row per run, all measurements)."""
    import pandas as pd

    names = dict.fromkeys(name for run in runs for name in run.point.varied)
    records: list[dict[str, Any]] = [
        {
            "key": run.key,
            "label": run.point.label,
            "folder": run_folder(output, run).relative_to(output).as_posix(),
        }
        | {name: plain(run.settings.get(name, "")) for name in (*names, "seed")}
        | {name: getattr(run, name) for name in ("state", "attempts", "worker", "error")}
        | (run.results or {})
        for run in runs
    ]
    tables = dict(zip(TABLES, (summarise(spec, runs), pd.DataFrame(records)), strict=True))
    return [
        write_text(output / name, table.map(spreadsheet_text).to_csv(index=False))
        for name, table in tables.items()
    ]
