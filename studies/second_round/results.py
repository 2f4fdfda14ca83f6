"""What the committed rows say: contrasts as verdicts, and a picture of every finished part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gradlab.plotting import COLORS
from gradlab.sweep import DIVERGED
from studies.drawing import bars, figure_legend, mark_untrained, panels, write_picture
from studies.runs import write_table
from studies.second_round import interventions, over_rates, prediction, surface
from studies.second_round.feature import STEPS
from studies.second_round.prediction import FEATURE, FIRST, Design
from studies.second_round.rounds import (
    ROWS,
    claim,
    declaration,
    is_whole,
    judged,
    read_rows,
    sweep_of,
)

# Losses that the feature is most wrong about.
NAMED = ("vicreg", "mhs", "mpt")
# What is measured of an intervention, as its picture says it.
MEASURES = {
    "alignment": "change of alignment", "uniformity": "change of uniformity",
    "pull": "pull", "hardest_share": "hardest share",
    "components": "line in pull, hardest share", "changes": "line in alignment, uniformity",
    "both": "line in all four",
}  # fmt: skip
# The papers' claims, by the part that tests each.
CLAIMS = {
    "distance": "MoCoSE, Figure 2: maximum traceable distance",
    "distance-batch": "MoCoSE, Figure 3: the same at other batch sizes",
    "projection": "MoCoSE, Table 4: layers of the projection",
    "queue-length": "MoCoSE, Table 7: length of the queue",
    "slices": "MoCoSE, Table 8: part of the queue",
    "esimcse": "ESimCSE, Tables 6 and 7: its two parts",
    "repetition": "ESimCSE, Table 9: rate of repetition",
    "queue": "ESimCSE, Table 11: length of the queue",
}
# Parts that compare conditions at several learning rates.
OVER_RATES = ("rates", "uniform", "long")
RECIPES, BEGINNINGS = ("SimCSE", "ESimCSE", "MoCoSE"), ("random", "identity")


def write_results(committed: Path = ROWS) -> Iterator[str]:
    """Write ``contrasts.csv`` and the pictures beside the committed rows; yield what to tell."""
    rows, untrained = read_rows(committed), 100 * declaration()["protocol"]["untrained"]
    for part, one in rows.items():
        seeds = one.groupby("label").seed.nunique()
        diverged = (one.state == DIVERGED).sum()
        yield (
            f"{part}: {len(one)} runs, {seeds.min()} to {seeds.max()} seeds a condition"
            f"{f', {diverged} diverged and count as the untrained encoder' if diverged else ''}"
        )
    # No look at a part before all of its runs are there.
    finished = {part: one for part, one in rows.items() if is_whole(part, one)}
    contrasts = judged(finished)
    for one in contrasts.itertuples():
        yield (
            f"{one.name}: {one.estimate:+.2f} ({one.low:+.2f} to {one.high:+.2f}), "
            f"{one.seeds} seeds: {one.verdict}"
            if one.seeds > 1
            else f"{one.name}: fewer than two seeds have all of its conditions"
        )
    yield _table(committed / "contrasts.csv", contrasts)
    if "heads" in finished:
        yield _picture(committed / "heads.png", draw_heads, finished["heads"], untrained)
    for part in OVER_RATES:
        if part in finished:
            table = over_rates.table_of(part, finished[part])
            yield _table(committed / f"{part}-means.csv", over_rates.means(table))
            yield _table(committed / f"{part}-differences.csv", over_rates.differences(table))
            yield _picture(committed / f"{part}.png", over_rates.draw, table, untrained)
            if "stsb_dev_best" in finished[part]:
                table = over_rates.table_of(part, finished[part], over_rates.AT_DEV)
                found = over_rates.differences(table)
                yield _table(committed / f"{part}-dev-differences.csv", found)
    claims = {part: finished[part] for part in CLAIMS if part in finished}
    for part in claims:
        yield f"{CLAIMS[part]}: {claim(contrasts[contrasts.part == part])}"
    if claims:
        yield _picture(committed / "claims.png", draw_claims, claims, untrained)
    if "surface" in finished:
        yield from _write_surface(finished["surface"], committed, untrained)
    if (file := committed / prediction.FEATURES.name).exists():
        features, design = pd.read_csv(file), prediction.declared()
        yield from _write_prediction(
            committed, "prediction", features, prediction.first_runs(), FIRST
        )
        if all(part in finished for part in design.parts):
            runs = prediction.runs_of_parts(finished, design)
            yield from _write_prediction(committed, "declared-prediction", features, runs, design)
    if (file := interventions.TABLE).exists():
        yield from _write_interventions(pd.read_csv(file), committed)


def _table(path: Path, table: pd.DataFrame) -> str:
    return f"Wrote {write_table(path, table)}"


def _picture(path: Path, draw: Callable[..., Figure], *told: Any) -> str:
    return f"Wrote {write_picture(path, draw, *told)}"


def _write_interventions(made: pd.DataFrame, committed: Path) -> Iterator[str]:
    """What orders losses as their outcomes do, and what lines leave out."""
    about = interventions.declaration()
    wanted = len(about["seeds"]) * len(about["kept"]) * len(about["losses"]["names"])
    if len(made) < wanted:
        yield f"interventions: {len(made)} of {wanted} are made"
        return
    orders, left = interventions.correlations(made), interventions.left_out(made)
    yield _table(committed / "interventions-orders.csv", orders)
    yield _table(committed / "interventions-left-out.csv", left)
    yield _picture(committed / "interventions.png", draw_interventions, orders, left)


def write_splits(committed: Path) -> str:
    """Write ``surface-splits.csv`` beside the response surface's committed rows; takes minutes."""
    table = surface.factors_of(read_rows(committed)["surface"])
    return _table(committed / "surface-splits.csv", surface.splits(table))


def _write_surface(rows: pd.DataFrame, committed: Path, untrained: float) -> Iterator[str]:
    """Errors and curves of the models of the response surface."""
    table = surface.factors_of(rows)
    found, lines = surface.ten_fold(table), surface.curves(table)
    for one in found.itertuples():
        yield (
            f"{one.model}: error {one.error:.1f} over {len(table)} runs, "
            f"{one.error_above:.1f} over the better half"
        )
    yield _table(committed / "surface-errors.csv", found)
    yield _table(committed / "surface-curves.csv", lines)
    yield _picture(committed / "surface.png", surface.draw, table, lines, untrained)


def _write_prediction(
    committed: Path, stem: str, features: pd.DataFrame, runs: pd.DataFrame, design: Design
) -> Iterator[str]:
    """Errors of the feature and its rivals on the tested runs of a design, and their picture."""
    if left := prediction.unmeasured(features, runs):
        yield f"{stem}: not judged before the features of {left} more conditions are measured"
        return
    table = prediction.predicted(features, runs, design)
    found = prediction.errors(table)
    yield f"{stem}: {len(table)} tested runs of {table.loss.nunique()} losses, errors in points"
    for one in found.itertuples():
        beside = f"; the feature's exceeds it by {one.excess:.1f} ({one.low:.1f} to {one.high:.1f})"
        yield (
            f"{one.predictor}: {one.error:.1f} ({one.error_low:.1f} to {one.error_high:.1f}), "
            f"{one.error_above:.1f} ({one.above_low:.1f} to {one.above_high:.1f}) "
            f"above the untrained encoder{'' if one.predictor == FEATURE else beside}"
        )
    if design != FIRST:
        yield f"{stem}: {prediction.outcome(found)}"
        for step in STEPS:
            own = features.assign(feature=features[f"feature_{step}"])
            alone = prediction.errors(prediction.predicted(own, runs, design))
            rivals = ", ".join(
                f"{one.excess:.1f} ({one.low:.1f} to {one.high:.1f}) beside {one.predictor}"
                for one in alone[alone.predictor != FEATURE].itertuples()
            )
            yield f"feature after {step} steps alone, not declared: {alone.error[0]:.1f}; {rivals}"
    yield _table(committed / f"{stem}s.csv", table)
    yield _table(committed / f"{stem}-errors.csv", found)
    yield _table(committed / f"{stem}-parts.csv", prediction.by_part(table))
    yield _picture(committed / f"{stem}.png", draw_prediction, features, runs, design, found)


def draw_prediction(
    features: pd.DataFrame, runs: pd.DataFrame, design: Design, found: pd.DataFrame
) -> Figure:
    """Scores over the feature, and the error of every predictor with its interval."""
    figure, (left, right) = panels(3.2, 1, 2, width_ratios=(3, 2))
    table = runs.merge(features.groupby(["part", "label"], as_index=False).feature.mean())
    mark_untrained(left, 100 * declaration()["protocol"]["untrained"])
    parts = [(part, "0.65", "fitted on") for part in design.fitted]
    parts += [(one, color, "tested on") for one, color in zip(design.tested, COLORS, strict=False)]
    look: Any = {"mec": "white", "mew": 0.4, "ms": 5}
    for part, color, said in parts:
        own = table[table.part == part]
        left.plot(own.feature, own.score, "o", color=color, label=f"{said}: {part}", **look)
    for one in table[table.label.isin(NAMED)].itertuples():
        beside: Any = {"xytext": (-6, -2), "textcoords": "offset points", "ha": "right"}
        left.annotate(one.label, (one.feature, one.score), **beside)
    left.set(xlabel="feature: do cosines move towards gold?", ylabel="STS average x 100")
    order = found.sort_values("error", ascending=False)
    places = np.arange(len(order))
    all_runs = order.error, order.error_low, order.error_high
    better = order.error_above, order.above_low, order.above_high
    look = {"fmt": "o", "ms": 4.5, "lw": 1}
    for shift, color, interval, said in (
        (0.15, "black", all_runs, "all tested runs"),
        (-0.15, "0.6", better, "those above the untrained encoder"),
    ):
        error = bars(*interval)
        right.errorbar(interval[0], places + shift, xerr=error, color=color, label=said, **look)
    right.set_yticks(places, order.predictor)
    right.set(xlabel="root mean square error, points", xlim=(0, None))
    for axis in (left, right):
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=1, fontsize="small")
    return figure


def draw_heads(rows: pd.DataFrame, untrained: float) -> Figure:
    """Scores of every recipe with either beginning of its heads: a dot a seed, joined by lines."""
    figure, (axis,) = panels(3.0)
    wide = (100 * rows.set_index(["seed", "label"]).sts).unstack()
    look: Any = {"color": "0.7", "mec": "none", "ms": 5, "lw": 0.8}
    places = []
    for at, recipe in enumerate(RECIPES):
        here, color = 3 * at + np.arange(2), COLORS[at]
        places += list(here)
        scores = wide.reindex(columns=[f"{recipe}, head_initial={one}" for one in BEGINNINGS])
        axis.plot(here, scores.T, "o-", mfc=color, **look)
        label = "mean" if at == 0 else "_mean"
        axis.hlines(scores.mean(), here - 0.3, here + 0.3, color=color, lw=2, label=label)
        axis.annotate(recipe, (here.mean(), 1.02), xycoords=("data", "axes fraction"), ha="center")
    mark_untrained(axis, untrained)
    axis.set_xticks(places, [f"heads:\n{one}" for one in BEGINNINGS] * len(RECIPES))
    axis.set(ylabel="STS average x 100")
    axis.plot([], [], "o-", mfc=COLORS[0], label="a seed", **look)
    axis.legend(loc="lower left")
    return figure


def draw_claims(parts: Mapping[str, pd.DataFrame], untrained: float) -> Figure:
    """Scores of the conditions of the papers' claims: a dot a seed, and means."""
    counts = [one.label.nunique() for one in parts.values()]
    height = 0.23 * sum(counts) + 0.75 * len(counts) + 0.6
    figure, axes = panels(height, len(counts), height_ratios=counts)
    for at, (axis, (part, one)) in enumerate(zip(axes, parts.items(), strict=True)):
        labels = [point.title() for point in sweep_of(part).points({})]
        places = [labels.index(label) for label in one.label]
        means = one.groupby("label").sts.mean()
        dots: Any = {"ms": 4, "mec": "none", "alpha": 0.6, "label": "a seed"}
        axis.plot(100 * one.sts, places, "o", color=COLORS[0], **dots)
        ticks: Any = {"ms": 11, "mew": 2, "label": "mean"}
        axis.plot(100 * means[labels], range(len(labels)), "|", color=COLORS[0], **ticks)
        if at == 0 or 100 * one.sts.min() < untrained:
            mark_untrained(axis, untrained, along="y")
        said = [label.replace("_", " ").replace("=", ": ") for label in labels]
        axis.set_yticks(range(len(labels)), said, fontsize="small")
        axis.set(ylim=(len(labels) - 0.5, -0.5))
        axis.set_title(CLAIMS[part], fontsize="small", loc="left")
    figure_legend(figure, axes[0], "outside upper right", ncols=3)
    axes[-1].set(xlabel="STS average x 100")
    return figure


def draw_interventions(orders: pd.DataFrame, left: pd.DataFrame) -> Figure:
    """How each measure orders losses over the kept steps, and the variance that lines leave out."""
    figure, axes = panels(3.4, 1, 2)
    for axis, table, column in ((axes[0], orders, "what"), (axes[1], left, "fitted")):
        steps = sorted(table.step.unique())
        for place, (name, one) in enumerate(table.groupby(column, sort=False)):
            at = np.arange(len(steps)) + 0.12 * (place - 1.5)
            look: Any = {"color": COLORS[place], "label": MEASURES[str(name)]}
            error = bars(one["mean"], one.low, one.high)
            axis.errorbar(at, one["mean"], error, fmt="o", ms=4.5, lw=1, **look)
        axis.set_xticks(range(len(steps)), [str(step) for step in steps])
        axis.set(xlabel="steps before the intervention")
    axes[0].axhline(0, color="0.4", lw=0.9, zorder=0)
    axes[0].set(ylabel="rank correlation with the outcome", ylim=(-1.05, 1.05))
    axes[1].axhline(1, color="0.4", lw=0.9, ls="--", zorder=0, label="mean of the other losses")
    axes[1].set(ylabel="share of the variance left out", ylim=(0, None))
    for axis in axes:
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize="x-small")
    return figure
