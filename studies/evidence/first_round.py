"""Tables of the first round: what each component does, by ``first_round_contrasts.toml``.

The encoder's rows are of the sweeps in ``studies/sweeps/evidence``; those of a second regime, a
linear head on cached embeddings, are analysed with them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from gradlab.sweep import read_spec
from studies.evidence.declarations import CONTRASTS, Entry, Frames, judged_table, measured, numbers
from studies.statistics import Interval, along_line, over_seeds, root_mean_square

FACTORIAL = Path(__file__).resolve().parents[1] / "sweeps/evidence/factorial.toml"
REGIMES = {"encoder": "on the encoder", "linear": "on a linear head"}
# What predictions are made from, measured in the first steps of a run.
FEATURES = ("push", "hardest_share", "pull", "pull_squared")
# VICReg's exchanges are withdrawn: its ratio is in the thousands, and in two of its arms nearly all
# first gradients lie below the optimiser's eps, so that they compare sizes of steps.
ORIGINALS = {
    "mhe": ("gate", "weight", "ratio"), "barlow_twins": ("gate", "weight", "ratio"),
    "mhs": ("gate", "ratio"),
}  # fmt: skip


def analyse(rows: Mapping[str, pd.DataFrame], predictions: Mapping[str, pd.DataFrame]) -> Frames:
    """All tables by name; ``predictions`` are those committed before the runs, by regime."""
    explored = [
        {**origin, "name": entry["name"], **numbers(interval)}
        for origin, entry, interval in contrasts(rows, "explored")
    ]
    results: Frames = {
        "contrasts": judged_table(list(contrasts(rows, "contrasts"))),
        "explored": pd.DataFrame(explored),
        "encoder-rates": rates_and_ratios(rows["encoder-factorial"], factorial_rates()),
    }
    for regime in REGIMES:
        of_regime = {
            name.removeprefix(f"{regime}-"): table
            for name, table in rows.items()
            if name.startswith(regime)
        }
        tables = regime_tables(of_regime, predictions[regime])
        results |= {f"{regime}-{name}": table for name, table in tables.items()}
    return results


def regime_tables(rows: Frames, predicted: pd.DataFrame) -> Frames:
    """Tables of one regime, from its rows and the committed predictions."""
    factorial = rows["factorial"]
    # On the encoder the rows have the mean dissipation.
    cells = rows.get("open", factorial.rename(columns={"dissipation_mean": "mean"}))
    tables = {"dissipation-angles": angles(rows["dissipation"]), "open-shares": open_shares(cells)}
    for name in ("factorial", "longer"):
        if name in rows:
            tables[f"{name}-cells"] = cell_scores(rows[name])
    for name in ("prediction", "atlas"):
        compared = prediction(predicted, rows[name], factorial, rows["features"])
        tables |= {f"{name}-{kind}": table for kind, table in compared.items()}
    return tables | exchanges(rows["exchanges"])


def contrasts(
    rows: Mapping[str, pd.DataFrame], kind: str
) -> Iterator[tuple[dict[str, str], Entry, Interval]]:
    """Origin, declaration and interval of the contrasts that two seeds have whole."""
    for regime, (experiment, design) in itertools.product(REGIMES, CONTRASTS.items()):
        if (table := rows.get(f"{regime}-{experiment}")) is not None:
            for entry, interval in measured(design, table, kind):
                if interval.count > 1:
                    yield {"regime": regime, "part": experiment}, entry, interval


def with_cells(table: pd.DataFrame) -> pd.DataFrame:
    """The factorial's rows with gate, weight and ratio."""
    pattern = r"^(?P<gate>\S+) / (?P<weight>.+), loss_settings\.ratio=(?P<ratio>[\d.]+)$"
    factors = table.label.str.extract(pattern)
    return table.assign(gate=factors.gate, weight=factors.weight, ratio=factors.ratio.astype(float))


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
    """Shapley values of each repair's parts; native originals beside their parts recombined.

    The value of a part is the mean, over all orders in which parts join, of what it adds to those
    before it.
    """
    wide = 100 * table.pivot(index="seed", columns="label", values="sts")
    means = 100 * table.groupby("label").sts.mean()
    splits, natives, none = [], [], frozenset({"none"})
    for base, components in ORIGINALS.items():
        scores = {
            frozenset(label.removeprefix(f"{base}: ").split("+")): wide[label]
            for label in wide
            if label.startswith(f"{base}: ")
        }
        gains = {"all": scores[frozenset(components)] - scores[none]}
        for component in components:
            steps = []
            for order in itertools.permutations(components):
                before = frozenset(order[: order.index(component)])
                steps.append(scores[before | {component}] - scores[before or none])
            gains[component] = sum(steps) / len(steps)
        splits += [
            {"loss": base, "part": component} | numbers(over_seeds(gain.to_numpy()))
            for component, gain in gains.items()
        ]
        native, recombined = f"{base}: native", f"{base}: none"
        about = {"loss": base, "native": means[native], "recombined": means[recombined]}
        interval = over_seeds((wide[recombined] - wide[native]).to_numpy())
        natives.append(about | numbers(interval))
    return {"exchanges-shapley": pd.DataFrame(splits), "exchanges-native": pd.DataFrame(natives)}


def angles(table: pd.DataFrame) -> pd.DataFrame:
    """Conjecture 1: held-out angles (degrees) of each arm, and how they differ from the gate's."""
    positives, negatives = np.degrees(table.theta_pos), np.degrees(table.theta_neg)
    degrees = {"gap": negatives - positives, "positives": positives, "negatives": negatives}
    rows = []
    for measure, values in degrees.items():
        wide = table.assign(angle=values).pivot(index="seed", columns="label", values="angle")
        for arm in ("off", "random", "scaled"):
            about = {"angle": measure, "arm": arm, "mean": wide[arm].mean()}
            interval = over_seeds((wide[arm] - wide["on"]).to_numpy())
            rows.append(about | {"gate": wide["on"].mean()} | numbers(interval))
    return pd.DataFrame(rows)


def prediction(
    predicted: pd.DataFrame, results: pd.DataFrame, trained: pd.DataFrame, features: pd.DataFrame
) -> Frames:
    """Scores of losses that the factorial did not train, predicted from first steps, and measured.

    What is ``predicted`` was committed before these losses were trained. Two rivals were added
    after the fact: the mean of the factorial's softmax cells, and the components fitted on these
    alone. ``outside`` says which losses have a feature beyond all cells of the factorial.
    """
    truth = 100 * results.groupby("label").sts.mean()
    table = predicted[predicted.loss.isin(truth.index)].reset_index(drop=True)
    table["score"] = truth.loc[table.loss].to_numpy()
    means = features.groupby("label")[list(FEATURES)].mean()
    scores = 100 * trained.groupby("label").sts.mean()
    softmax = scores[scores.index.str.contains("softmax")]
    table["mean of the softmax cells"] = softmax.mean()
    fitted, new = means.loc[means.index.isin(scores.index)], means.loc[table.loss]
    cells = fitted[fitted.index.isin(softmax.index)]
    table["components, softmax cells"] = along_line(cells, softmax.loc[cells.index], new)
    table["outside"] = ((new < fitted.min()) | (new > fitted.max())).any(axis=1).to_numpy()
    rows, came = [], table.score.to_numpy()
    for name in table.columns.drop(["loss", "score", "outside"]):
        values, p = table[name].to_numpy(), math.nan
        if np.ptp(values) >= 1e-9:
            p = order_test(values, came)
        rows.append({"model": name, "error": root_mean_square(values - came), "p": p})
    return {"losses": table, "models": pd.DataFrame(rows)}


def order_test(predicted: np.ndarray, truth: np.ndarray) -> float:
    """Exact p: share of orders of the predictions with at least as small an error as their own."""
    test = stats.permutation_test(
        (predicted,),
        lambda values, axis: root_mean_square(values - truth, axis),
        permutation_type="pairings",
        n_resamples=np.inf,
        alternative="less",
        batch=10_000,
    )
    return float(test.pvalue)


def factorial_rates() -> dict[str, float]:
    """Learning rate of each cell of the factorial, as its sweep declares it."""
    spec = read_spec(FACTORIAL).with_base({"backbone": "bert-base"})
    return {point.label: float(point.settings["learning_rate"]) for point in spec.points({})}


def rates_and_ratios(table: pd.DataFrame, rates: Mapping[str, float]) -> pd.DataFrame:
    """Mean score at τ = .05 by learning rate and ratio: the factorial's cells differ in both."""
    table = with_cells(table.assign(score=100 * table.sts, rate=table.label.map(rates)))
    own = table[table.weight == "softmax .05"].groupby(["rate", "ratio"], as_index=False)
    return own.agg(score=("score", "mean"), runs=("score", "count"))


def open_shares(table: pd.DataFrame) -> pd.DataFrame:
    """Mean dissipation of each cell of gate and weight over ratios and seeds.

    On the linear head relative to that of the first step; on the encoder, in the unit gauge, as it
    is. For a hard gate that is the share of open anchors; near 1, the cell has no gate.
    """
    table = with_cells(table)
    if "first" in table:
        table = table.assign(mean=table["mean"] / table["first"])
    return table.groupby(["gate", "weight"], as_index=False, sort=False)[["mean"]].mean()
