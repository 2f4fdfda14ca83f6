"""The pictures of a study, each drawn from the tables of its report (`read_tables`) alone.

Functions return ``(figure, axes)``, or None where the tables that they need are not there.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gradlab import get_loss
from gradlab.plotting import COLORS, panel_letter
from gradlab.plotting import plot_style as style
from studies.conjectures.conditions import (
    BASELINE,
    CONTRASTIVE,
    NO_DISSIPATION,
    REPAIRS,
    TEMPERATURE,
    TWICE,
)
from studies.conjectures.results import Frames
from studies.output import bars, panels
from studies.statistics import over_seeds

Drawn = tuple[Figure, list[Axes]] | None
BEFORE, AFTER, THIRD = COLORS[1], COLORS[0], COLORS[2]
# Distributions of fewer triples are noise, and are not drawn.
FEW = 1000
# A panel of fewer points than these is a table of the page instead.
FEW_POINTS = 3


def read_tables(folder: str | os.PathLike[str]) -> dict[str, pd.DataFrame]:
    """The CSV files of a report by name."""
    return {path.stem: pd.read_csv(path) for path in sorted(Path(folder).glob("*.csv"))}


def finite_points(tables: Frames, name: str) -> int:
    """Return how many finite values of a setting a table of performance has."""
    return int(np.isfinite(tables[name].value).sum()) if name in tables else 0


Draw = Callable[[Frames], Drawn]
# File name without suffix -> function; the captions are in `templates/report.md`.
FIGURES: dict[str, Draw] = {}


def _figure(name: str, *needed: str) -> Callable[[Draw], Draw]:
    """Make a function that draws one of `FIGURES`, or returns None where a table is not there."""

    def wrapped(draw: Draw) -> Draw:
        @functools.wraps(draw)
        def drawn(tables: Frames) -> Drawn:
            if not all(table in tables for table in needed):
                return None
            with style():
                return draw(tables)

        FIGURES[name] = drawn
        return drawn

    return wrapped


@_figure("figure-01-repairs", "repairs")
def draw_repairs(tables: Frames) -> Drawn:
    """Figure 1: STS average before and after the repair, beside contrastive losses."""
    table = tables["repairs"].set_index("condition")
    scored = table.sts_average_mean[table.type != "untuned"].notna().any()
    metric, label = ("sts_average", "STS average") if scored else ("stsb_dev", "STS-B dev")
    figure, axes = panels(3.0, 1, 2, sharey=True, width_ratios=(1.7, 1))
    kinds = {"before repair": BEFORE, "after repair": AFTER, "after, 2r": THIRD}
    for place, (before, after) in enumerate(REPAIRS.items()):
        three = zip((before, after, after + TWICE), kinds.items(), strict=True)
        for index, (name, (kind, color)) in enumerate(three):
            named = kind if place == 0 else None
            _point(axes[0], table, metric, name, place + 0.27 * (index - 1), color, named)
    titles = [get_loss(name).title.replace("Alignment + ", "Alignment +\n") for name in REPAIRS]
    axes[0].set_xticks(range(len(REPAIRS)), titles)
    for place, name in enumerate(CONTRASTIVE):
        _point(axes[1], table, metric, name, place, COLORS[3], None)
    axes[1].set_xticks(range(len(CONTRASTIVE)), [get_loss(name).title for name in CONTRASTIVE])
    for pooler, row in table[table.type == "untuned"].iterrows():
        # The poolers may score the same: a thin dashed line is seen on a broad pale one.
        look: Any = {"color": "0.8", "linewidth": 3.5, "zorder": 1}
        if "first_last" in str(pooler):
            look = {"color": "0.2", "linestyle": "--", "linewidth": 1, "zorder": 1.5}
        for ax, named in zip(axes, (None, str(pooler)), strict=True):
            ax.axhline(100 * row[f"{metric}_mean"], label=named, **look)
    axes[0].set_ylabel(f"{label} (Spearman x 100)")
    for ax, names in zip(axes, (REPAIRS, CONTRASTIVE), strict=True):
        ax.set_xlim(-0.5, len(names) - 0.5)
    _common_legend(figure, axes, "outside upper center")
    return figure, axes


@_figure("figure-05-angles", "conjecture1-distribution")
def draw_angles(tables: Frames) -> Drawn:
    """Figure 5: held-out angles with and without dissipation."""
    table = tables["conjecture1-distribution"]
    figure, axes = panels(2.7, 1, 2)
    kinds = ((BASELINE, "with dissipation", AFTER), (NO_DISSIPATION, "without", BEFORE))
    for ax, pair in zip(axes, ("positive", "negative"), strict=True):
        for condition, label, color in kinds:
            rows = table[(table.pair == pair) & (table.condition == condition)]
            middle, density = np.degrees((rows.low + rows.high) / 2), np.radians(rows.density)
            ax.plot(middle, density, color=color, label=label)
            ax.fill_between(middle, density, color=color, alpha=0.15, linewidth=0)
        # Where nearly everything lies.
        used = table[table.pair == pair]
        used = used[used.density > 0.002 * used.density.max()]
        ax.set_xlim(float(np.degrees(used.low.min())), float(np.degrees(used.high.max())))
        ax.set_ylim(bottom=0)
        ax.set_xlabel(f"anchor-{pair} angle (degrees)")
    axes[0].set_ylabel("density (1/degree)")
    axes[0].legend()
    return figure, axes


@_figure("figure-06-performance")
def draw_performance(tables: Frames) -> Drawn:
    """Figure 6: STS-B dev against margin, temperature and ratio."""
    settings = (
        ("conjecture1-performance", "margin m", "dissipation"),
        ("conjecture2-performance", "temperature τ", "weight"),
        ("conjecture3-performance", "ratio r", "ratio"),
    )
    present = [row for row in settings if finite_points(tables, row[0]) >= FEW_POINTS]
    if not present:
        return None
    figure, axes = panels(2.6, 1, len(present), sharey=True)
    for ax, (name, label, component), letter in zip(axes, present, "abc", strict=False):
        _performance(ax, tables[name])
        ax.set(xlabel=label, title=component)
        panel_letter(ax, letter)
        if "temperature" in label:
            ax.set_xscale("log")
            _plain_ticks(ax, tables[name].value)
    axes[0].set_ylabel("STS-B dev (Spearman x 100)")
    return figure, axes


@_figure("figure-07-hardest-share", "conjecture2-share")
def draw_hardest_share(tables: Frames) -> Drawn:
    """Figure 7: the hardest negative's share against temperature, untuned and tuned."""
    table = tables["conjecture2-share"]
    figure, axes = panels(2.8, 1, 2, sharey=True)
    for ax, encoder in zip(axes, ("untuned", "tuned"), strict=True):
        rows = table[(table.encoder == encoder) & (table.anchors == "gated")]
        _line(ax, rows, "temperature", "projection", AFTER, "of the push (as published)")
        _line(ax, rows, "temperature", "share", BEFORE, "of the weight")
        ax.axvline(TEMPERATURE, color="0.6", linewidth=0.8, linestyle=":")
        ax.axhline(0.5, color="0.6", linewidth=0.8, linestyle=":")
        ax.set_xscale("log")
        _plain_ticks(ax, [0.01, 0.03, 0.1, 0.3, 1, 3])
        ax.set(ylim=(0, 1.02), xlabel="temperature τ", title=f"{encoder} encoder")
    axes[0].set_ylabel("share of the hardest negative")
    words: Any = {"color": "0.35", "fontsize": 8}
    axes[0].text(1.1 * TEMPERATURE, 0.98, f"τ of training, {TEMPERATURE:g}", va="top", **words)
    axes[0].text(3, 0.51, "one half", ha="right", va="bottom", **words)
    axes[1].legend()
    return figure, axes


@_figure("figure-08a-minimum-ratio", "conjecture3-minimum-ratio-distribution")
def draw_minimum_ratio(tables: Frames) -> Drawn:
    """Figure 8a: the smallest ratio that brings the positive closer, by the lemma and exactly."""
    table = tables["conjecture3-minimum-ratio-distribution"]
    rules = {
        "tangent": "Lemma 1",
        "projected": "exact, projected step",
        "unprojected": "exact, unprojected step",
    }
    figure, axes = panels(5.4, len(rules), 2, sharex=True)
    panels_of = itertools.product(rules.items(), ("untuned", "tuned"))
    for ax, ((rule, title), encoder) in zip(axes, panels_of, strict=True):
        rows = table[(table.encoder == encoder) & (table.rule == rule)]
        for color, step in zip(COLORS, sorted(rows.step.unique()), strict=False):
            for triples, dashes in (("all", "-"), ("published", ":")):
                selected = rows[
                    (rows.step == step) & (rows.triples == triples) & (rows["count"] >= FEW)
                ]
                middle, density = (
                    (selected.low + selected.high) / 2,
                    selected.share / (selected.high - selected.low),
                )
                label = f"λ = {step:g}" if triples == "all" else None
                ax.plot(middle, density, dashes, color=color, linewidth=1.2, label=label)
        ax.axvline(1, color="0.5", linewidth=0.8)
        ax.set(xlim=(-1, 3), title=f"{title}, {encoder}")
        ax.set_ylim(bottom=0)
    for ax in axes[::2]:
        ax.set_ylabel("density")
    for ax in axes[-2:]:
        ax.set_xlabel("minimum ratio")
    axes[1].legend()
    kinds = {
        "all triples": Line2D([], [], color="0.3", linewidth=1.2),
        "as published": Line2D([], [], color="0.3", linewidth=1.2, linestyle=":"),
        "ratio 1": Line2D([], [], color="0.5", linewidth=0.8),
    }
    axes[0].legend(list(kinds.values()), list(kinds), loc="upper right")
    return figure, axes


@_figure("figure-08bc-training", "training")
def draw_training(tables: Frames) -> Drawn:
    """Figures 8b and 8c: dynamic ratios and, by ratio, the positive cosine during training."""
    table = tables["training"]
    if "ratio_all" not in table or table.step.nunique() < FEW_POINTS:
        return None
    figure, axes = panels(3.3, 1, 2)
    for loss, color in (("arccon", AFTER), ("met", BEFORE)):
        rows, title = table[table.condition == loss], get_loss(loss).title
        _line(axes[0], rows, "step", "ratio_all_median", color, f"{title}, median")
        _line(axes[0], rows, "step", "ratio", color, f"{title}, where it learns", dashes="--")
    axes[0].axhline(1, color="0.5", linewidth=0.8)
    axes[0].set_ylabel("ratio")
    ratios = {float(name[2:]): name for name in table.condition.unique() if name.startswith("r=")}
    ratios[1.0] = BASELINE
    for color, (ratio, name) in zip(COLORS, sorted(ratios.items()), strict=False):
        rows = table[table.condition == name]
        _line(axes[1], rows, "step", "positive_cosine", color, f"r = {ratio:g}")
    axes[1].set_ylabel("mean anchor-positive cosine")
    _lettered(axes, "bc", ("dynamic ratios", "static ratios"))
    for ax in axes:
        ax.set(xlabel="step")
        if ax.get_legend_handles_labels()[0]:
            ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)
    return figure, axes


@_figure("figure-09-assumptions", "assumptions-distribution", "training")
def draw_assumptions(tables: Frames) -> Drawn:
    """Figure 9: means and spreads of the angles during training, and their shape."""
    rows = tables["training"][tables["training"].condition == BASELINE]
    if rows.step.nunique() < FEW_POINTS:
        figure, axes = panels(3.0)
        _standardised(axes[0], tables["assumptions-distribution"])
        return figure, axes
    figure, axes = panels(3.0, 1, 3)
    # The tables have radians.
    angles = [name for name in rows if name.startswith("theta_")]
    rows = rows.assign(**np.degrees(rows[angles]))
    for name, label, color in (("pos", "positive", THIRD), ("neg", "negative", BEFORE)):
        _line(axes[0], rows, "step", f"theta_{name}_mean", color, label)
        _line(axes[1], rows, "step", f"theta_{name}_std", color, label)
    _line(axes[1], rows, "step", "theta_neg_std_within", BEFORE, "", dashes="--")
    for ax, label in zip(axes, ("mean angle μ (degrees)", "spread σ (degrees)"), strict=False):
        ax.set(xlabel="step", ylabel=label)
        ax.set_ylim(bottom=0)
    axes[0].plot([], [], "--", color=BEFORE, label="negative, of one anchor")
    _standardised(axes[2], tables["assumptions-distribution"])
    _lettered(axes, "abc", ("means", "spreads", "shape after training"))
    _common_legend(figure, [axes[0], axes[2]], "outside lower center")
    return figure, axes


def _point(
    ax: Axes, table: pd.DataFrame, metric: str, name: str, at: float, color: str, label: str | None
) -> None:
    """A score with its interval over seeds."""
    columns = [f"{metric}_{end}" for end in ("mean", "low", "high")]
    if name not in table.index or math.isnan(table[columns[0]][name]):
        return
    interval = 100 * table.loc[[name], columns].astype(float).to_numpy().T
    look: Any = {"fmt": "o", "markersize": 5, "capsize": 3, "linewidth": 1.2}
    ax.errorbar([at], interval[0], bars(*interval), color=color, label=label, **look)


def _performance(ax: Axes, table: pd.DataFrame) -> None:
    """Scores against a setting; training without dissipation (infinity) is a band beside them."""
    finite = table[np.isfinite(table.value)].sort_values("value")
    look: Any = {"color": AFTER, "marker": "o", "markersize": 4, "capsize": 2, "linewidth": 1.2}
    error = 100 * bars(finite["mean"], finite.low, finite.high)
    ax.errorbar(finite.value, 100 * finite["mean"], error, **look)
    for row in table[~np.isfinite(table.value)].itertuples():
        if row.count > 1:
            ax.axhspan(100 * row.low, 100 * row.high, color=THIRD, alpha=0.2, linewidth=0)
        look = {"color": THIRD, "linewidth": 1.2, "linestyle": "--"}
        ax.axhline(100 * row.mean, label="without dissipation", **look)
        ax.legend(loc="lower right")


def _line(
    ax: Axes, rows: pd.DataFrame, x: str, y: str, color: str, label: str, dashes: str = "-"
) -> None:
    """Mean over seeds with the band of its interval."""
    if rows.empty or y not in rows:
        return
    intervals = [(at, over_seeds(group[y].to_list())) for at, group in rows.groupby(x)]
    at, mean, low, high = np.array(
        [(at, interval.mean, interval.low, interval.high) for at, interval in intervals]
    ).T
    ax.plot(at, mean, dashes, color=color, label=label, linewidth=1.4)
    ax.fill_between(at, low, high, color=color, alpha=0.2, linewidth=0)


def _lettered(axes: Sequence[Axes], letters: str, titles: Sequence[str]) -> None:
    for ax, letter, title in zip(axes, letters, titles, strict=True):
        ax.set_title(title)
        panel_letter(ax, letter)


def _common_legend(figure: Figure, axes: Iterable[Axes], place: Any) -> None:
    legends = [ax.get_legend_handles_labels() for ax in axes]
    handles = [handle for handles, _ in legends for handle in handles]
    labels = [label for _, labels in legends for label in labels]
    figure.legend(handles, labels, loc=place, ncols=len(labels))


def _plain_ticks(ax: Axes, values: Iterable[float]) -> None:
    """Marks at these values alone, as those of a logarithmic axis would overlap."""
    ax.set_xticks(list(values), [f"{value:g}" for value in values])
    ax.minorticks_off()


def _standardised(ax: Axes, table: pd.DataFrame) -> None:
    tuned = table[table.encoder == "tuned"]
    for name, color, dashes in (
        ("positive", THIRD, "-"),
        ("negative", BEFORE, "-"),
        ("negative of one anchor", BEFORE, "--"),
    ):
        rows = tuned[tuned.angle == name]
        ax.plot((rows.low + rows.high) / 2, rows.density, dashes, color=color, linewidth=1.2)
    z = np.linspace(-4, 4, 161)
    normal = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    ax.plot(z, normal, color="black", linewidth=1, linestyle=":", label="normal")
    ax.set_xlim(-4, 4)
    ax.set_ylim(bottom=0)
    ax.set(xlabel="standardised angle", ylabel="density")
