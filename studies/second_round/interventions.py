"""Interventions: what orders losses that took a few steps from the same encoders.

Runs differ in where their earlier steps led. Here all losses begin at the same encoder, so that
what differs afterwards is the work of a few steps of the loss. ``interventions.toml`` declares
them.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from studies.second_round.declarations import ROWS
from studies.statistics import over_seeds

TABLE = ROWS / "interventions.csv"
CHANGES, COMPONENTS = ("alignment", "uniformity"), ("pull", "hardest_share")


def correlations(table: pd.DataFrame) -> pd.DataFrame:
    """Measure how each change and component orders losses as the change of STS-B dev does.

    Returns:
        ``step`` of the shared encoder, ``what``, and Spearman's correlation over losses: the mean
        over seeds with its 95% interval, ``low`` and ``high``.
    """
    rows = []
    for step, of_step in table.groupby("step"):
        for measure in CHANGES + COMPONENTS:
            interval = over_seeds(
                [
                    of_seed[measure].corr(of_seed.stsb_dev, "spearman")
                    for _, of_seed in of_step.groupby("seed")
                ]
            )
            rows.append({"step": step, "what": measure} | interval.columns("mean", "low", "high"))
    return pd.DataFrame(rows)


def left_out(table: pd.DataFrame) -> pd.DataFrame:
    """Measure the share of the outcome's variance that lines leave out, by leave-one-loss-out.

    Returns:
        ``step``, ``fitted`` (components, changes or both), and the mean over seeds with its 95%
        interval. Above 1, the line is worse than the mean of the other losses.
    """
    predictors = {"components": COMPONENTS, "changes": CHANGES, "both": COMPONENTS + CHANGES}
    rows = []
    for step, of_step in table.groupby("step"):
        for kind, names in predictors.items():
            shares = []
            for _, of_seed in of_step.groupby("seed"):
                columns = of_seed[list(names)].to_numpy(float)
                design = np.column_stack([np.ones(len(of_seed)), columns])
                outcome = of_seed.stsb_dev.to_numpy(float)
                shares.append(_press(design, outcome) / _press(design[:, :1], outcome))
            interval = over_seeds(shares).columns("mean", "low", "high")
            rows.append({"step": step, "fitted": kind} | interval)
    return pd.DataFrame(rows)


def _press(design: np.ndarray, outcome: np.ndarray) -> float:
    """Mean square error of a least-squares line that predicts each row without that row."""
    hat = design @ np.linalg.pinv(design)
    return float((((outcome - hat @ outcome) / (1 - np.diag(hat))) ** 2).mean())
