"""The response surface: the score over temperature, ratio, open share and learning rate.

The design has no cells. Two models are fitted to the same runs: an additive one, a smooth curve for
each factor, and a Gaussian process, which may hold any interaction. If the process predicts runs
that it was not fitted on no better, the factors act one by one.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd

from studies.statistics import root_mean_square

# Column -> name of its axis. The open share was measured; the margin that was drawn only sets it.
FACTORS = {
    "temperature": "temperature τ", "ratio": "ratio", "open_share": "open share",
    "learning_rate": "learning rate",
}  # fmt: skip
FOLDS, KNOTS, SPLITS = 10, 5, 10
# Points of a curve.
GRID = 60


def factors_of(rows: pd.DataFrame) -> pd.DataFrame:
    """The factors of every run, the ``margin`` of its gate, and its ``score`` in points."""
    pattern = (
        r"τ=(?P<temperature>\S+) r=(?P<ratio>\S+) m=(?P<margin>\S+) rate=(?P<learning_rate>\S+)"
    )
    settings = rows.label.str.extract(pattern).astype(float).reset_index(drop=True)
    score = 100 * rows.sts.to_numpy()
    table = settings.assign(open_share=rows.open_share.to_numpy(), score=score)
    return table[[*FACTORS, "margin", "score"]]


def models(factors: int = len(FACTORS)) -> dict[str, Any]:
    """Name -> an estimator of scikit-learn on the columns of `inputs`, or on as many of them."""
    from sklearn.dummy import DummyRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import SplineTransformer, StandardScaler

    kernel = ConstantKernel(1.0) * RBF(np.ones(factors), (0.1, 100.0)) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=2, random_state=0
    )
    return {
        "mean": DummyRegressor(),
        "additive": make_pipeline(
            SplineTransformer(KNOTS), StandardScaler(), RidgeCV(np.logspace(-4, 4, 25))
        ),
        "Gaussian process": make_pipeline(StandardScaler(), process),
    }


def inputs(table: pd.DataFrame) -> np.ndarray:
    """What the models see, (n, 4): logarithms, and the open share as it is."""
    return np.column_stack(
        [table[name] if name == "open_share" else np.log(table[name]) for name in FACTORS]
    )


def ten_fold(
    table: pd.DataFrame, split: int = 0, names: Collection[str] | None = None
) -> pd.DataFrame:
    """Root mean square error of each model in points, over runs that it was not fitted on.

    ``split`` is the seed of the division into folds; ``error_above`` is over the runs that score
    more than the median run. The last rows are the Gaussian process without one of the factors, and
    both models with the logarithm of the open share, or the margin's, in its place. With ``names``,
    only these models are fitted.
    """
    from sklearn.model_selection import KFold, cross_val_predict

    score, folds = table.score.to_numpy(), KFold(FOLDS, shuffle=True, random_state=split)
    above, design, estimators = score > np.median(score), inputs(table), models()
    fits = [(name, model, design) for name, model in estimators.items()]
    process = models(len(FACTORS) - 1)["Gaussian process"]
    for column, name in enumerate(FACTORS):
        factor = name.replace("_", " ")
        without = np.delete(design, column, axis=1)
        fits.append((f"Gaussian process without {factor}", process, without))
    for source in ("open_share", "margin"):
        changed, factor = design.copy(), source.replace("_", " ")
        changed[:, list(FACTORS).index("open_share")] = np.log(table[source])
        for name in ("additive", "Gaussian process"):
            fits.append((f"{name} with the logarithm of the {factor}", estimators[name], changed))
    rows = []
    for name, model, columns in fits:
        if names is not None and name not in names:
            continue
        with _unbounded_lengths():
            wrong = cross_val_predict(model, columns, score, cv=folds) - score
        rows.append((name, root_mean_square(wrong), root_mean_square(wrong[above])))
    return pd.DataFrame(rows, columns=["model", "error", "error_above"])


def splits(table: pd.DataFrame) -> pd.DataFrame:
    """`ten_fold` of `SPLITS` divisions, by ``split``: what one division leaves to chance."""
    return pd.concat(
        [ten_fold(table, split).assign(split=split) for split in range(SPLITS)], ignore_index=True
    )


def curves(table: pd.DataFrame) -> pd.DataFrame:
    """How a model's mean prediction changes as one factor does, the others as in the runs."""
    design, score = inputs(table), table.score.to_numpy()
    rows = []
    for name, model in models().items():
        if name == "mean":
            continue
        with _unbounded_lengths():
            fitted = model.fit(design, score)
        for column, factor in enumerate(FACTORS):
            for value in np.linspace(design[:, column].min(), design[:, column].max(), GRID):
                moved = design.copy()
                moved[:, column] = value
                place = value if factor == "open_share" else np.exp(value)
                rows.append((name, factor, place, float(fitted.predict(moved).mean())))
    return pd.DataFrame(rows, columns=["model", "factor", "value", "score"])


def _unbounded_lengths() -> Any:
    """Ignore that a factor without influence drives its length in the process to the bound."""
    from sklearn.exceptions import ConvergenceWarning

    return warnings.catch_warnings(action="ignore", category=ConvergenceWarning)
