"""Pictures of the evidence, drawn from its rows and tables and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradlab.plotting import COLORS, TEXT_WIDTH, close, empty_figure, save
from gradlab.plotting import plot_style as style
from studies.evidence.analysis import Frames, with_cells

# Levels of the factorial.
GATES, WEIGHTS, RATIOS = (
    ("none", "hard", "soft"),
    ("uniform", "softmax .3", "softmax .05"),
    (0.5, 1.0, 1.75),
)
SCORE = "STS average x 100"
REGIMES = {"encoder": "on the encoder", "linear": "on a linear head"}
# Points that the axis of the contrasts shows; the margins, 1.5 and 3, would vanish beside
# differences of 25.
SHOWN = (-5.5, 8.5)


def draw(rows: Frames, tables: Frames, untrained: pd.DataFrame, folder: Path) -> dict[str, Path]:
    """Draw every picture whose tables are there: name -> file."""
    start = None if untrained.empty else 100 * untrained.set_index("label").loc["cls, as it is"]
    jobs: dict[str, Callable[[], Figure]] = {}
    if "encoder-recipes" in rows:
        jobs["recipes"] = partial(_recipes, rows, start)
    for regime in REGIMES:
        if f"{regime}-factorial" in rows:
            jobs[f"{regime}-factorial"] = partial(_factorial, rows[f"{regime}-factorial"], start)
        if (tables["contrasts"].regime == regime).any():
            jobs[f"{regime}-contrasts"] = partial(_contrasts, tables["contrasts"], regime)
        if f"{regime}-exchanges-shapley" in tables:
            jobs[f"{regime}-exchanges"] = partial(_exchanges, tables, regime)
        if f"{regime}-atlas-losses" in tables:
            jobs[f"{regime}-prediction"] = partial(_prediction, tables, regime)
    written = {}
    for name, job in jobs.items():
        with style():
            figure = job()
            written[name] = save(figure, folder / f"{name}.png")
            close(figure)
    return written


def _baseline(axis: Axes, start: pd.Series | None, column: str = "sts") -> None:
    if start is not None:
        axis.axhline(start[column], color="0.4", lw=0.9, ls="--", label="untrained", zorder=0)


def _factorial(table: pd.DataFrame, start: pd.Series | None) -> Figure:
    table = with_cells(table.assign(score=100 * table.sts))
    figure = empty_figure((TEXT_WIDTH, 3.0))
    axes = figure.subplots(1, 3, sharey=True)
    for axis, gate in zip(axes, GATES, strict=True):
        for place, (color, weight) in enumerate(zip(COLORS, WEIGHTS, strict=False)):
            chosen = table[(table.gate == gate) & (table.weight == weight)]
            means = chosen.groupby("ratio").score.mean()
            axis.plot(
                chosen.ratio + 0.05 * (place - 1), chosen.score, "o", ms=2.5, alpha=0.6, color=color
            )
            axis.plot(means.index + 0.05 * (place - 1), means, color=color, label=weight)
        _baseline(axis, start)
        axis.set_title(f"gate: {gate}")
        axis.set_xticks(RATIOS, [f"{one:g}" for one in RATIOS])
        axis.set_xlabel("ratio")
    axes[0].set_ylabel(SCORE)
    figure.legend(
        *axes[0].get_legend_handles_labels(), title="weight", loc="outside upper center", ncols=4
    )
    return figure


def _contrasts(table: pd.DataFrame, regime: str) -> Figure:
    table = table[(table.regime == regime) & (table.seeds > 2)]
    figure = empty_figure((TEXT_WIDTH, 1.0 + 0.25 * len(table)))
    axis = figure.subplots()
    low, high = SHOWN
    for place, one in enumerate(table.itertuples(index=False)):
        if one.margin > 0:
            axis.barh(place, 2 * one.margin, left=-one.margin, color="0.88", height=0.8, zorder=0)
        if not low < one.estimate < high:
            right = one.estimate > 0
            axis.annotate(
                f"{one.estimate:.1f} ({one.low:.1f} to {one.high:.1f})",
                (high if right else low, place),
                xytext=(-4 if right else 4, 0), textcoords="offset points",
                ha="right" if right else "left", va="center", fontsize=7.5,
            )  # fmt: skip
            continue
        error = [[one.estimate - max(one.low, low)], [min(one.high, high) - one.estimate]]
        face = COLORS[0] if one.holm < 0.05 else "white"
        axis.errorbar(
            one.estimate, place, xerr=error, fmt="o", color=COLORS[0], mfc=face, ms=4, capsize=2
        )
    axis.axvline(0, color="0.5", lw=0.8)
    axis.set(xlim=(low, high), ylim=(len(table) - 0.4, -0.6))
    axis.set_yticks(
        range(len(table)), [f"{one.part}: {one.name}" for one in table.itertuples(index=False)]
    )
    axis.set(
        xlabel="difference in points (grey: within the margin)",
        title=f"contrasts {REGIMES[regime]}, {table.seeds.min()} to {table.seeds.max()} seeds",
    )
    return figure


def _exchanges(tables: Frames, regime: str) -> Figure:
    table = tables[f"{regime}-exchanges-shapley"]
    losses = list(dict.fromkeys(table.loss))
    figure = empty_figure((TEXT_WIDTH, 2.8))
    axis = figure.subplots()
    for index, part in enumerate(("gate", "weight", "ratio", "all")):
        chosen = table[table.part == part]
        axis.errorbar(
            [losses.index(loss) + 0.18 * (index - 1.5) for loss in chosen.loss], chosen.estimate,
            yerr=[chosen.estimate - chosen.low, chosen.high - chosen.estimate], capsize=2, ms=4,
            fmt="s" if part == "all" else "o",
            color="0.3" if part == "all" else COLORS[index], label=part,
        )  # fmt: skip
    axis.axhline(0, color="0.5", lw=0.8)
    axis.set_xticks(range(len(losses)), [loss.replace("_", " ") for loss in losses])
    axis.set(
        ylabel="gain in points",
        title=f"repairs taken apart {REGIMES[regime]}: "
        f"95% intervals over {table.seeds.min()} seeds",
    )
    figure.legend(
        *axis.get_legend_handles_labels(),
        title="repaired part",
        ncols=4,
        loc="outside lower center",
    )
    return figure


def _recipes(rows: Frames, start: pd.Series | None) -> Figure:
    panels = [
        ("encoder-recipes", "sts", SCORE, "recipes", {
            "SimCSE": "SimCSE\n(MLP at random)", "ESimCSE": "ESimCSE\n(MLP at random)",
            "MoCoSE": "MoCoSE\n(heads: identity)"}),
        ("encoder-collapse", "stsb_dev", "STS-B dev x 100", "MoCoSE without its parts", {
            "MoCoSE": "as the\nrecipe", "heads at random": "heads\nat random",
            "predictor, no inertia": "predictor,\nη = 0",
            "symmetric, no inertia": "no predictor,\nη = 0"}),
    ]  # fmt: skip
    panels = [panel for panel in panels if panel[0] in rows]
    figure = empty_figure((TEXT_WIDTH, 2.9))
    axes = figure.subplots(
        1, len(panels), squeeze=False, width_ratios=[len(one[-1]) for one in panels]
    )[0]
    for axis, (name, score, label, title, order) in zip(axes, panels, strict=True):
        for place, one in enumerate(order):
            values = 100 * rows[name][rows[name].label == one][score]
            axis.plot(
                place + np.linspace(-0.12, 0.12, len(values)), values, "o", ms=4, color=COLORS[0]
            )
            if len(values):
                axis.hlines(values.mean(), place - 0.25, place + 0.25, color=COLORS[0])
        _baseline(axis, start, score)
        axis.set_xticks(range(len(order)), list(order.values()), fontsize=7)
        axis.set(ylabel=label, title=title, xlim=(-0.5, len(order) - 0.5))
    if start is not None:
        axes[0].legend(loc="lower right")
    return figure


def _prediction(tables: Frames, regime: str) -> Figure:
    figure = empty_figure((TEXT_WIDTH, 3.0))
    axes = figure.subplots(1, 2)
    titles = {"prediction": "losses with known results", "atlas": "losses without any result"}
    for axis, (part, title) in zip(axes, titles.items(), strict=True):
        table = tables[f"{regime}-{part}-losses"].sort_values("score")
        places = np.arange(len(table))
        outside = table.outside.to_numpy()
        for rows, face, label in (
            (~outside, COLORS[0], "predicted by components"),
            (outside, "white", None),
        ):
            axis.plot(
                table.components[rows],
                places[rows] + 0.15,
                "o",
                ms=4,
                color=COLORS[0],
                mfc=face,
                label=label,
            )
        rival = "alignment and uniformity"
        axis.plot(
            table[rival], places - 0.15, "^", ms=4, color=COLORS[1], label=f"predicted by {rival}"
        )
        axis.plot(table.score, places, "|", ms=11, mew=2, color="black", label="trained")
        mean = "mean of the softmax cells"
        axis.axvline(table[mean].iloc[0], color="0.4", lw=0.9, ls=":", label=mean)
        axis.set_yticks(places, table.loss.str.replace("_", " "))
        axis.set(xlabel=SCORE, title=title)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2)
    return figure
