"""What the committed rows of the second round say: tables, verdicts and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    yield from _count_runs(rows)
    complete = {name: table for name, table in rows.items() if is_whole(name, table)}
    contrasts = judge_parts(complete)
    for row in contrasts.itertuples():
        margin = {"yes": ", within its margin", "no": ", not shown to be within its margin"}
        yield (
            f"{row.name}: {row.estimate:+.2f} ({row.low:+.2f} to {row.high:+.2f}), "
            f"{row.seeds} seeds: {row.verdict}{margin.get(row.within_margin, '')}"
        )
    yield _table(committed / "contrasts.csv", contrasts)
    if "heads" in complete:
        yield _picture(committed / "heads.png", figures.draw_heads, complete["heads"], untrained)
    for name in OVER_RATES:
        if name in complete:
            yield from _write_over_rates(name, complete[name], committed, untrained)
    yield from _write_claims(contrasts, committed)
    if "surface" in complete:
        yield from _write_surface(complete["surface"], committed, untrained)
    if (file := committed / prediction.FEATURES.name).exists():
        features, design = pd.read_csv(file), prediction.declared()
        first = prediction.first_runs()
        yield from _write_prediction(committed, "prediction", features, first, FIRST)
        runs = prediction.runs_of(complete, design)
        yield from _write_prediction(committed, "declared-prediction", features, runs, design)
    if (file := committed / interventions.TABLE.name).exists():
        yield from _write_interventions(pd.read_csv(file), committed)


def _write_claims(contrasts: pd.DataFrame, committed: Path) -> Iterator[str]:
    """What becomes of the papers' claims whose runs are all there, and pictures of them."""
    judged = set(contrasts.get("part", ()))
    for name, part in claims().items():
        if name in judged:
            verdict = judge_claim(contrasts[contrasts.part == name], part.get("claim", "better"))
            yield f"{CLAIMS[name]}: {verdict}"
    for picture, (file, _) in CLAIM_PICTURES.items():
        if judged & declaration(file)["parts"].keys():
            yield _picture(committed / f"{picture}.png", figures.draw_claims, contrasts, picture)


def _count_runs(rows: dict[str, pd.DataFrame]) -> Iterator[str]:
    for name, table in rows.items():
        seeds = table.groupby("label").seed.nunique()
        diverged = (table.state == DIVERGED).sum()
        yield (
            f"{name}: {len(table)} runs, {seeds.min()} to {seeds.max()} seeds a condition"
            f"{f', {diverged} diverged and count as the untrained encoder' if diverged else ''}"
        )


def _table(path: Path, table: pd.DataFrame) -> str:
    return f"Wrote {write_table(path, table)}"


def _picture(path: Path, draw: Callable[..., Figure], *content: Any) -> str:
    return f"Wrote {write_picture(path, draw, *content)}"


def _write_over_rates(
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


def _write_interventions(rows: pd.DataFrame, committed: Path) -> Iterator[str]:
    """What orders losses as their outcomes do, and what lines leave out."""
    orders, shares = interventions.correlations(rows), interventions.left_out(rows)
    yield _table(committed / "interventions-orders.csv", orders)
    yield _table(committed / "interventions-left-out.csv", shares)
    yield _picture(committed / "interventions.png", figures.draw_interventions, orders, shares)


def write_splits(committed: Path = ROWS) -> str:
    """Write ``surface-splits.csv`` beside the response surface's committed rows; takes minutes."""
    table = surface.factors_of(read_rows(committed)["surface"])
    return _table(committed / "surface-splits.csv", surface.splits(table))


def _write_surface(rows: pd.DataFrame, committed: Path, untrained: float) -> Iterator[str]:
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
