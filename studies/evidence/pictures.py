"""Pictures of both rounds, drawn from their rows and tables and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gradlab.plotting import COLORS
from studies.evidence import prediction, surface
from studies.evidence.declarations import CLAIMS, UNITS, UNTRAINED, WORDS, Frames
from studies.evidence.first_round import REGIMES, with_cells
from studies.evidence.second_round import OVER_RATES, over_rates
from studies.output import bars, draw_differences, mark_untrained, panels

# Name of a picture -> the function that draws it, and its arguments.
Drawings = dict[str, tuple[Any, ...]]
# Levels of the factorial.
GATES, WEIGHTS, RATIOS = (
    ("none", "hard", "soft"),
    ("uniform", "softmax .3", "softmax .05"),
    (0.5, 1.0, 1.75),
)
SCORE = "STS average x 100"
# Losses that the feature of the prediction is most wrong about.
NAMED = ("vicreg", "mhs", "mpt")
RECIPES, BEGINNINGS = ("SimCSE", "ESimCSE", "MoCoSE"), ("random", "identity")
# Runs at larger learning rates have dots of their own: all of the lowest scores are theirs.
FAST = 6e-4


def first_round(rows: Mapping[str, pd.DataFrame], tables: Frames, start: pd.Series) -> Drawings:
    """The pictures of the first round; ``start`` has scores (x 100) of the untrained encoder."""
    drawings: Drawings = {"recipes": (_recipes, rows, start)}
    for regime in REGIMES:
        drawings |= {
            f"{regime}-factorial": (_factorial, rows[f"{regime}-factorial"], start),
            f"{regime}-contrasts": (_contrasts, tables["contrasts"], regime),
            f"{regime}-exchanges": (_exchanges, tables, regime),
            f"{regime}-prediction": (_first_prediction, tables, regime),
        }
    return drawings


def second_round(
    rows: Mapping[str, pd.DataFrame], tables: Frames, features: pd.DataFrame
) -> Drawings:
    """The pictures of the second round."""
    factors = surface.factors_of(rows["surface"])
    drawings: Drawings = {
        "heads": (_heads, rows["heads"]),
        "surface": (_surface, factors, tables["surface-curves"]),
        "interventions": (
            _interventions, tables["interventions-orders"], tables["interventions-left-out"],
        ),
    }  # fmt: skip
    drawings |= {name: (_over_rates, over_rates(name, rows[name])) for name in OVER_RATES}
    drawings |= {name: (_claims, tables["contrasts"], name) for name in CLAIMS}
    for name, (runs, design) in prediction.designs(rows).items():
        drawings[name] = (_prediction, features, runs, design, tables[f"{name}-errors"])
    return drawings


def in_words(part: str, name: str) -> str:
    """The label of a contrast ``A − B``: what stands in place of what, and where."""
    first, _, second = name.partition(" − ")
    if part == "dissipation":
        return f"gate {WORDS['gates'][first]}, not {WORDS['gates'][second]}"
    label = f"{first}, not {second}{', longer runs' if part == 'longer' else ''}"
    for short, words in WORDS["levels"].items():
        label = label.replace(short, words)
    return label


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
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside upper center", title="weight", ncols=4
    )
    return figure


def _contrasts(table: pd.DataFrame, regime: str) -> Figure:
    table = table[(table.regime == regime) & (table.seeds > 2)]
    labels = [in_words(row.part, row.name) for row in table.itertuples(index=False)]
    return draw_differences(table.assign(label=labels), WORDS["titles"][regime])


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
    axis.set_title(f"repairs taken apart {REGIMES[regime]}: {seeds}")
    figure.legend(
        *axis.get_legend_handles_labels(),
        loc="outside lower center",
        title="repaired part",
        ncols=4,
    )
    return figure


def _recipes(rows: Mapping[str, pd.DataFrame], start: pd.Series) -> Figure:
    charts = [
        ("recipes", "sts", SCORE, "recipes"),
        ("collapse", "stsb_dev", "STS-B dev x 100", "MoCoSE without its parts"),
    ]
    widths = [len(WORDS[name]) for name, *_ in charts]
    figure, axes = panels(2.9, 1, len(charts), width_ratios=widths)
    for axis, (name, score, label, title) in zip(axes, charts, strict=True):
        table, order = rows[f"encoder-{name}"], WORDS[name]
        for place, condition in enumerate(order):
            values = 100 * table[table.label == condition][score]
            beside = np.linspace(-0.12, 0.12, len(values))
            axis.plot(place + beside, values, "o", ms=4, color=COLORS[0])
            axis.hlines(values.mean(), place - 0.25, place + 0.25, color=COLORS[0])
        mark_untrained(axis, start[score], "untrained")
        axis.set_xticks(range(len(order)), list(order.values()), fontsize=7)
        axis.set(ylabel=label, title=title, xlim=(-0.5, len(order) - 0.5))
    axes[0].legend(loc="lower right")
    return figure


def _first_prediction(tables: Frames, regime: str) -> Figure:
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
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _prediction(
    features: pd.DataFrame, runs: pd.DataFrame, design: prediction.Design, errors: pd.DataFrame
) -> Figure:
    """Scores over the feature, and the error of every predictor with its interval."""
    figure, (left, right) = panels(3.2, 1, 2, width_ratios=(3, 2))
    table = runs.merge(features.groupby(["part", "label"], as_index=False).feature.mean())
    mark_untrained(left, UNTRAINED)
    groups = [(name, "0.65", "fitted on") for name in design.fitted]
    groups += [
        (name, color, "tested on") for name, color in zip(design.tested, COLORS, strict=False)
    ]
    look: Any = {"mec": "white", "mew": 0.4, "ms": 5}
    for name, color, words in groups:
        points = table[table.part == name]
        left.plot(points.feature, points.score, "o", color=color, label=f"{words}: {name}", **look)
    for row in table[table.label.isin(NAMED)].itertuples():
        beside: Any = {"xytext": (-6, -2), "textcoords": "offset points", "ha": "right"}
        left.annotate(row.label, (row.feature, row.score), **beside)
    left.set(xlabel="feature: do cosines move towards gold?", ylabel=SCORE)
    order = errors.sort_values("error", ascending=False)
    places = np.arange(len(order))
    all_runs = order.error, order.error_low, order.error_high
    better = order.error_above, order.above_low, order.above_high
    look = {"fmt": "o", "ms": 4.5, "lw": 1}
    for shift, color, interval, words in (
        (0.15, "black", all_runs, "all tested runs"),
        (-0.15, "0.6", better, "those above the untrained encoder"),
    ):
        error = bars(*interval)
        right.errorbar(interval[0], places + shift, xerr=error, color=color, label=words, **look)
    right.set_yticks(places, order.predictor)
    right.set(xlabel="root mean square error, points", xlim=(0, None))
    for axis in (left, right):
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=1, fontsize="small")
    return figure


def _heads(rows: pd.DataFrame) -> Figure:
    """Scores of every recipe with either beginning of its heads: a dot a seed, joined by lines."""
    figure, (axis,) = panels(3.0)
    wide = (100 * rows.set_index(["seed", "label"]).sts).unstack()
    look: Any = {"color": "0.7", "mec": "none", "ms": 5, "lw": 0.8}
    ticks = []
    for at, recipe in enumerate(RECIPES):
        places, color = 3 * at + np.arange(2), COLORS[at]
        ticks += list(places)
        scores = wide.reindex(
            columns=[f"{recipe}, head_initial={beginning}" for beginning in BEGINNINGS]
        )
        axis.plot(places, scores.T, "o-", mfc=color, **look)
        label = "mean" if at == 0 else "_mean"
        axis.hlines(scores.mean(), places - 0.3, places + 0.3, color=color, lw=2, label=label)
        axis.annotate(
            recipe, (places.mean(), 1.02), xycoords=("data", "axes fraction"), ha="center"
        )
    mark_untrained(axis, UNTRAINED)
    axis.set_xticks(ticks, [f"heads:\n{beginning}" for beginning in BEGINNINGS] * len(RECIPES))
    axis.set(ylabel=SCORE)
    axis.plot([], [], "o-", mfc=COLORS[0], label="a seed", **look)
    axis.legend(loc="lower left")
    return figure


def _claims(contrasts: pd.DataFrame, file: str) -> Figure:
    """Above 0, as the papers say; below 0, the opposite. Only what is measured in points."""
    shown = [name for name, design in CLAIMS[file].items() if design.get("score") not in UNITS]
    table = contrasts[contrasts.part.isin(shown)]
    words = table.name.str.replace(" − mean of ", ", not ").str.replace(" − ", ", not ")
    papers = [WORDS["claims"][name].partition(":")[0] for name in table.part]
    labels = [f"{paper}: {claim}" for paper, claim in zip(papers, words, strict=True)]
    return draw_differences(table.assign(label=labels), WORDS["titles"][file])


def _interventions(orders: pd.DataFrame, left: pd.DataFrame) -> Figure:
    """How each measure orders losses over the kept steps, and the variance that lines leave out."""
    figure, axes = panels(3.4, 1, 2)
    for axis, table, column in ((axes[0], orders, "what"), (axes[1], left, "fitted")):
        steps = sorted(table.step.unique())
        for place, (name, rows) in enumerate(table.groupby(column, sort=False)):
            at = np.arange(len(steps)) + 0.12 * (place - 1.5)
            look: Any = {"color": COLORS[place], "label": WORDS["measures"][name]}
            error = bars(rows["mean"], rows.low, rows.high)
            axis.errorbar(at, rows["mean"], error, fmt="o", ms=4.5, lw=1, **look)
        axis.set_xticks(range(len(steps)), [str(step) for step in steps])
        axis.set(xlabel="steps before the intervention")
    axes[0].axhline(0, color="0.4", lw=0.9, zorder=0)
    axes[0].set(ylabel="rank correlation with the outcome", ylim=(-1.05, 1.05))
    axes[1].axhline(1, color="0.4", lw=0.9, ls="--", zorder=0, label="mean of the other losses")
    axes[1].set(ylabel="share of the variance left out", ylim=(0, None))
    for axis in axes:
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize="x-small")
    return figure


def _over_rates(table: pd.DataFrame) -> Figure:
    """Scores over the learning rate: a dot a seed, lines through the means."""
    titles, lines = list(dict.fromkeys(table.panel)), list(dict.fromkeys(table.line))
    figure, axes = panels(3.0, 1, len(titles), sharey=True)
    for axis, panel in zip(axes, titles, strict=True):
        for place, line in enumerate(lines):
            points = table[(table.panel == panel) & (table.line == line)]
            # Dots of different lines do not hide each other.
            beside = points.rate * 1.08 ** (place - 1)
            axis.plot(beside, points.score, "o", color=COLORS[place], ms=4, mec="none", alpha=0.6)
            of_rate = points.groupby("rate").score.mean()
            axis.plot(of_rate.index, of_rate, color=COLORS[place], lw=1.6, label=line)
        mark_untrained(axis, UNTRAINED)
        axis.set(xscale="log", xlabel="learning rate", title=panel)
        rates = sorted(table.rate.unique())
        axis.set_xticks(rates, [f"{rate:.0e}".replace("e-0", "e-") for rate in rates])
        axis.minorticks_off()
    axes[0].plot([], [], "o", color="0.5", ms=4, mec="none", label="a seed")
    axes[0].set(ylabel=SCORE)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=5)
    return figure


def _surface(table: pd.DataFrame, lines: pd.DataFrame) -> Figure:
    """Scores over each factor, with what both models say on average."""
    figure, axes = panels(4.6, 2, 2, sharey=True)
    fast = table.learning_rate > FAST
    for axis, (factor, title) in zip(axes, surface.FACTORS.items(), strict=True):
        for rows, fill, label in (
            (table[~fast], "0.7", "a run"),
            (table[fast], "none", f"learning rate above {FAST:g}"),
        ):
            look: Any = {"mfc": fill, "mec": "0.6", "mew": 0.7, "ms": 3.5}
            axis.plot(rows[factor], rows.score, "o", label=label, **look)
        of_models = lines[lines.factor == factor].groupby("model")
        for color, (name, rows) in zip(COLORS, of_models, strict=False):
            axis.plot(rows.value, rows.score, color=color, lw=1.6, label=name)
        mark_untrained(axis, UNTRAINED, zorder=2)
        axis.set(xlabel=title)
        if factor != "open_share":
            axis.set_xscale("log")
    for axis in axes[::2]:
        axis.set(ylabel=SCORE)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=5)
    return figure
