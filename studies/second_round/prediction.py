"""Does the feature predict scores of losses that nothing was fitted on, better than its rivals do?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import bootstrap

from gradlab.sweep import Point, read_spec
from studies.evidence.analysis import read_frames
from studies.second_round.rounds import ROWS, declaration, sweep_of
from studies.statistics import along_line

FEATURES = ROWS / "features.csv"
FIRST_ROUND = Path(__file__).parents[1] / "sweeps/evidence"
FIRST_ROWS = ROWS.parent / "evidence"
FEATURE, CONSTANT = "feature", "mean of the softmax runs"
# Predictor -> the columns that a line is fitted on; learning rates count by their logarithm.
PREDICTORS = {
    FEATURE: ["feature"],
    "learning rate": ["learning_rate"],
    "alignment and uniformity": ["alignment", "uniformity"],
    "STS-B dev at step 10": ["stsb_dev"],
}


class Design(NamedTuple):
    """Parts whose runs a prediction is fitted on, and parts that it is tested on."""

    fitted: Sequence[str]
    tested: Sequence[str]


# What the first round trained: cells to fit on, and losses of which it had no result when it predicted them.
FIRST = Design(("factorial",), ("prediction", "atlas"))


def declared() -> Design:
    """What is declared for the second round."""
    about = declaration()["prediction"]
    return Design(about["fitted_on"], about["tested_on"])


def points_of(part: str, changes: Mapping[str, Any]) -> list[Point]:
    """The points of a declared part, or of a part of the first round in the second round's precision.

    Raises:
        GradlabError: an unknown part.
    """
    if part in (*FIRST.fitted, *FIRST.tested):
        precision = declaration()["protocol"]["precision"]
        return (
            read_spec(FIRST_ROUND / f"{part}.toml").with_base({**changes, "precision": precision}).points({})
        )
    return sweep_of(part, changes).points({})


def first_runs(folder: Path = FIRST_ROWS) -> pd.DataFrame:
    """The conditions of the first round: ``part``, ``label`` and ``score``, the mean STS average over seeds in points."""
    frames = read_frames(folder)
    rows = pd.concat([frames[f"encoder-{part}"].assign(part=part) for part in (*FIRST.fitted, *FIRST.tested)])
    return rows.groupby(["part", "label"]).sts.mean().mul(100).rename("score").reset_index()


def runs_of_parts(rows: Mapping[str, pd.DataFrame], design: Design) -> pd.DataFrame:
    """The runs of the second round that a design needs: ``part``, ``label`` and ``score``, the STS average in points."""
    return pd.concat(
        [
            pd.DataFrame({"part": part, "label": rows[part].label, "score": 100 * rows[part].sts})
            for part in (*design.fitted, *design.tested)
        ]
    )


def predicted(features: pd.DataFrame, runs: pd.DataFrame, design: Design = FIRST) -> pd.DataFrame:
    """What each predictor says of the tested runs, beside their scores: least squares on the fitted ones.

    Returns:
        A row a tested run: ``loss``, ``score``, and a column each predictor.
    """
    columns = list(dict.fromkeys(name for names in PREDICTORS.values() for name in names))
    table = features.assign(learning_rate=np.log(features.learning_rate))
    table = runs.merge(table.groupby(["part", "label"], as_index=False)[columns].mean())
    fitted, tested = table[table.part.isin(design.fitted)], table[table.part.isin(design.tested)]
    # Cells whose gate never closes are one and the same training, and count once.
    fitted = fitted.groupby(columns, as_index=False).agg(label=("label", "first"), score=("score", "mean"))
    # Labels of the first round name the weight; all runs of the second one that are fitted have a softmax's.
    softmax = fitted.label.str.contains("softmax|τ=")
    found = pd.DataFrame({"loss": loss_of(tested.label).to_numpy(), "score": tested.score.to_numpy()})
    found[CONSTANT] = fitted.score[softmax].mean()
    for name, own in PREDICTORS.items():
        found[name] = along_line(fitted[own], fitted.score, tested[own])
    return found


def loss_of(labels: pd.Series) -> pd.Series:
    """The loss that each label names, or the label where it is one loss's own."""
    return labels.str.extract(r"\bloss=(\w+)$")[0].fillna(labels)


def errors(table: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Root mean square error of each predictor in points, and how much the feature's exceeds it.

    Returns:
        A row a predictor: ``error`` over all runs, and ``error_above`` over those above the untrained encoder; ``excess``, the feature's error
        minus this one, with ``low`` and ``high``, the 95% percentile interval of 10,000 bootstrap samples of the losses, each with all of its runs.
    """
    names = [FEATURE, *(name for name in (CONSTANT, *PREDICTORS) if name != FEATURE)]
    squares = table[names].sub(table.score, axis=0) ** 2
    above = table.score > 100 * declaration()["protocol"]["untrained"]
    of_loss = squares.groupby(table.loss, sort=False)
    sums, counts = of_loss.sum(), of_loss.size().to_numpy(float)

    def excess(own: np.ndarray, rival: np.ndarray, count: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.sqrt(own.sum(axis) / count.sum(axis)) - np.sqrt(rival.sum(axis) / count.sum(axis))

    rows = []
    for name in names:
        row = {"predictor": name, "error": np.sqrt(squares[name].mean())}
        row["error_above"] = np.sqrt(squares[name][above].mean())
        if name != FEATURE:
            parts = (sums[FEATURE].to_numpy(), sums[name].to_numpy(), counts)
            interval = bootstrap(
                parts, excess, paired=True, vectorized=True, n_resamples=10_000, method="percentile",
                rng=np.random.default_rng(seed),
            ).confidence_interval  # fmt: skip
            row |= {"excess": float(excess(*parts)), "low": float(interval.low), "high": float(interval.high)}
        rows.append(row)
    return pd.DataFrame(rows)
