"""Tables of the second round: contrasts, learning rates, interventions, surface and predictions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from studies.evidence import prediction, surface
from studies.evidence.declarations import (
    CLAIM_DESIGNS,
    DESIGNS,
    WORDS,
    Frames,
    judge_claim,
    judge_parts,
)
from studies.statistics import over_seeds

# Parts that compare conditions at several learning rates.
OVER_RATES = ("rates", "uniform", "long")
# The line that others are compared with, if there is one of that name; else the first.
REFERENCE = "ratio 1"
ALL = "all"  # of a difference: its mean over the rates
# What a run of a part that is evaluated on the way is scored at -> the column of its score.
AT = {"after the last step": "sts_last", "at the best evaluation": "sts"}
AT_DEV = {"after the last step": "stsb_dev", "at the best evaluation": "stsb_dev_best"}
# What changes in an intervention, and the components of the loss; lines are fitted on each.
CHANGES, COMPONENTS = ("alignment", "uniformity"), ("pull", "hardest_share")
LINES = {"components": COMPONENTS, "changes": CHANGES, "both": COMPONENTS + CHANGES}


def analyse(rows: Mapping[str, pd.DataFrame], measured: Mapping[str, pd.DataFrame]) -> Frames:
    """All tables by name, from the rows of the parts and from what was ``measured`` beside them.

    The latter are ``features`` and ``interventions``.
    """
    tables = {"contrasts": judge_parts(rows)}
    for name in OVER_RATES:
        scores = over_rates(name, rows[name])
        tables |= {f"{name}-means": means(scores), f"{name}-differences": differences(scores)}
        if "stsb_dev_best" in rows[name]:
            tables[f"{name}-dev-differences"] = differences(over_rates(name, rows[name], AT_DEV))
    table = surface.factors_of(rows["surface"])
    tables |= {"surface-errors": surface.ten_fold(table), "surface-curves": surface.curves(table)}
    for name, (runs, design) in prediction.designs(rows).items():
        predicted = prediction.predicted(measured["features"], runs, design)
        tables |= {
            f"{name}s": predicted,
            f"{name}-errors": prediction.errors(predicted),
            f"{name}-parts": prediction.by_part(predicted),
        }
    return tables | interventions(measured["interventions"])


def summary(
    rows: Mapping[str, pd.DataFrame], tables: Frames, features: pd.DataFrame
) -> Iterator[str]:
    """Yield verdicts on the papers' claims, and what becomes of the declared prediction."""
    contrasts = tables["contrasts"]
    for name in filter(rows.__contains__, CLAIM_DESIGNS):
        claim = CLAIM_DESIGNS[name].get("claim", "better")
        verdict = judge_claim(contrasts[contrasts.part == name], claim)
        yield f"{WORDS['claims'][name]}: {verdict}"
    name = "declared-prediction"
    runs, design = prediction.designs(rows)[name]
    yield from prediction.summary(name, tables[f"{name}-errors"], features, runs, design)


def over_rates(name: str, rows: pd.DataFrame, at: Mapping[str, str] = AT) -> pd.DataFrame:
    """Scores in points, with columns panel, line, rate and seed; a sole ``panel`` is empty.

    Runs that are evaluated on the way have a panel for each column of scores in ``at``. Lines are
    in the order of the declaration.
    """
    settings = rows.label.str.extract(
        r"^(?P<line>[^,]+), learning_rate=(?P<rate>[^,]+)(?:, .*ratio=(?P<ratio>\S+))?$"
    )
    rates = settings.rate.astype(float)
    table = settings.assign(rate=rates, seed=rows.seed, panel="", score=100 * rows.sts)
    if settings.ratio.notna().all():
        table["panel"] = settings.line.str.replace("τ .", "τ = 0.")
        table["line"] = [f"ratio {float(ratio):g}" for ratio in settings.ratio]
        table = table.sort_values(["rate", "panel", "line"], kind="stable")
    else:
        if AT["after the last step"] in rows:
            scores = {panel: 100 * rows[column] for panel, column in at.items()}
            table = pd.concat([table.assign(panel=panel, score=scores[panel]) for panel in scores])
        lines = [point["label"] for point in DESIGNS[name]["points"]]
        table["place"] = table.line.map(lines.index)
        table = table.sort_values(["place", "rate"], kind="stable")
    return table[["panel", "line", "rate", "seed", "score"]].reset_index(drop=True)


def means(table: pd.DataFrame) -> pd.DataFrame:
    """Mean score of every condition, with Student's t interval over seeds."""
    names = ["panel", "line", "rate"]
    groups = table.groupby(names, sort=False).score
    rows = [dict(zip(names, key, strict=True)) | _mean(scores, "seeds") for key, scores in groups]
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
        plus_name, minus_name = (" ".join(reversed(name)).strip() for name in (plus, minus))
        about = {"plus": plus_name, "minus": minus_name}
        rows += [
            about | {"rate": rate} | _mean(values, "seeds") for rate, values in of_rate.items()
        ]
    return pd.DataFrame(rows)


def interventions(table: pd.DataFrame) -> Frames:
    """What orders losses as the change of STS-B dev does, and what lines leave out of it.

    Returns:
        ``interventions-orders``: by ``step`` of the shared encoder and ``what``, Spearman's
        correlation over losses. ``interventions-left-out``: by ``step`` and ``fitted``, the share
        of the outcome's variance that a line leaves out, by leave-one-loss-out; above 1, the line
        is worse than the mean of the other losses. Both are means over seeds with 95% intervals.
    """
    orders: list[dict[str, Any]] = []
    shares: list[dict[str, Any]] = []
    for step, of_step in table.groupby("step"):
        seeds = [of_seed for _, of_seed in of_step.groupby("seed")]
        for measure in CHANGES + COMPONENTS:
            ranks = [of_seed[measure].corr(of_seed.stsb_dev, "spearman") for of_seed in seeds]
            orders.append({"step": step, "what": measure} | _mean(ranks))
        for kind, names in LINES.items():
            left_out = [_left_out(of_seed[list(names)], of_seed.stsb_dev) for of_seed in seeds]
            shares.append({"step": step, "fitted": kind} | _mean(left_out))
    return {
        "interventions-orders": pd.DataFrame(orders),
        "interventions-left-out": pd.DataFrame(shares),
    }


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


def _mean(values: Any, *count: str) -> dict[str, float]:
    return over_seeds(values).columns("mean", "low", "high", *count)


def _left_out(columns: pd.DataFrame, outcome: pd.Series) -> float:
    """Error of a line in the columns over that of the mean, each row predicted without itself."""
    design = np.column_stack([np.ones(len(columns)), columns.to_numpy(float)])
    line, mean = (
        ((outcome - hat @ outcome) / (1 - np.diag(hat))).pow(2).mean()
        for hat in (rows @ np.linalg.pinv(rows) for rows in (design, design[:, :1]))
    )
    return float(line / mean)
