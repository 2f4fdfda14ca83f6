"""What the committed rows of the second round say: tables, verdicts and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from gradlab.sweep import DIVERGED
from studies.drawing import write_picture
from studies.pages import write_table
from studies.second_round import figures, interventions, over_rates, prediction, surface
from studies.second_round.declarations import (
    ROWS,
    claims,
    declaration,
    is_whole,
    judge_claim,
    judge_parts,
    read_rows,
)
from studies.second_round.figures import CLAIM_PICTURES, CLAIMS
from studies.second_round.prediction import FEATURE, FIRST, Design

# Experiments that compare conditions at several learning rates.
OVER_RATES = ("rates", "uniform", "long")
# Steps of a run at which the feature of the prediction was measured.
STEPS = (0, 10)


def write_results(committed: Path = ROWS) -> Iterator[str]:
    """Write tables and pictures beside the committed rows, and yield lines that say what they hold.

    An experiment counts when all of its declared runs are there.
    """
    rows, untrained = read_rows(committed), 100 * declaration()["protocol"]["untrained"]
    yield from count_runs(rows)
    yield from write_contrasts(rows, committed)
    yield _picture(committed / "heads.png", figures.draw_heads, rows["heads"], untrained)
    for name in OVER_RATES:
        yield from write_over_rates(name, rows[name], committed, untrained)
    yield from write_surface(rows["surface"], committed, untrained)
    yield from write_predictions(rows, committed)
    yield from write_interventions(pd.read_csv(committed / interventions.TABLE.name), committed)


def count_runs(rows: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Yield how many runs and seeds every part has, and how many of them diverged."""
    for name, table in rows.items():
        seeds = table.groupby("label").seed.nunique()
        diverged = (table.state == DIVERGED).sum()
        yield (
            f"{name}: {len(table)} runs, {seeds.min()} to {seeds.max()} seeds a condition"
            f"{f', {diverged} diverged and count as the untrained encoder' if diverged else ''}"
        )


def write_contrasts(rows: Mapping[str, pd.DataFrame], committed: Path) -> Iterator[str]:
    """Judge the parts that are whole: their contrasts, and what becomes of the papers' claims."""
    complete = {name: table for name, table in rows.items() if is_whole(name, table)}
    contrasts = judge_parts(complete)
    margin = {"yes": ", within its margin", "no": ", not shown to be within its margin"}
    for row in contrasts.itertuples():
        yield (
            f"{row.name}: {row.estimate:+.2f} ({row.low:+.2f} to {row.high:+.2f}), "
            f"{row.seeds} seeds: {row.verdict}{margin.get(row.within_margin, '')}"
        )
    yield _table(committed / "contrasts.csv", contrasts)
    for name, part in claims().items():
        if name in complete:
            verdict = judge_claim(contrasts[contrasts.part == name], part.get("claim", "better"))
            yield f"{CLAIMS[name]}: {verdict}"
    for picture, (file, _) in CLAIM_PICTURES.items():
        if complete.keys() & declaration(file)["parts"].keys():
            yield _picture(committed / f"{picture}.png", figures.draw_claims, contrasts, picture)


def _table(path: Path, table: pd.DataFrame) -> str:
    return f"Wrote {write_table(path, table)}"


def _picture(path: Path, draw: Callable[..., Figure], *content: Any) -> str:
    return f"Wrote {write_picture(path, draw, *content)}"


def write_over_rates(
    name: str, rows: pd.DataFrame, committed: Path, untrained: float
) -> Iterator[str]:
    """Means and differences over learning rates; those of STS-B dev where runs selected by it."""
    table = over_rates.table_of(name, rows)
    yield _table(committed / f"{name}-means.csv", over_rates.means(table))
    yield _table(committed / f"{name}-differences.csv", over_rates.differences(table))
    yield _picture(committed / f"{name}.png", over_rates.draw, table, untrained)
    if "stsb_dev_best" in rows:
        dev = over_rates.table_of(name, rows, over_rates.AT_DEV)
        yield _table(committed / f"{name}-dev-differences.csv", over_rates.differences(dev))


def write_interventions(rows: pd.DataFrame, committed: Path) -> Iterator[str]:
    """What orders losses as their outcomes do, and what lines leave out."""
    orders, shares = interventions.correlations(rows), interventions.left_out(rows)
    yield _table(committed / "interventions-orders.csv", orders)
    yield _table(committed / "interventions-left-out.csv", shares)
    yield _picture(committed / "interventions.png", figures.draw_interventions, orders, shares)


def write_splits(committed: Path = ROWS) -> str:
    """Write ``surface-splits.csv`` beside the response surface's committed rows; takes minutes."""
    table = surface.factors_of(read_rows(committed)["surface"])
    return _table(committed / "surface-splits.csv", surface.splits(table))


def write_surface(rows: pd.DataFrame, committed: Path, untrained: float) -> Iterator[str]:
    """Errors and curves of the models of the response surface."""
    table = surface.factors_of(rows)
    errors, lines = surface.ten_fold(table), surface.curves(table)
    for row in errors.itertuples():
        yield (
            f"{row.model}: error {row.error:.1f} over {len(table)} runs, "
            f"{row.error_above:.1f} over the better half"
        )
    yield _table(committed / "surface-errors.csv", errors)
    yield _table(committed / "surface-curves.csv", lines)
    yield _picture(committed / "surface.png", surface.draw, table, lines, untrained)


def write_predictions(rows: Mapping[str, pd.DataFrame], committed: Path) -> Iterator[str]:
    """Errors on what the first round trained, and on what was declared for the second."""
    features = pd.read_csv(committed / prediction.FEATURES.name)
    first, design = prediction.first_runs(), prediction.declared()
    yield from _write_prediction(committed, "prediction", features, first, FIRST)
    runs = prediction.runs_of(rows, design)
    yield from _write_prediction(committed, "declared-prediction", features, runs, design)


def _write_prediction(
    committed: Path, stem: str, features: pd.DataFrame, runs: pd.DataFrame, design: Design
) -> Iterator[str]:
    """Errors of the feature and its rivals on the tested runs of a design, and their picture."""
    table = prediction.predicted(features, runs, design)
    errors = prediction.errors(table)
    yield f"{stem}: {len(table)} tested runs of {table.loss.nunique()} losses, errors in points"
    for row in errors.itertuples():
        excess = f"; the feature's exceeds it by {row.excess:.1f} ({row.low:.1f} to {row.high:.1f})"
        yield (
            f"{row.predictor}: {row.error:.1f} ({row.error_low:.1f} to {row.error_high:.1f}), "
            f"{row.error_above:.1f} ({row.above_low:.1f} to {row.above_high:.1f}) "
            f"above the untrained encoder{'' if row.predictor == FEATURE else excess}"
        )
    if design != FIRST:
        yield f"{stem}: {prediction.outcome(errors)}"
        for step in STEPS:
            by_step = features.assign(feature=features[f"feature_{step}"])
            of_step = prediction.errors(prediction.predicted(by_step, runs, design))
            rivals = ", ".join(
                f"{row.excess:.1f} ({row.low:.1f} to {row.high:.1f}) beside {row.predictor}"
                for row in of_step[of_step.predictor != FEATURE].itertuples()
            )
            error = f"{of_step.error[0]:.1f}"
            yield f"feature after {step} steps alone, not declared: {error}; {rivals}"
    yield _table(committed / f"{stem}s.csv", table)
    yield _table(committed / f"{stem}-errors.csv", errors)
    yield _table(committed / f"{stem}-parts.csv", prediction.by_part(table))
    content = features, runs, design, errors
    yield _picture(committed / f"{stem}.png", figures.draw_prediction, *content)
