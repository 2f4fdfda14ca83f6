"""Does the feature predict scores of losses that nothing was fitted on, better than its rivals do?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import bootstrap

from gradlab.sweep import Point, read_spec
from studies.evidence.analysis import read_frames
from studies.second_round.rounds import ROWS, declaration, sweep_of

FEATURES = ROWS / "features.csv"
FIRST_ROUND = Path(__file__).parents[1] / "sweeps/evidence"
FIRST_ROWS = ROWS.parent / "evidence"
# What the first round trained: cells to fit on, and losses of which it had no result when it predicted them.
FITTED, TESTED = ("factorial",), ("prediction", "atlas")
FEATURE, CONSTANT = "feature", "mean of the softmax runs"
# Predictor -> the columns that a line is fitted on; learning rates count by their logarithm.
PREDICTORS = {
    FEATURE: ["feature"],
    "learning rate": ["learning_rate"],
    "alignment and uniformity": ["alignment", "uniformity"],
    "STS-B dev at step 10": ["stsb_dev"],
}


def points_of(part: str, changes: Mapping[str, Any]) -> list[Point]:
    """The points of a declared part, or of a part of the first round in the second round's precision.

    Raises:
        GradlabError: an unknown part.
    """
    if part in FITTED + TESTED:
        precision = declaration()["protocol"]["precision"]
        return (
            read_spec(FIRST_ROUND / f"{part}.toml").with_base({**changes, "precision": precision}).points({})
        )
    return sweep_of(part, changes).points({})


def first_scores(folder: Path = FIRST_ROWS) -> pd.Series:
    """Mean STS average of each condition of the first round, in points."""
    frames = read_frames(folder)
    rows = pd.concat([frames[f"encoder-{part}"] for part in FITTED + TESTED])
    return 100 * rows.groupby("label").sts.mean()


def predicted(features: pd.DataFrame, scores: pd.Series) -> pd.DataFrame:
    """What each predictor says of the tested losses, beside their scores: least squares on the fitted ones.

    Args:
        features: rows of `FEATURES`.
        scores: label -> points.

    Returns:
        A row a tested loss: ``loss``, ``score``, and a column each predictor.
    """
    columns = list(dict.fromkeys(name for names in PREDICTORS.values() for name in names))
    table = features.assign(learning_rate=np.log(features.learning_rate))
    table = table[table.label.isin(scores.index)].groupby(["part", "label"])[columns].mean().reset_index()
    fitted, tested = table[table.part.isin(FITTED)], table[table.part.isin(TESTED)]
    # Cells whose gate never closes are one and the same training, and count once.
    fitted = (
        fitted.assign(score=scores.loc[fitted.label].to_numpy())
        .groupby(columns, as_index=False)
        .agg(label=("label", "first"), score=("score", "mean"))
    )
    truth = fitted.score.to_numpy()
    found = pd.DataFrame({"loss": tested.label.to_numpy(), "score": scores.loc[tested.label].to_numpy()})
    found[CONSTANT] = truth[fitted.label.str.contains("softmax")].mean()
    for name, own in PREDICTORS.items():
        factors = np.linalg.lstsq(_design(fitted[own]), truth, rcond=None)[0]
        found[name] = _design(tested[own]) @ factors
    return found


def errors(table: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Root mean square error of each predictor in points, and how much the feature's exceeds it.

    Args:
        table: of `predicted`.
        seed: of the bootstrap.

    Returns:
        A row a predictor: ``error`` over all losses, and ``error_above`` over those above the untrained encoder; ``excess``, the feature's error
        minus this one, with ``low`` and ``high``, the 95% percentile interval of 10,000 bootstrap samples of the losses.
    """
    squares = {name: (table[name] - table.score).to_numpy() ** 2 for name in (FEATURE, CONSTANT, *PREDICTORS)}
    above = (table.score > 100 * declaration()["protocol"]["untrained"]).to_numpy()

    def excess(own: np.ndarray, rival: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.sqrt(own.mean(axis)) - np.sqrt(rival.mean(axis))

    rows = []
    for name, rival in squares.items():
        row = {"predictor": name, "error": float(np.sqrt(rival.mean()))}
        row["error_above"] = float(np.sqrt(rival[above].mean()))
        if name != FEATURE:
            pair = (squares[FEATURE], rival)
            interval = bootstrap(
                pair, excess, paired=True, vectorized=True, n_resamples=10_000, method="percentile",
                rng=np.random.default_rng(seed),
            ).confidence_interval  # fmt: skip
            row |= {"excess": float(excess(*pair)), "low": float(interval.low), "high": float(interval.high)}
        rows.append(row)
    return pd.DataFrame(rows)


def _design(table: pd.DataFrame) -> np.ndarray:
    return np.column_stack([np.ones(len(table)), table.to_numpy(float)])
