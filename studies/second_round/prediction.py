"""Does the feature predict scores of losses that nothing was fitted on better than its rivals?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gradlab import GradlabError
from gradlab.sweep import Point, read_spec
from studies.evidence.analysis import read_frames
from studies.second_round.rounds import ROWS, declaration, sweep_of
from studies.statistics import along_line, percentiles

FEATURES = ROWS / "features.csv"
# Bootstrap samples of losses.
RESAMPLES = 10_000
FIRST_ROUND = Path(__file__).parents[1] / "sweeps/evidence"
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

    @property
    def parts(self) -> list[str]:
        """All of them."""
        return [*self.fitted, *self.tested]


# What the first round trained: cells to fit on, and losses that it predicted before their results.
FIRST = Design(("factorial",), ("prediction", "atlas"))


def declared() -> Design:
    """What is declared for the second round."""
    about = declaration()["prediction"]
    return Design(about["fitted_on"], about["tested_on"])


def points_of(part: str, changes: Mapping[str, Any]) -> list[Point]:
    """The points of a declared part, or of a first-round part in the second round's precision."""
    if part in FIRST.parts:
        base = {**changes, "precision": declaration()["protocol"]["precision"]}
        return read_spec(FIRST_ROUND / f"{part}.toml").with_base(base).points({})
    return sweep_of(part, changes).points({})


def first_runs() -> pd.DataFrame:
    """``part``, ``label`` and mean ``score`` (points) of the first round's conditions."""
    frames = read_frames(ROWS.parent / "evidence")
    rows = pd.concat([frames[f"encoder-{part}"].assign(part=part) for part in FIRST.parts])
    return rows.groupby(["part", "label"]).sts.mean().mul(100).rename("score").reset_index()


def runs_of_parts(rows: Mapping[str, pd.DataFrame], design: Design) -> pd.DataFrame:
    """``part``, ``label`` and ``score`` (points) of the second round's runs that a design needs."""
    found = pd.concat([rows[part].assign(part=part) for part in design.parts])
    return found.assign(score=100 * found.sts)[["part", "label", "score"]]


def unmeasured(features: pd.DataFrame, runs: pd.DataFrame) -> int:
    """How many conditions of the runs have no features yet."""
    known, wanted = (
        pd.MultiIndex.from_frame(one[["part", "label"]]).unique() for one in (features, runs)
    )
    return len(wanted.difference(known))


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
    lacking = measured[measured[columns].isna().any(axis=1)]
    if len(lacking):
        one = lacking.iloc[0]
        raise GradlabError(
            f"{one.label!r} of {one.part!r} has no features, or some that are no numbers; "
            "every tested and fitted run counts"
        )
    table = runs.merge(table.groupby(keys, as_index=False)[columns].mean())
    fitted, tested = table[table.part.isin(design.fitted)], table[table.part.isin(design.tested)]
    # Cells whose gate never closes are one and the same training, and count once.
    fitted = fitted.groupby(columns, as_index=False).agg(
        label=("label", "first"), score=("score", "mean")
    )
    # Labels of the first round name the weight; all fitted runs of the second have a softmax's.
    softmax = fitted.label.str.contains("softmax|τ=")
    found = tested[["part", "label", "score"]].reset_index(drop=True)
    found.insert(2, "loss", loss_of(found.label))
    found[CONSTANT] = fitted.score[softmax].mean()
    for name, own in PREDICTORS.items():
        found[name] = along_line(fitted[own], fitted.score, tested[own])
    return found


def loss_of(labels: pd.Series) -> pd.Series:
    """The loss that each label names, or the label where it is one loss's own."""
    return labels.str.extract(r"\bloss=(\w+)$")[0].fillna(labels)


def errors(table: pd.DataFrame) -> pd.DataFrame:
    """Root mean square error of each predictor in points, and how much the feature's exceeds it.

    Intervals are 95% percentile intervals of 10,000 bootstrap samples of the losses, each with all
    of its runs; the fitted lines stay.

    Returns:
        A row a predictor: ``error`` over all runs with ``error_low`` and ``error_high``, and
        ``error_above`` over those above the untrained encoder with ``above_low`` and
        ``above_high``; and ``excess`` with ``low`` and ``high``: how far the feature's ``error``
        exceeds this one.
    """
    names = list(dict.fromkeys([FEATURE, CONSTANT, *PREDICTORS]))
    squares = table[names].sub(table.score, axis=0) ** 2
    above = table.score > 100 * declaration()["protocol"]["untrained"]
    losses = table.loss.nunique()
    # The first sample is the losses themselves.
    drawn = np.random.default_rng(0).integers(0, losses, (RESAMPLES, losses))
    drawn = np.vstack([np.arange(losses), drawn])

    def sizes(rows: pd.Series) -> dict[str, np.ndarray]:
        """Of every sample, over these rows; NaN for one that has none of them."""
        of_loss = squares.where(rows, 0.0).groupby(table.loss, sort=False).sum()
        count = rows.groupby(table.loss, sort=False).sum().to_numpy(float)[drawn].sum(axis=1)
        count[count == 0] = np.nan
        sums = {name: of_loss[name].to_numpy()[drawn].sum(axis=1) for name in names}
        return {name: np.sqrt(total / count) for name, total in sums.items()}

    every, better = sizes(pd.Series(True, index=table.index)), sizes(above)
    rows = []
    for name in names:
        row: dict[str, Any] = {"predictor": name}
        samples = {
            ("error", "error_low", "error_high"): every[name],
            ("error_above", "above_low", "above_high"): better[name],
        }
        if name != FEATURE:
            samples["excess", "low", "high"] = every[FEATURE] - every[name]
        for columns, found in samples.items():
            others = found[1:][~np.isnan(found[1:])]  # a sample may lack a tested loss
            row |= dict(zip(columns, (found[0], *percentiles(others)), strict=True))
        rows.append(row)
    return pd.DataFrame(rows)


def by_part(table: pd.DataFrame) -> pd.DataFrame:
    """Errors in points and rank correlations of each predictor within each tested part.

    Returns:
        A row a part and predictor: ``part``, ``runs``, ``score`` and ``deviation`` (mean and
        standard deviation of the scores), ``predictor``, ``error``, and ``rank_correlation``, which
        is NaN where the predictor says the same of all runs.
    """
    rows = []
    for part, own in table.groupby("part", sort=False):
        scores = {"score": own.score.mean(), "deviation": own.score.std(ddof=0)}
        for name in (CONSTANT, *PREDICTORS):
            error = float(np.sqrt(((own[name] - own.score) ** 2).mean()))
            rank = own[name].corr(own.score, "spearman") if own[name].nunique() > 1 else np.nan
            about = {"part": part, "runs": len(own), **scores, "predictor": name}
            rows.append(about | {"error": error, "rank_correlation": rank})
    return pd.DataFrame(rows)


def outcome(found: pd.DataFrame) -> str:
    """What becomes of the declared claim, from `errors`.

    It is a success if the feature's error is below every rival's and each interval of the
    difference excludes 0. Else it is none, and it is said which rivals are beaten, which are ahead,
    and which are not told apart.
    """
    rivals = found[found.predictor != FEATURE]
    beaten, ahead = (rivals.high < 0) & (rivals.excess < 0), (rivals.low > 0) & (rivals.excess > 0)
    if beaten.all():
        return "success"
    told = {"better than": beaten, "not told apart from": ~(beaten | ahead), "worse than": ahead}
    parts = [
        f"{words} {', '.join(rivals.predictor[which])}"
        for words, which in told.items()
        if which.any()
    ]
    return f"no success; {'; '.join(parts)}"
