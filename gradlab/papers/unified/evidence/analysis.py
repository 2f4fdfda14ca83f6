"""Tables of the evidence, computed from rows of finished runs; what is missing is left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd

from gradlab.papers.unified.evidence.contrasts import (
    CELL_MARGIN,
    CONTRASTS,
    ENOUGH,
    FEATURES,
    GATES,
    LONGER,
    RIVALS,
    SETTINGS,
    WEIGHTS,
    Cell,
    Contrast,
)
from gradlab.papers.unified.evidence.statistics import (
    CellMeans,
    Effect,
    judge_effects,
    permutation_test,
    shapley_weights,
    variance_shares,
)

Frames = dict[str, pd.DataFrame]
ORIGINALS = {
    "mhe": ("gate", "weight", "ratio"), "barlow_twins": ("gate", "weight", "ratio"),
    "vicreg": ("gate", "weight", "ratio"), "mhs": ("gate", "ratio"),
}  # fmt: skip
RECIPES = (("MoCoSE", "SimCSE"), ("ESimCSE", "SimCSE"), ("MoCoSE", "ESimCSE"))
COLLAPSES = ("symmetric, no inertia", "predictor, no inertia", "heads at random")
ARMS = (("on", "off"), ("on", "random"), ("on", "scaled"), ("random", "off"), ("scaled", "off"))


def read_frames(folder: Path) -> Frames:
    """The CSV files of a folder by name, but for those of parts of which no run has finished yet."""
    frames = {path.stem: pd.read_csv(path) for path in sorted(folder.glob("*.csv"))}
    return {name: frame for name, frame in frames.items() if len(frame)}


def analyse(rows: Frames) -> Frames:
    """All tables that the rows allow, by name.

    Args:
        rows: ``linear-PART`` and ``encoder-PART`` as `collect` writes them.
    """
    found: Frames = {}
    for regime in ("linear", "encoder"):
        parts = {
            name.removeprefix(f"{regime}-"): table for name, table in rows.items() if name.startswith(regime)
        }
        tables: Frames = {}
        if "dissipation-controls" in parts:
            parts["dissipation"] = pd.concat([parts["dissipation"], parts.pop("dissipation-controls")])
        if "factorial" in parts:
            tables |= factorial(parts["factorial"])
        if "longer" in parts:
            tables |= longer(parts["longer"], parts.get("factorial"))
        if "setting" in parts:
            wanted = tuple((f"infonce: {name}", f"mhe: {name}") for name in SETTINGS)
            tables["setting-effects"] = pairs(parts["setting"], wanted, "sts", 100)
        if "exchanges" in parts:
            tables |= exchanges(parts["exchanges"])
        if "dissipation" in parts:
            tables["dissipation-effects"] = pairs(parts["dissipation"], ARMS, "sts", 100)
            if "theta_neg" in parts["dissipation"] and parts["dissipation"].seed.nunique() > 1:
                tables |= gaps(parts["dissipation"])
        if {"features", "factorial"} <= parts.keys():
            # Those that were committed before the losses were trained; more seeds since then change nothing of them.
            beforehand = predict(parts["factorial"], parts["features"], parts.get("predictions"))
            for part in ("prediction", "atlas"):
                if part in parts:
                    tables |= {
                        f"{part}-{name}": one for name, one in prediction(beforehand, parts[part]).items()
                    }
        if "recipes" in parts:
            tables["recipes-effects"] = pairs(parts["recipes"], RECIPES, "sts", 100)
        if {"recipes", "collapse"} <= parts.keys():
            both = pd.concat([parts["recipes"], parts["collapse"]])
            wanted = tuple(("MoCoSE", name) for name in COLLAPSES)
            kept = both[both.label.isin(("MoCoSE", *COLLAPSES))]
            tables["collapse-effects"] = pairs(kept, wanted, "stsb_dev", 100)
        if {"recipes", "precision"} <= parts.keys():
            half = parts["precision"].assign(label=parts["precision"].label + ", bfloat16")
            both = pd.concat([parts["recipes"], half])
            kept = both[both.label.isin(("SimCSE", "SimCSE, bfloat16"))]
            tables["precision-effects"] = pairs(kept, (("SimCSE, bfloat16", "SimCSE"),), "sts", 100)
        if "open" in parts:
            tables["open-shares"] = open_shares(parts["open"])
        elif "dissipation_mean" in parts.get("factorial", ()):
            tables["open-shares"] = open_shares(
                parts["factorial"].rename(columns={"dissipation_mean": "mean"})
            )
        found |= {f"{regime}-{name}": table for name, table in tables.items() if len(table)}
    return found


def with_cells(table: pd.DataFrame) -> pd.DataFrame:
    """The factorial's rows with gate, weight, ratio, cell, and the score in points."""
    parts = table.label.str.extract(
        r"^(?P<gate>\S+) / (?P<weight>.+), loss_settings\.ratio=(?P<ratio>[\d.]+)$"
    )
    table = table.assign(gate=parts.gate, weight=parts.weight, ratio=parts.ratio.astype(float))
    cells = [cell_name((row.gate, row.weight, row.ratio)) for row in table.itertuples()]
    return table.assign(cell=cells, score=100 * table.sts)


def cell_name(cell: Cell) -> str:
    """A cell as text."""
    return f"{cell[0]} / {cell[1]} / {cell[2]:g}"


def factorial(table: pd.DataFrame) -> Frames:
    """Means of cells, declared contrasts with verdicts, and shares of variance, over the seeds that are complete."""
    table = complete(with_cells(table), "cell")
    if table.seed.nunique() < 2:
        return {}
    model = CellMeans(table)
    return {
        "factorial-contrasts": judged(model, CONTRASTS),
        "factorial-cells": cell_scores(table),
        "factorial-shares": variance_shares(table, ["gate", "weight", "ratio"]),
        # Not declared beforehand: where uniform weights fail altogether they leave nothing for the others to explain.
        "factorial-softmax": variance_shares(table[table.weight != WEIGHTS[0]], ["gate", "weight", "ratio"]),
        "factorial-noise": pd.DataFrame(
            {"residual": [model.residual], "seeds": [model.seed], "count": [table.seed.nunique()]}
        ),
    }


def longer(table: pd.DataFrame, short: pd.DataFrame | None) -> Frames:
    """The same of cells that were trained once more, over more steps; beside each cell its ``short`` score on the same seeds."""
    table = complete(with_cells(table), "cell")
    if table.seed.nunique() < 2:
        return {}
    means = cell_scores(table)
    if short is not None:
        short = with_cells(short[short.seed.isin(table.seed)])
        before = short.groupby(["gate", "weight", "ratio"], as_index=False).agg(short=("score", "mean"))
        means = means.merge(before, how="left")
    return {"longer-contrasts": judged(CellMeans(table), LONGER), "longer-cells": means}


def judged(model: CellMeans, declared: Sequence[Contrast]) -> pd.DataFrame:
    """Contrasts that were declared together, with their verdicts."""
    effects = [
        model.effect(one.name, {cell_name(cell): factor for cell, factor in one.weights.items()}, one.margin)
        for one in declared
    ]
    table = effect_table(judge_effects(effects, [one.expected for one in declared]))
    return table.assign(margin=[one.margin for one in declared])


def cell_scores(table: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation of each cell over its seeds."""
    return table.groupby(["gate", "weight", "ratio"], as_index=False).agg(
        score=("score", "mean"), deviation=("score", "std"), seeds=("seed", "count")
    )


def complete(table: pd.DataFrame, cell: str) -> pd.DataFrame:
    """The rows of the seeds that have all cells."""
    counts = table.groupby("seed")[cell].nunique()
    return table[table.seed.isin(counts[counts == table[cell].nunique()].index)]


def exchanges(table: pd.DataFrame) -> Frames:
    """Shapley values of the parts of each repair, and each native original beside its own parts recombined.

    Each loss has a model of its own: runs of one that fails in some seeds scatter by ten times those of another.
    """
    table = table.assign(cell=table.label, score=100 * table.sts, base=table.label.str.partition(":")[0])
    if table.seed.nunique() < 2:
        return {}
    models = {str(base): CellMeans(own) for base, own in table.groupby("base") if own.seed.nunique() > 1}
    splits, natives = [], []
    for base, parts in ORIGINALS.items():
        named = {frozenset(): "none", **{frozenset(one): _joined(one, parts) for one in _subsets(parts)}}
        labels = {coalition: f"{base}: {name}" for coalition, name in named.items()}
        if base not in models or not set(labels.values()) <= set(models[base].means):
            continue
        model = models[base]
        whole = model.effect("all", {labels[frozenset(parts)]: 1.0, labels[frozenset()]: -1.0}, CELL_MARGIN)
        splits.append({"loss": base, "part": "all", **_numbers(whole), "residual": model.residual})
        for part, weights in shapley_weights(parts).items():
            effect = model.effect(part, {labels[coalition]: factor for coalition, factor in weights.items()})
            splits.append({"loss": base, "part": part, **_numbers(effect), "residual": model.residual})
    for base in (*ORIGINALS, "vicreg-paper"):
        pair = f"{base}: none", f"{base}: native"
        if base in models and set(pair) <= set(models[base].means):
            model = models[base]
            effect = model.effect(base, {pair[0]: 1.0, pair[1]: -1.0}, CELL_MARGIN)
            natives.append({"loss": base, "native": model.means[pair[1]], "recombined": model.means[pair[0]],
                            **_numbers(effect)})  # fmt: skip
    means = pd.DataFrame(
        [{"condition": name, "score": value} for one in models.values() for name, value in one.means.items()]
    )
    return {"exchanges-shapley": pd.DataFrame(splits), "exchanges-native": pd.DataFrame(natives),
            "exchanges-cells": means}  # fmt: skip


def pairs(table: pd.DataFrame, wanted: tuple[tuple[str, str], ...], score: str, scale: float) -> pd.DataFrame:
    """Differences of labels, each tested, with Holm's correction over them; equivalence from `ENOUGH` runs of a pair on."""
    table = table[table[score].notna()].assign(cell=table.label, score=scale * table[score])
    known = [pair for pair in wanted if set(pair) <= set(table.cell)]
    if table.seed.nunique() < 2 or not known:
        return pd.DataFrame()
    model = CellMeans(table)
    runs = table.cell.value_counts()
    effects = [
        model.effect(f"{a} − {b}", {a: 1.0, b: -1.0}, CELL_MARGIN if runs[a] + runs[b] >= ENOUGH else None)
        for a, b in known
    ]
    return effect_table(judge_effects(effects, [1] * len(effects)))


def gaps(table: pd.DataFrame) -> Frames:
    """Conjecture 1: the gap between held-out angles (degrees), and what of it are positives."""
    degrees = table.assign(
        gap=np.degrees(table.theta_neg - table.theta_pos), negatives=np.degrees(table.theta_neg),
        positives=np.degrees(table.theta_pos),
    )  # fmt: skip
    rows = []
    for measure in ("gap", "negatives", "positives"):
        model = CellMeans(degrees.assign(cell=degrees.label, score=degrees[measure]))
        for first, second in (("off", "on"), ("random", "on"), ("scaled", "on")):
            effect = model.effect(f"{first} − {second}", {first: 1.0, second: -1.0})
            rows.append({"measure": measure, **_numbers(effect), "name": effect.name})
    scores = [name for name in ("sts", "STS-B dev", "stsb_dev") if name in degrees]
    means = degrees.groupby("label", as_index=False)[["gap", "negatives", "positives", *scores]].mean()
    return {"dissipation-gaps": pd.DataFrame(rows), "dissipation-means": means}


def prediction(predicted: pd.DataFrame, results: pd.DataFrame) -> Frames:
    """Scores of losses that the factorial did not train, predicted from their first steps, beside what came."""
    truth = 100 * results.groupby("label").sts.mean()
    table = predicted[predicted.loss.isin(truth.index)].reset_index(drop=True)
    table["score"] = truth.loc[table.loss].to_numpy()
    rows = []
    for name in ("mean", "components", "alignment and uniformity"):
        values = table[name].to_numpy()
        p = math.nan if np.ptp(values) == 0 else permutation_test(lambda v: _error(v, table.score), values)
        rows.append({"model": name, "error": _error(values, table.score), "p": p})
    return {"losses": table, "models": pd.DataFrame(rows)}


def predict(
    trained: pd.DataFrame, features: pd.DataFrame, committed: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Least squares on the factorial's cells: loss -> score from the declared features, from their rivals, and the mean.

    What was ``committed`` stays as it is.
    """
    scores = 100 * trained.groupby("label").sts.mean()
    means = features.groupby("label")[[*FEATURES, *RIVALS]].mean()
    known = means.loc[means.index.isin(scores.index)]
    new = means.loc[~means.index.isin(scores.index)]
    target = scores.loc[known.index].to_numpy()
    found = {"loss": list(new.index), "mean": np.full(len(new), target.mean())}
    for name, columns in (("components", FEATURES), ("alignment and uniformity", RIVALS)):
        design = _design(known[list(columns)])
        beta = np.linalg.lstsq(design, target, rcond=None)[0]
        found[name] = _design(new[list(columns)]) @ beta
    table = pd.DataFrame(found)
    if committed is None:
        return table
    return pd.concat([committed, table[~table.loss.isin(committed.loss)]], ignore_index=True)


def effect_table(effects: list[Effect]) -> pd.DataFrame:
    """A row an effect."""
    return pd.DataFrame([asdict(one) for one in effects])


def marginal_means(cells: pd.DataFrame) -> Mapping[str, pd.Series]:
    """Factor -> mean score by level."""
    order = {"gate": list(GATES), "weight": list(WEIGHTS)}
    found = {name: cells.groupby(name).score.mean() for name in ("gate", "weight", "ratio")}
    return {name: one.loc[order[name]] if name in order else one for name, one in found.items()}


def open_shares(table: pd.DataFrame) -> pd.DataFrame:
    """Mean dissipation of each cell of gate and weight over ratios and seeds.

    On the linear head relative to that of the first step; on the encoder, where it is recorded in the unit gauge, as it is. For a hard gate that
    is the share of open anchors. A gate that never closes makes its cell the one without a gate; a constant factor is
    nothing to Adam.
    """
    table = with_cells(table.assign(sts=math.nan))
    kept = ["mean"]
    if "first" in table:
        table = table.assign(mean=table["mean"] / table["first"], last=table["last"] / table["first"])
        kept = ["first", "mean", "last"]
    return table.groupby(["gate", "weight"], as_index=False, sort=False)[kept].mean()


def _design(table: pd.DataFrame) -> np.ndarray:
    return np.column_stack([np.ones(len(table)), table.to_numpy(float)])


def _error(values: np.ndarray, truth: pd.Series) -> float:
    return float(np.sqrt(np.mean((values - truth.to_numpy()) ** 2)))


def _numbers(effect: Effect) -> dict[str, float]:
    return {name: getattr(effect, name) for name in ("estimate", "low", "high", "p", "equivalence")}


def _subsets(parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    import itertools

    return [one for size in range(1, len(parts) + 1) for one in itertools.combinations(parts, size)]


def _joined(chosen: tuple[str, ...], parts: tuple[str, ...]) -> str:
    return "+".join(part for part in parts if part in chosen)
