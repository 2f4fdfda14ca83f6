"""What the committed rows say: contrasts as verdicts, and a picture of every part that is finished."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gradlab.files import write_csv
from gradlab.plotting import COLORS, TEXT_WIDTH, close, empty_figure, plot_style, save
from studies.second_round.rounds import ROWS, declaration, judged, read_rows

RECIPES, BEGINNINGS = ("SimCSE", "ESimCSE", "MoCoSE"), ("random", "identity")


def write_results(committed: Path = ROWS) -> Iterator[str]:
    """Write ``contrasts.csv`` and the pictures beside the committed rows, and yield what to tell."""
    rows = read_rows(committed)
    for part, one in rows.items():
        seeds = one.groupby("label").seed.nunique()
        yield f"{part}: {len(one)} runs, {seeds.min()} to {seeds.max()} seeds a condition"
    contrasts = judged(rows)
    for one in contrasts.itertuples():
        yield (
            f"{one.name}: {one.estimate:+.2f} ({one.low:+.2f} to {one.high:+.2f}), {one.seeds} seeds: {one.verdict}"
            if one.seeds > 1
            else f"{one.name}: fewer than two seeds have all of its conditions"
        )
    yield f"Wrote {write_csv(committed / 'contrasts.csv', {name: contrasts[name].tolist() for name in contrasts})}"
    if "heads" in rows:
        with plot_style():
            figure = draw_heads(rows["heads"], declaration()["protocol"])
            yield f"Wrote {save(figure, committed / 'heads.png')}"
            close(figure)


def draw_heads(rows: pd.DataFrame, protocol: Mapping[str, float]) -> Figure:
    """Scores of every recipe with either beginning of its heads: a dot a seed, the lines join the runs of one seed."""
    figure = empty_figure((TEXT_WIDTH, 3.0))
    axis = figure.subplots()
    places = []
    for at, recipe in enumerate(RECIPES):
        found = rows.assign(beginning=rows.label.str.rpartition("=")[2])
        wide = 100 * found[found.label.str.startswith(recipe + ",")].pivot(
            index="seed", columns="beginning", values="sts"
        )
        here = 3 * at + np.arange(2)
        places += list(here)
        scores = wide.reindex(columns=list(BEGINNINGS))
        axis.plot(here, scores.T, "o-", color="0.7", mfc=COLORS[at], mec="none", ms=5, lw=0.8)
        axis.hlines(scores.mean(), here - 0.3, here + 0.3, color=COLORS[at], lw=2)
        axis.annotate(recipe, (here.mean(), 1.02), xycoords=("data", "axes fraction"), ha="center")
    axis.axhline(
        100 * protocol["untrained"], color="0.4", lw=0.9, ls="--", label="untrained encoder", zorder=0
    )
    axis.set_xticks(places, [f"heads:\n{one}" for one in BEGINNINGS] * len(RECIPES))
    axis.set(ylabel="STS average x 100")
    axis.legend(loc="lower left")
    return figure
