"""Parts compared at several learning rates: temperature and ratio, uniform limit, long runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import pandas as pd
from matplotlib.figure import Figure

from gradlab.plotting import COLORS
from studies.drawing import figure_legend, mark_untrained, panels
from studies.second_round.declarations import labels_of
from studies.statistics import over_seeds

# The line that others are compared with, if there is one of that name; else the first.
REFERENCE = "ratio 1"
ALL = "all"  # of a difference: its mean over the rates
# What a run of a part that is evaluated on the way is scored at -> the column of its score.
AT = {"after the last step": "sts_last", "at the best evaluation": "sts"}
AT_DEV = {"after the last step": "stsb_dev", "at the best evaluation": "stsb_dev_best"}


def table_of(name: str, rows: pd.DataFrame, at: Mapping[str, str] = AT) -> pd.DataFrame:
    """Scores in points, with columns panel, line, rate and seed; a sole ``panel`` is empty.

    Runs that are evaluated on the way have a panel for each column of scores in ``at``. Lines and
    panels are in the order of the declaration.
    """
    settings = rows.label.str.extract(
        r"^(?P<line>[^,]+), learning_rate=(?P<rate>[^,]+)(?:, .*ratio=(?P<ratio>\S+))?$"
    )
    table = settings.assign(
        rate=settings.rate.astype(float), seed=rows.seed, panel="", score=100 * rows.sts
    )
    if settings.ratio.notna().all():
        table["panel"] = settings.line.str.replace("τ .", "τ = 0.")
        table["line"] = [f"ratio {float(ratio):g}" for ratio in settings.ratio]
        table = table.sort_values(["panel", "line"], kind="stable")
    if AT["after the last step"] in rows:
        table = pd.concat(
            [table.assign(panel=panel, score=100 * rows[column]) for panel, column in at.items()]
        )
    declared = [label.partition(",")[0] for label in labels_of(name)]
    order = {name: place for place, name in enumerate(dict.fromkeys(declared))}
    table = table.sort_values("rate", kind="stable")
    table = table.sort_values("line", key=lambda lines: lines.map(order).fillna(0), kind="stable")
    return table[["panel", "line", "rate", "seed", "score"]].reset_index(drop=True)


def means(table: pd.DataFrame) -> pd.DataFrame:
    """Mean score of every condition, with Student's t interval over seeds."""
    names = ["panel", "line", "rate"]
    groups = table.groupby(names, sort=False).score
    rows = [dict(zip(names, key, strict=True)) | _interval(scores) for key, scores in groups]
    return pd.DataFrame(rows)


def differences(table: pd.DataFrame) -> pd.DataFrame:
    """Differences of two conditions at one rate within each seed, with Student's t interval.

    Those at the rate `ALL` are means over the rates. Intervals are over seeds. Every line is
    compared with the first of its panel, or with `REFERENCE`. Two panels are compared within each
    line, and the other lines of the first panel with the reference in the second.
    """
    wide = table.pivot(index=["rate", "seed"], columns=["panel", "line"], values="score")
    rows = []
    for plus, minus in _pairs(list(dict.fromkeys(zip(table.panel, table.line, strict=True)))):
        difference = wide[plus] - wide[minus]
        of_rate = dict(iter(difference.groupby(level="rate")))
        of_rate[ALL] = difference.groupby(level="seed").mean()
        about = {"plus": _said(plus), "minus": _said(minus)}
        rows += [about | {"rate": rate} | _interval(values) for rate, values in of_rate.items()]
    return pd.DataFrame(rows)


def _pairs(conditions: list[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    panels = list(dict.fromkeys(panel for panel, _ in conditions))
    lines = list(dict.fromkeys(line for _, line in conditions))
    reference = REFERENCE if REFERENCE in lines else lines[0]
    other_lines = [line for line in lines if line != reference]
    for panel, line in itertools.product(panels, other_lines):
        yield (panel, line), (panel, reference)
    for later, line in itertools.product(panels[1:], lines):
        yield (later, line), (panels[0], line)
    for later, line in itertools.product(panels[1:], other_lines):
        yield (panels[0], line), (later, reference)


def _said(condition: tuple[str, str]) -> str:
    return " ".join(word for word in reversed(condition) if word)


def _interval(scores: pd.Series) -> dict[str, float]:
    return over_seeds(scores.to_numpy()).columns("mean", "low", "high", "seeds")


def draw(table: pd.DataFrame, untrained: float) -> Figure:
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
        mark_untrained(axis, untrained)
        axis.set(xscale="log", xlabel="learning rate", title=panel)
        rates = sorted(table.rate.unique())
        axis.set_xticks(rates, [f"{rate:.0e}".replace("e-0", "e-") for rate in rates])
        axis.minorticks_off()
    axes[0].plot([], [], "o", color="0.5", ms=4, mec="none", label="a seed")
    axes[0].set(ylabel="STS average x 100")
    figure_legend(figure, axes[0], "outside upper center", ncols=5)
    return figure
