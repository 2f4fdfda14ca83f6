"""Pictures of the second round: the prediction, heads, the papers' claims and interventions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gradlab.plotting import COLORS
from studies.contrasts import UNITS
from studies.drawing import bars, draw_differences, mark_untrained, panels
from studies.second_round.declarations import PAPERS, TABLES, declaration
from studies.second_round.prediction import Design

# Losses that the feature is most wrong about.
NAMED = ("vicreg", "mhs", "mpt")
# What is measured of an intervention, as its picture says it.
MEASURES = {
    "alignment": "change of alignment", "uniformity": "change of uniformity",
    "pull": "pull", "hardest_share": "hardest share",
    "components": "line in pull, hardest share", "changes": "line in alignment, uniformity",
    "both": "line in all four",
}  # fmt: skip
# The papers' claims, by the part that tests each: paper, figure or table, and what differs.
CLAIMS = {
    "distance": "MoCoSE, Figure 2: maximum traceable distance",
    "distance-batch": "MoCoSE, Figure 3: the same at other batch sizes",
    "projection": "MoCoSE, Table 4: layers of the projection",
    "queue-length": "MoCoSE, Table 7: length of the queue",
    "slices": "MoCoSE, Table 8: part of the queue",
    "esimcse": "ESimCSE, Tables 6 and 7: its two parts",
    "repetition": "ESimCSE, Table 9: rate of repetition",
    "queue": "ESimCSE, Table 11: length of the queue",
    "dropout": "ESimCSE, Table 8: dropout",
    "lengthening": "ESimCSE, Table 10: longer sentences",
    "augmentations": "MoCoSE, Table 5, Figure 9: augmentations",
    "dimension": "MoCoSE, Table 6a, Figure 10: width of the projection",
    "batch-size": "MoCoSE, Table 6b: batch size",
    "random-queue": "MoCoSE, Figures 11, 12: random vectors in the queue",
    "paths": "MoCoSE, Figure 4: alignment and uniformity",
    "fgsm": "MoCoSE, Table 9: FGSM",
    "transfer": "MoCoSE, Table 2: transfer tasks",
    "margins": "Li et al., Figure 6: margin",
    "temperatures": "Li et al., Figure 6: temperature",
}
# Pictures of claims -> the file that declares what they show, and their title.
CLAIM_PICTURES = {
    "claims": (
        PAPERS,
        "Right of 0: as MoCoSE and ESimCSE claim. At this size, few claims are significant",
    ),
    "tables": (TABLES, "Right of 0: as the papers claim"),
}
RECIPES, BEGINNINGS = ("SimCSE", "ESimCSE", "MoCoSE"), ("random", "identity")


def draw_prediction(
    features: pd.DataFrame, runs: pd.DataFrame, design: Design, errors: pd.DataFrame
) -> Figure:
    """Scores over the feature, and the error of every predictor with its interval."""
    figure, (left, right) = panels(3.2, 1, 2, width_ratios=(3, 2))
    table = runs.merge(features.groupby(["part", "label"], as_index=False).feature.mean())
    mark_untrained(left, 100 * declaration()["protocol"]["untrained"])
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
    left.set(xlabel="feature: do cosines move towards gold?", ylabel="STS average x 100")
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


def draw_heads(rows: pd.DataFrame, untrained: float) -> Figure:
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
    mark_untrained(axis, untrained)
    axis.set_xticks(ticks, [f"heads:\n{beginning}" for beginning in BEGINNINGS] * len(RECIPES))
    axis.set(ylabel="STS average x 100")
    axis.plot([], [], "o-", mfc=COLORS[0], label="a seed", **look)
    axis.legend(loc="lower left")
    return figure


def draw_claims(contrasts: pd.DataFrame, picture: str) -> Figure:
    """One of `CLAIM_PICTURES`: above 0, as the paper says; below 0, the opposite.

    What is not measured in points is left out.
    """
    file, title = CLAIM_PICTURES[picture]
    parts = declaration(file)["parts"]
    shown = [name for name, part in parts.items() if part.get("score") not in UNITS]
    claims = contrasts[contrasts.part.isin(shown)]
    labels = [
        f"{CLAIMS[row.part].partition(':')[0]}: {claim_in_words(row.name)}"
        for row in claims.itertuples(index=False)
    ]
    return draw_differences(claims.assign(label=labels), title)


def claim_in_words(name: str) -> str:
    """The label of a contrast ``A − B``."""
    return name.replace(" − mean of ", ", not ").replace(" − ", ", not ")


def draw_interventions(orders: pd.DataFrame, left: pd.DataFrame) -> Figure:
    """How each measure orders losses over the kept steps, and the variance that lines leave out."""
    figure, axes = panels(3.4, 1, 2)
    for axis, table, column in ((axes[0], orders, "what"), (axes[1], left, "fitted")):
        steps = sorted(table.step.unique())
        for place, (name, rows) in enumerate(table.groupby(column, sort=False)):
            at = np.arange(len(steps)) + 0.12 * (place - 1.5)
            look: Any = {"color": COLORS[place], "label": MEASURES[str(name)]}
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
