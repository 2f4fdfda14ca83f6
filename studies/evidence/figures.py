"""Pictures of the evidence, drawn from its rows and tables and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gradlab.plotting import COLORS
from studies.drawing import (
    bars,
    draw_differences,
    figure_legend,
    in_lines,
    mark_untrained,
    panels,
    write_picture,
)
from studies.evidence.analysis import Frames, with_cells

# Levels of the factorial.
GATES, WEIGHTS, RATIOS = (
    ("none", "hard", "soft"),
    ("uniform", "softmax .3", "softmax .05"),
    (0.5, 1.0, 1.75),
)
SCORE = "STS average x 100"
REGIMES = {"encoder": "on the encoder", "linear": "on a linear head"}
# Titles, parts and levels of the contrasts, as their picture says them.
MESSAGES = {
    "encoder": "Uniform weights and collapse cost tens of points; other choices, a few",
    "linear": "On a linear head, the weight matters most",
}
PARTS = {"longer": ", longer runs"}
GATED = {
    "on": "as it is", "off": "always open", "random": "closed at random",
    "scaled": "as a scale for all",
}  # fmt: skip
WORDS = {
    " at softmax .": ", softmax at 0.", "softmax .": "softmax at 0.", "uniform": "uniform weights",
    "ratio 1": "ratio of 1", "all three": "gate, softmax and ratio of 1",
    "none of them": "none of the three", "symmetric, no inertia": "without predictor and inertia",
    "predictor, no inertia": "without inertia", "heads at random": "with heads at random",
}  # fmt: skip


def draw(rows: Frames, tables: Frames, untrained: pd.DataFrame, folder: Path) -> dict[str, Path]:
    """Draw every picture: name -> file."""
    drawings = drawings_of(rows, tables, untrained)
    return {name: write_picture(folder / f"{name}.png", *job) for name, job in drawings.items()}


def drawings_of(
    rows: Frames, tables: Frames, untrained: pd.DataFrame
) -> dict[str, tuple[Any, ...]]:
    """The function that draws each picture and its arguments, by name."""
    start = 100 * untrained.set_index("label").loc["cls, as it is"]
    jobs: dict[str, tuple[Any, ...]] = {"recipes": (_recipes, rows, start)}
    for regime in REGIMES:
        jobs[f"{regime}-factorial"] = (_factorial, rows[f"{regime}-factorial"], start)
        jobs[f"{regime}-contrasts"] = (_contrasts, tables["contrasts"], regime)
        jobs[f"{regime}-exchanges"] = (_exchanges, tables, regime)
        jobs[f"{regime}-prediction"] = (_prediction, tables, regime)
    return jobs


def _factorial(table: pd.DataFrame, start: pd.Series) -> Figure:
    table = with_cells(table.assign(score=100 * table.sts))
    figure, axes = panels(3.0, 1, 3, sharey=True)
    for axis, gate in zip(axes, GATES, strict=True):
        for place, (color, weight) in enumerate(zip(COLORS, WEIGHTS, strict=False)):
            chosen = table[(table.gate == gate) & (table.weight == weight)]
            means, beside = chosen.groupby("ratio").score.mean(), 0.05 * (place - 1)
            look: Any = {"ms": 2.5, "alpha": 0.6, "color": color}
            axis.plot(chosen.ratio + beside, chosen.score, "o", **look)
            axis.plot(means.index + beside, means, color=color, label=weight)
        mark_untrained(axis, start["sts"], "untrained")
        axis.set_title(f"gate: {gate}")
        axis.set_xticks(RATIOS, [f"{ratio:g}" for ratio in RATIOS])
        axis.set_xlabel("ratio")
    axes[0].set_ylabel(SCORE)
    figure_legend(figure, axes[0], "outside upper center", title="weight", ncols=4)
    return figure


def _contrasts(table: pd.DataFrame, regime: str) -> Figure:
    table = table[(table.regime == regime) & (table.seeds > 2)]
    labels = [in_words(row.part, row.name) for row in table.itertuples(index=False)]
    return draw_differences(table.assign(label=labels), MESSAGES[regime])


def in_words(part: str, name: str) -> str:
    """The label of a contrast ``A − B``: what stands in place of what, and where."""
    where = PARTS.get(part, "")
    first, _, second = name.partition(" − ")
    if part == "dissipation":
        return f"gate {GATED[first]}, not {GATED[second]}"
    label = f"{first}, not {second}{where}"
    for short, words in WORDS.items():
        label = label.replace(short, words)
    return label.replace(" .5", " 0.5")


def _exchanges(tables: Frames, regime: str) -> Figure:
    table = tables[f"{regime}-exchanges-shapley"]
    losses = list(dict.fromkeys(table.loss))
    figure, (axis,) = panels(2.8)
    for index, component in enumerate(("gate", "weight", "ratio", "all")):
        chosen = table[table.part == component]
        places = [losses.index(loss) + 0.18 * (index - 1.5) for loss in chosen.loss]
        error = bars(chosen.estimate, chosen.low, chosen.high)
        look: Any = {"fmt": "o", "color": COLORS[index]}
        if component == "all":
            look = {"fmt": "s", "color": "0.3"}
        axis.errorbar(places, chosen.estimate, error, capsize=2, ms=4, label=component, **look)
    axis.axhline(0, color="0.5", lw=0.8)
    axis.set_xticks(range(len(losses)), [loss.replace("_", " ") for loss in losses])
    axis.set_ylabel("gain in points")
    seeds = f"95% intervals over {table.seeds.min()} seeds"
    axis.set_title(in_lines(f"repairs taken apart {REGIMES[regime]}: {seeds}"))
    figure_legend(figure, axis, "outside lower center", title="repaired part", ncols=4)
    return figure


def _recipes(rows: Frames, start: pd.Series) -> Figure:
    charts = [
        ("encoder-recipes", "sts", SCORE, "recipes", {
            "SimCSE": "SimCSE\n(MLP at random)", "ESimCSE": "ESimCSE\n(MLP at random)",
            "MoCoSE": "MoCoSE\n(heads: identity)"}),
        ("encoder-collapse", "stsb_dev", "STS-B dev x 100", "MoCoSE without its parts", {
            "MoCoSE": "as the\nrecipe", "heads at random": "heads\nat random",
            "predictor, no inertia": "predictor,\nη = 0",
            "symmetric, no inertia": "no predictor,\nη = 0"}),
    ]  # fmt: skip
    figure, axes = panels(2.9, 1, len(charts), width_ratios=[len(chart[-1]) for chart in charts])
    for axis, (name, score, label, title, order) in zip(axes, charts, strict=True):
        for place, condition in enumerate(order):
            values = 100 * rows[name][rows[name].label == condition][score]
            beside = np.linspace(-0.12, 0.12, len(values))
            axis.plot(place + beside, values, "o", ms=4, color=COLORS[0])
            axis.hlines(values.mean(), place - 0.25, place + 0.25, color=COLORS[0])
        mark_untrained(axis, start[score], "untrained")
        axis.set_xticks(range(len(order)), list(order.values()), fontsize=7)
        axis.set(ylabel=label, title=title, xlim=(-0.5, len(order) - 0.5))
    axes[0].legend(loc="lower right")
    return figure


def _prediction(tables: Frames, regime: str) -> Figure:
    figure, axes = panels(3.0, 1, 2)
    titles = {"prediction": "losses with known results", "atlas": "losses without any result"}
    for axis, (name, title) in zip(axes, titles.items(), strict=True):
        table = tables[f"{regime}-{name}-losses"].sort_values("score")
        places = np.arange(len(table))
        outside, own, rival = table.outside.to_numpy(), "components", "alignment and uniformity"
        look: Any = {"ms": 4, "color": COLORS[0], "label": f"predicted by {own}"}
        axis.plot(table[own][~outside], places[~outside] + 0.15, "o", **look)
        look |= {"mfc": "white", "label": None}
        axis.plot(table[own][outside], places[outside] + 0.15, "o", **look)
        look = {"ms": 4, "color": COLORS[1], "label": f"predicted by {rival}"}
        axis.plot(table[rival], places - 0.15, "^", **look)
        axis.plot(table.score, places, "|", ms=11, mew=2, color="black", label="trained")
        mean = "mean of the softmax cells"
        axis.axvline(table[mean].iloc[0], color="0.4", lw=0.9, ls=":", label=mean)
        axis.set_yticks(places, table.loss.str.replace("_", " "))
        axis.set(xlabel=SCORE, title=title)
    figure_legend(figure, axes[0], "outside lower center", ncols=2)
    return figure
