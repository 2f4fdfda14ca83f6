"""Tables of the evidence, as far as there are rows of finished runs, by ``contrasts.toml``."""

from __future__ import annotations

import itertools
import math
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from gradlab.sweep import read_spec
from studies.contrasts import Contrast, by_seed, declared, judged, numbers
from studies.evidence.features import FEATURES, RIVALS
from studies.statistics import Interval, along_line, over_seeds

Frames = dict[str, pd.DataFrame]
SWEEPS = Path(__file__).resolve().parents[1] / "sweeps" / "evidence"
DECLARED = tomllib.loads(Path(__file__).with_name("contrasts.toml").read_text(encoding="utf-8"))[
    "parts"
]
REGIMES = ("encoder", "linear")
# VICReg's exchanges are withdrawn: its ratio is in the thousands, and in two of its arms nearly all
# first gradients lie below the optimiser's eps, so that they compare sizes of steps.
ORIGINALS = {
    "mhe": ("gate", "weight", "ratio"), "barlow_twins": ("gate", "weight", "ratio"),
    "mhs": ("gate", "ratio"),
}  # fmt: skip


def read_frames(folder: Path) -> Frames:
    """The rows of finished runs by file name, with the conditions of a comparison in one table."""
    frames = {path.stem: pd.read_csv(path) for path in sorted(folder.glob("*.csv"))}
    frames = {name: frame for name, frame in frames.items() if len(frame) and "seed" in frame}
    for part, about in DECLARED.items():
        parts = [f"encoder-{one}" for one in (part, *about.get("with", ()))]
        if len(parts) > 1 and set(parts) <= frames.keys():
            frames[parts[0]] = pd.concat([frames[one] for one in parts], ignore_index=True)
    return frames


def read_predictions(folder: Path) -> Frames:
    """The predictions that were committed before the losses in them were trained, by regime."""
    files = {regime: folder / f"{regime}-predictions.csv" for regime in REGIMES}
    return {regime: pd.read_csv(file) for regime, file in files.items() if file.exists()}


def analyse(rows: Frames, predictions: Frames | None = None) -> Frames:
    """All tables that the rows allow, by name; :func:`read_predictions` gives ``predictions``."""
    explored = [
        {**about, "name": contrast.name, **numbers(interval)}
        for about, contrast, interval in contrasts(rows, "explored")
    ]
    verdicts = judged(list(contrasts(rows, "contrasts")))
    found: Frames = {"contrasts": verdicts, "explored": pd.DataFrame(explored)}
    for regime in REGIMES:
        parts = {
            name.removeprefix(f"{regime}-"): table
            for name, table in rows.items()
            if name.startswith(regime)
        }
        tables: Frames = {
            f"{part}-cells": cell_scores(parts[part])
            for part in ("factorial", "longer")
            if part in parts
        }
        if "exchanges" in parts:
            tables |= exchanges(parts["exchanges"])
        if "theta_neg" in parts.get("dissipation", ()):
            tables["dissipation-angles"] = angles(parts["dissipation"])
        if {"features", "factorial"} <= parts.keys():
            trained, features = parts["factorial"], parts["features"]
            beforehand = predict(trained, features, (predictions or {}).get(regime))
            for part in ("prediction", "atlas"):
                if part in parts:
                    compared = prediction(beforehand, parts[part], trained, features)
                    tables |= {f"{part}-{name}": one for name, one in compared.items()}
        if "open" in parts:
            tables["open-shares"] = open_shares(parts["open"])
        elif "dissipation_mean" in parts.get("factorial", ()):
            cells = parts["factorial"].rename(columns={"dissipation_mean": "mean"})
            tables["open-shares"] = open_shares(cells)
        found |= {f"{regime}-{name}": table for name, table in tables.items()}
    return {name: table for name, table in found.items() if len(table)}


def contrasts(rows: Frames, kind: str) -> Iterator[tuple[dict[str, str], Contrast, Interval]]:
    """Origin, contrast and interval of the declared contrasts that two seeds have whole."""
    for regime, (part, about) in itertools.product(REGIMES, DECLARED.items()):
        if (table := rows.get(f"{regime}-{part}")) is None:
            continue
        files = [SWEEPS / f"{name}.toml" for name in (part, *about.get("with", ()))]
        specs = [read_spec(file) for file in files if file.stem not in about.get("retired", ())]
        labels = [point.label for spec in specs for point in spec.points({})]
        labels += about.get("labels", ())
        for contrast in declared(about, labels, kind):
            interval = contrast.interval(table)
            if interval.count > 1:
                yield {"regime": regime, "part": part}, contrast, interval


def with_cells(table: pd.DataFrame) -> pd.DataFrame:
    """The factorial's rows with gate, weight and ratio."""
    pattern = r"^(?P<gate>\S+) / (?P<weight>.+), loss_settings\.ratio=(?P<ratio>[\d.]+)$"
    parts = table.label.str.extract(pattern)
    return table.assign(gate=parts.gate, weight=parts.weight, ratio=parts.ratio.astype(float))


def cell_scores(table: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation of each cell over its seeds, in points."""
    table = with_cells(table.assign(score=100 * table.sts))
    return table.groupby(["gate", "weight", "ratio"], as_index=False).agg(
        score=("score", "mean"), deviation=("score", "std"), seeds=("seed", "count")
    )


def weight_share(table: pd.DataFrame) -> float:
    """Share of the variance of the factorial's runs that lies between the means of its weights."""
    score = with_cells(table).assign(score=table.sts)
    between = score.groupby("weight").score.transform("mean")
    return float(between.var(ddof=0) / score.score.var(ddof=0))


def exchanges(table: pd.DataFrame) -> Frames:
    """Shapley values of each repair's parts; native originals beside their parts recombined."""
    splits, natives = [], []
    means = 100 * table.groupby("label").sts.mean()
    for base, parts in ORIGINALS.items():
        labels = {frozenset(one): f"{base}: {'+'.join(one) or 'none'}" for one in _subsets(parts)}
        if not set(labels.values()) <= set(table.label):
            continue
        whole = {frozenset(parts): 1.0, frozenset[str](): -1.0}
        for part, weights in {"all": whole, **shapley_weights(parts)}.items():
            named = {labels[coalition]: factor for coalition, factor in weights.items()}
            found = over_seeds(by_seed(table, named))
            splits.append({"loss": base, "part": part} | numbers(found))
        none, native = f"{base}: none", f"{base}: native"
        if native in means:
            found = over_seeds(by_seed(table, {none: 1.0, native: -1.0}))
            about = {"loss": base, "native": means[native], "recombined": means[none]}
            natives.append(about | numbers(found))
    return {"exchanges-shapley": pd.DataFrame(splits), "exchanges-native": pd.DataFrame(natives)}


def shapley_weights(parts: Sequence[str]) -> dict[str, dict[frozenset[str], float]]:
    """Part -> coalition -> the factor on its value in that part's Shapley value.

    It is the mean, over all orders in which parts join, of what the part adds to those before it.
    """
    found: dict[str, dict[frozenset[str], float]] = {part: defaultdict(float) for part in parts}
    share = 1 / math.factorial(len(parts))
    for order in itertools.permutations(parts):
        for place, part in enumerate(order):
            before = frozenset(order[:place])
            found[part][before | {part}] += share
            found[part][before] -= share
    return found


def angles(table: pd.DataFrame) -> pd.DataFrame:
    """Conjecture 1: held-out angles (degrees) of each arm, and how they differ from the gate's."""
    positives, negatives = np.degrees(table.theta_pos), np.degrees(table.theta_neg)
    degrees = {"gap": negatives - positives, "positives": positives, "negatives": negatives}
    rows = []
    for measure, values in degrees.items():
        wide = table.assign(angle=values).pivot(index="seed", columns="label", values="angle")
        for arm in ("off", "random", "scaled"):
            if {arm, "on"} <= set(wide):
                about = {"angle": measure, "arm": arm, "mean": wide[arm].mean()}
                found = over_seeds((wide[arm] - wide["on"]).to_numpy())
                rows.append(about | {"gate": wide["on"].mean()} | numbers(found))
    return pd.DataFrame(rows)


def predict(
    trained: pd.DataFrame, features: pd.DataFrame, committed: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Least squares on the factorial's cells: loss -> score.

    Scores are predicted from the declared features, from their rivals, and by the mean. What was
    ``committed`` stays as it is.
    """
    scores = 100 * trained.groupby("label").sts.mean()
    means = features.groupby("label")[[*FEATURES, *RIVALS]].mean()
    known = means.index.isin(scores.index)
    table = pd.DataFrame({"loss": means.index[~known]})
    table["mean"] = scores.loc[means.index[known]].mean()
    for name, columns in (("components", FEATURES), ("alignment and uniformity", RIVALS)):
        table[name] = _fitted(means, scores, columns, table.loss)
    if committed is None:
        return table
    return pd.concat([committed, table[~table.loss.isin(committed.loss)]], ignore_index=True)


def _fitted(
    means: pd.DataFrame, scores: pd.Series, columns: Sequence[str], new: pd.Series
) -> np.ndarray:
    means = means[list(columns)]
    known = means.loc[means.index.isin(scores.index)]
    return along_line(known, scores.loc[known.index], means.loc[new])


def prediction(
    predicted: pd.DataFrame, results: pd.DataFrame, trained: pd.DataFrame, features: pd.DataFrame
) -> Frames:
    """Scores of losses that the factorial did not train: predicted from first steps, and measured.

    Two rivals were added after the fact: the mean of the factorial's softmax cells, and the
    components fitted on these alone. ``outside`` says which losses have a feature beyond all cells
    of the factorial.
    """
    truth = 100 * results.groupby("label").sts.mean()
    table = predicted[predicted.loss.isin(truth.index)].reset_index(drop=True)
    table["score"] = truth.loc[table.loss].to_numpy()
    means = features.groupby("label")[[*FEATURES, *RIVALS]].mean()
    scores = 100 * trained.groupby("label").sts.mean()
    softmax = scores[scores.index.str.contains("softmax")]
    table["mean of the softmax cells"] = softmax.mean()
    table["components, softmax cells"] = _fitted(means, softmax, FEATURES, table.loss)
    own = means[list(FEATURES)]
    fitted, new = own.loc[own.index.isin(scores.index)], own.loc[table.loss]
    table["outside"] = ((new < fitted.min()) | (new > fitted.max())).any(axis=1).to_numpy()
    rows, came = [], table.score.to_numpy()
    for name in table.columns.drop(["loss", "score", "outside"]):
        values, p = table[name].to_numpy(), math.nan
        if np.ptp(values) >= 1e-9:
            p = order_test(values, came)
        rows.append({"model": name, "error": _error(values, came), "p": p})
    return {"losses": table, "models": pd.DataFrame(rows)}


def order_test(predicted: np.ndarray, truth: np.ndarray) -> float:
    """Exact p: share of orders of the predictions with at least as small an error as their own."""
    test = stats.permutation_test(
        (predicted,),
        lambda values, axis: _error(values, truth, axis),
        permutation_type="pairings",
        n_resamples=np.inf,
        alternative="less",
        batch=10_000,
    )
    return float(test.pvalue)


def rates_and_ratios(table: pd.DataFrame, rates: dict[str, float]) -> pd.DataFrame:
    """Mean score at τ = .05 by learning rate and ratio: the factorial's cells differ in both."""
    table = with_cells(table.assign(score=100 * table.sts, rate=table.label.map(rates)))
    own = table[table.weight == "softmax .05"].groupby(["rate", "ratio"], as_index=False)
    return own.agg(score=("score", "mean"), runs=("score", "count"))


def open_shares(table: pd.DataFrame) -> pd.DataFrame:
    """Mean dissipation of each cell of gate and weight over ratios and seeds.

    On the linear head relative to that of the first step; on the encoder, where it is recorded in
    the unit gauge, as it is. For a hard gate that is the share of open anchors. Where it stays near
    1, the cell is the one without a gate.
    """
    table = with_cells(table)
    if "first" in table:
        table = table.assign(mean=table["mean"] / table["first"])
    return table.groupby(["gate", "weight"], as_index=False, sort=False)[["mean"]].mean()


def _subsets(parts: Sequence[str]) -> list[tuple[str, ...]]:
    return [one for size in range(len(parts) + 1) for one in itertools.combinations(parts, size)]


def _error(values: np.ndarray, truth: np.ndarray, axis: int = -1) -> Any:
    return np.sqrt(np.mean((values - truth) ** 2, axis=axis))
