"""Does the feature predict scores of losses that nothing was fitted on better than its rivals?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gradlab import GradlabError
from studies.evidence.declarations import DECLARATION, UNTRAINED, read_first_round
from studies.statistics import along_line, percentiles, root_mean_square

# Bootstrap samples of losses.
RESAMPLES = 10_000
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


# What the first round trained: cells to fit on, and losses that it predicted before their results;
# and what is declared for the second.
FIRST = Design(("factorial",), ("prediction", "atlas"))
DECLARED = Design(DECLARATION["prediction"]["fitted_on"], DECLARATION["prediction"]["tested_on"])
# Steps of a run at which the feature was measured.
STEPS = (0, 10)


def designs(rows: Mapping[str, pd.DataFrame]) -> dict[str, tuple[pd.DataFrame, Design]]:
    """The runs of both predictions by name, with their designs; of the first, means over seeds."""
    means = {
        name.removeprefix("encoder-"): rows.groupby("label", as_index=False).sts.mean()
        for name, rows in read_first_round().items()
        if "sts" in rows
    }
    first = runs_of(means, FIRST).sort_values(["part", "label"], ignore_index=True)
    return {
        "prediction": (first, FIRST),
        "declared-prediction": (runs_of(rows, DECLARED), DECLARED),
    }


def runs_of(rows: Mapping[str, pd.DataFrame], design: Design) -> pd.DataFrame:
    """``part``, ``label`` and ``score`` (points) of the runs that a design needs."""
    names = [*design.fitted, *design.tested]
    runs = pd.concat([rows[name].assign(part=name) for name in names])
    return runs.assign(score=100 * runs.sts)[["part", "label", "score"]]


def predicted(features: pd.DataFrame, runs: pd.DataFrame, design: Design = FIRST) -> pd.DataFrame:
    """What each predictor says of the tested runs by least squares on the fitted runs.

    Returns:
        A row a tested run: ``part``, ``label``, ``loss``, ``score``, and a column each predictor.

    Raises:
        GradlabError: a run whose features are not measured, or are not numbers.
    """
    columns = list(dict.fromkeys(name for names in PREDICTORS.values() for name in names))
    keys = ["part", "label"]
    table = features.assign(learning_rate=np.log(features.learning_rate))
    measured = runs[keys].drop_duplicates().merge(table, how="left")
    if len(missing := measured[measured[columns].isna().any(axis=1)]):
        raise GradlabError(
            f"{missing.label.iloc[0]!r} of {missing.part.iloc[0]!r} has no features, or some that "
            "are no numbers; every tested and fitted run counts"
        )
    table = runs.merge(table.groupby(keys, as_index=False)[columns].mean())
    fitted, tested = table[table.part.isin(design.fitted)], table[table.part.isin(design.tested)]
    # Cells whose gate never closes are one and the same training, and count once.
    fitted = fitted.groupby(columns, as_index=False).agg(
        label=("label", "first"), score=("score", "mean")
    )
    # Labels of the first round name the weight; all fitted runs of the second have a softmax's.
    softmax = fitted.label.str.contains("softmax|τ=")
    predictions = tested[["part", "label", "score"]].reset_index(drop=True)
    # The loss that a label names, or the label where it is one loss's own.
    losses = predictions.label.str.extract(r"\bloss=(\w+)$")[0].fillna(predictions.label)
    predictions.insert(2, "loss", losses)
    predictions[CONSTANT] = fitted.score[softmax].mean()
    for name, columns in PREDICTORS.items():
        predictions[name] = along_line(fitted[columns], fitted.score, tested[columns])
    return predictions


def errors(table: pd.DataFrame) -> pd.DataFrame:
    """Root mean square error of each predictor in points, and how much the feature's exceeds it.

    Intervals are 95% percentile intervals of 10,000 bootstrap samples of the losses, each with all
    of its runs; the fitted lines stay.

    Returns:
        A row a predictor: ``error`` over all runs, ``error_above`` over those above the untrained
        encoder, and ``excess``, how far the feature's ``error`` exceeds this one, with intervals.
    """
    names = list(dict.fromkeys([FEATURE, CONSTANT, *PREDICTORS]))
    squares = table[names].sub(table.score, axis=0) ** 2
    losses = table.loss.nunique()
    # The first sample is the losses themselves.
    drawn = np.random.default_rng(0).integers(0, losses, (RESAMPLES, losses))
    drawn = np.vstack([np.arange(losses), drawn])

    def sizes(selected: pd.Series) -> np.ndarray:
        """Of every sample and predictor, over these runs; NaN for a sample that has none."""
        sums = squares.where(selected, 0.0).groupby(table.loss, sort=False).sum().to_numpy()
        counts = selected.groupby(table.loss, sort=False).sum().to_numpy(float)[drawn].sum(axis=1)
        counts[counts == 0] = np.nan
        return np.sqrt(sums[drawn].sum(axis=1) / counts[:, None])

    all_runs = sizes(pd.Series(True, index=table.index))
    samples = {
        ("error", "error_low", "error_high"): all_runs,
        ("error_above", "above_low", "above_high"): sizes(table.score > UNTRAINED),
        ("excess", "low", "high"): all_runs[:, :1] - all_runs,
    }
    rows = []
    for place, name in enumerate(names):
        row: dict[str, Any] = {"predictor": name}
        for columns, of_samples in samples.items():
            if name == FEATURE and "excess" in columns:
                continue
            estimate, *resampled = of_samples[:, place]
            usable = np.array(resampled)[~np.isnan(resampled)]  # a sample may lack a tested loss
            row |= dict(zip(columns, (estimate, *percentiles(usable)), strict=True))
        rows.append(row)
    return pd.DataFrame(rows)


def by_part(table: pd.DataFrame) -> pd.DataFrame:
    """Error in points and rank correlation of each predictor within each tested part.

    ``score`` and ``deviation`` are of the runs. There is no rank correlation (NaN) where the
    predictor says the same of all.
    """
    rows = []
    for experiment, runs in table.groupby("part", sort=False):
        scores = {"score": runs.score.mean(), "deviation": runs.score.std(ddof=0)}
        for name in (CONSTANT, *PREDICTORS):
            error = root_mean_square((runs[name] - runs.score).to_numpy())
            # Runs of one condition are predicted alike, up to rounding.
            predictions = runs[name].round(9)
            differ = predictions.nunique() > 1
            rank = predictions.corr(runs.score, "spearman") if differ else np.nan
            about = {"part": experiment, "runs": len(runs), **scores, "predictor": name}
            rows.append(about | {"error": error, "rank_correlation": rank})
    return pd.DataFrame(rows)


def outcome(errors: pd.DataFrame) -> str:
    """What becomes of the declared claim, from `errors`.

    It is a success if the feature's error is below every rival's and each interval of the
    difference excludes 0. Else it is said which rivals are beaten, ahead, and not told apart.
    """
    rivals = errors[errors.predictor != FEATURE]
    beaten, ahead = (rivals.high < 0) & (rivals.excess < 0), (rivals.low > 0) & (rivals.excess > 0)
    if beaten.all():
        return "success"
    groups = {"better than": beaten, "not told apart from": ~(beaten | ahead), "worse than": ahead}
    phrases = [
        f"{words} {', '.join(rivals.predictor[selected])}"
        for words, selected in groups.items()
        if selected.any()
    ]
    return f"no success; {'; '.join(phrases)}"


def summary(name: str, of_all: pd.DataFrame, features: pd.DataFrame, runs: pd.DataFrame,
            design: Design) -> Iterator[str]:  # fmt: skip
    """Yield what becomes of the claim, from the `errors` ``of_all``, and errors at single steps."""
    yield f"{name}: {outcome(of_all)}"
    for step in STEPS:
        by_step = features.assign(feature=features[f"feature_{step}"])
        of_step = errors(predicted(by_step, runs, design))
        rivals = ", ".join(
            f"{row.excess:.1f} ({row.low:.1f} to {row.high:.1f}) beside {row.predictor}"
            for row in of_step[of_step.predictor != FEATURE].itertuples()
        )
        error = f"{of_step.error[0]:.1f}"
        yield f"feature after {step} steps alone, not declared: {error}; {rivals}"
