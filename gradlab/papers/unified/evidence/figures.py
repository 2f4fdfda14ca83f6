"""Pictures of the evidence, drawn from its tables and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gradlab.papers.unified.evidence.analysis import Frames
from gradlab.papers.unified.evidence.contrasts import GATES, RATIOS, WEIGHTS
from gradlab.plotting.style import COLORS, TEXT_WIDTH, close, empty_figure, save, style


def draw(tables: Frames, folder: Path) -> dict[str, Path]:
    """Draw every picture whose tables are there: name -> file; those of a regime begin with its name."""
    jobs: dict[str, tuple[Callable[[Frames], Figure], Frames]] = {}
    if "encoder-recipes" in tables:
        jobs["recipes"] = (_recipes, tables)
    for regime in ("encoder", "linear"):
        own = {
            name.removeprefix(f"{regime}-"): one for name, one in tables.items() if name.startswith(regime)
        }
        for name, (needed, function) in _PICTURES.items():
            if needed in own:
                jobs[f"{regime}-{name}"] = (function, own)
    written = {}
    for name, (function, chosen) in jobs.items():
        with style():
            figure = function(chosen)
            written[name] = save(figure, folder / f"{name}.png")
            close(figure)
    return written


def _factorial(tables: Frames) -> Figure:
    cells = tables["factorial-cells"]
    figure = empty_figure((TEXT_WIDTH, 2.8))
    axes = figure.subplots(1, 3, sharey=True)
    for axis, gate in zip(axes, GATES, strict=True):
        for color, weight in zip(COLORS, WEIGHTS, strict=False):
            chosen = cells[(cells.gate == gate) & (cells.weight == weight)].sort_values("ratio")
            half = 1.96 * chosen.deviation / np.sqrt(chosen.seeds)
            axis.errorbar(chosen.ratio, chosen.score, yerr=half, color=color, marker="o", ms=3.5, capsize=2, label=weight)  # fmt: skip
        axis.set_title(f"gate: {gate}")
        axis.set_xticks(RATIOS, [f"{one:g}" for one in RATIOS])
        axis.set_xlabel("ratio")
    axes[0].set_ylabel("STS average x 100")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, title="weight", frameon=False, loc="outside upper center", ncols=3)
    return figure


def _effects(table: pd.DataFrame, margin: pd.Series | float, title: str) -> Figure:
    figure = empty_figure((TEXT_WIDTH, 0.8 + 0.34 * len(table)))
    axis = figure.subplots()
    places = np.arange(len(table))[::-1]
    limits = np.broadcast_to(np.asarray(margin, dtype=float), len(table))
    axis.barh(places, 2 * limits, left=-limits, color="0.92", height=0.7)
    axis.errorbar(table.estimate, places, xerr=[table.estimate - table.low, table.high - table.estimate],
                  fmt="o", color=COLORS[0], ms=4, capsize=2)  # fmt: skip
    axis.axvline(0, color="0.5", lw=0.8)
    axis.use_sticky_edges = False
    axis.margins(x=0.05)
    labels = [f"{row.name_}: {row.verdict}" for row in table.rename(columns={"name": "name_"}).itertuples()]
    axis.set_yticks(places, labels)
    axis.set_xlabel(title)
    return figure


def _contrasts(tables: Frames) -> Figure:
    table = tables["factorial-contrasts"]
    return _effects(table, table.margin, "difference of STS averages x 100 (grey: within the margin)")


def _shapley(tables: Frames) -> Figure:
    table = tables["exchanges-shapley"]
    losses = list(dict.fromkeys(table.loss))
    figure = empty_figure((TEXT_WIDTH, 2.6))
    axis = figure.subplots()
    parts = ("gate", "weight", "ratio", "all")
    for index, part in enumerate(parts):
        chosen = table[table.part == part].set_index("loss")
        for place, loss in enumerate(losses):
            if loss in chosen.index:
                row = chosen.loc[loss]
                axis.errorbar(place + 0.18 * (index - 1.5), row.estimate,
                              yerr=[[row.estimate - row.low], [row.high - row.estimate]], fmt="s" if part == "all" else "o",
                              color="0.3" if part == "all" else COLORS[index], ms=4, capsize=2,
                              label=part if place == 0 else None)  # fmt: skip
    axis.axhline(0, color="0.5", lw=0.8)
    axis.set_xticks(range(len(losses)), losses)
    axis.set_ylabel("gain, STS average x 100")
    axis.legend(title="repaired part", frameon=False, ncols=4, loc="best")
    return figure


def _recipes(tables: Frames) -> Figure:
    panels: list[tuple[str, str, str, tuple[str, ...]]] = [
        ("encoder-recipes", "sts", "STS average x 100", ("SimCSE", "ESimCSE", "MoCoSE"))
    ]
    if "encoder-collapse" in tables:
        labels = ("MoCoSE", "heads at random", "predictor, no inertia", "symmetric, no inertia")
        panels.append(("encoder-collapse", "stsb_dev", "STS-B dev x 100", labels))
    names = list(dict.fromkeys(one for *_, order in panels for one in order))  # the same color in both panels
    figure = empty_figure((TEXT_WIDTH, 2.6))
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (name, score, label, order) in zip(axes, panels, strict=True):
        table = tables[name]
        if name == "encoder-collapse":
            table = pd.concat([tables["encoder-recipes"], table])
        for place, one in enumerate(order):
            color = COLORS[names.index(one)]
            values = 100 * table[table.label == one][score]
            axis.plot(place + np.linspace(-0.12, 0.12, len(values)), values, "o", ms=4, color=color)
            if len(values):
                axis.hlines(values.mean(), place - 0.25, place + 0.25, color=color)
        axis.set_xticks(
            range(len(order)), [one.replace(", ", ",\n").replace("at random", "\nat random") for one in order]
        )
        axis.set_ylabel(label)
        axis.set_xlim(-0.5, len(order) - 0.5)
    return figure


def _prediction(tables: Frames) -> Figure:
    parts = [part for part in ("prediction", "atlas") if f"{part}-losses" in tables]
    figure = empty_figure((TEXT_WIDTH * (0.6 if len(parts) == 1 else 1), 2.6))
    axes = figure.subplots(1, len(parts), squeeze=False)[0]
    predictors = ("components", "alignment and uniformity", "mean")
    for axis, part in zip(axes, parts, strict=True):
        table = tables[f"{part}-losses"].sort_values("score")
        places = np.arange(len(table))
        for color, name, offset in zip(COLORS, predictors, (0.15, 0.0, -0.15), strict=False):
            axis.plot(table[name], places + offset, "o", ms=4, color=color, label=f"predicted by {name}")
        axis.plot(table.score, places, "|", ms=11, mew=2, color="black", label="trained")
        axis.set_yticks(places, table.loss.str.replace("_", " "))
        axis.set_xlabel("STS average x 100")
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=4, frameon=False, fontsize=7)
    return figure


_PICTURES: dict[str, tuple[str, Callable[[Frames], Figure]]] = {
    "factorial": ("factorial-cells", _factorial),
    "contrasts": ("factorial-contrasts", _contrasts),
    "exchanges": ("exchanges-shapley", _shapley),
    "prediction": ("prediction-losses", _prediction),
}
