"""What was declared and its committed rows: contrasts within each seed, judged as families."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from studies.statistics import Interval, judge, over_seeds

STUDY = Path(__file__).parents[2] / "figures/study"
FIRST_ROUND, SECOND_ROUND = STUDY / "evidence", STUDY / "second_round"
Frames = dict[str, pd.DataFrame]
CONFIRMATORY = "confirmatory"
# How pictures say short names.
WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
# An entry of a declaration: name, conditions `plus` and `minus`, perhaps a margin.
Entry = Mapping[str, Any]
# Points of a score of 1; alignment and uniformity are no correlations and stay as they are.
POINTS, UNITS = 100, {"alignment_uniformity": 1}


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parents[1] / name).read_text(encoding="utf-8"))


# The first round's contrasts; the protocol and the parts of the second round; the papers' claims.
CONTRASTS = _read("evidence/first_round_contrasts.toml")["parts"]
DECLARATION = _read("second_round/declaration.toml")
CLAIMS = {name: _read(f"second_round/papers_{name}.toml")["parts"] for name in ("claims", "tables")}
CLAIM_DESIGNS = CLAIMS["claims"] | CLAIMS["tables"]
DESIGNS = DECLARATION["parts"] | CLAIM_DESIGNS
# STS average x 100 of the encoder before any training.
UNTRAINED = 100 * DECLARATION["protocol"]["untrained"]


def read_first_round(folder: Path = FIRST_ROUND) -> Frames:
    """The rows of the first round by file name, with the conditions of a comparison together."""
    frames = {path.stem: pd.read_csv(path) for path in sorted(folder.glob("*.csv"))}
    frames = {name: frame for name, frame in frames.items() if "seed" in frame}
    for experiment, design in CONTRASTS.items():
        names = [f"encoder-{name}" for name in (experiment, *design.get("with", ()))]
        frames[names[0]] = pd.concat([frames[name] for name in names], ignore_index=True)
    return frames


def read_second_round(folder: Path = SECOND_ROUND) -> Frames:
    """The rows of the second round by part, in the order of the declarations."""
    files = {name: folder / f"{name}.csv" for name in DESIGNS}
    return {name: pd.read_csv(file) for name, file in files.items() if file.exists()}


def at_best(rows: pd.DataFrame, setting: str, score: str) -> pd.DataFrame:
    """The rows of each condition at the value of its last setting with the best mean ``score``.

    Means are over seeds. The label of a row no longer has the setting.
    """
    condition = rows.label.str.partition(f", {setting}=")[0].rename("condition")
    means = rows.groupby([condition, rows.label])[score].mean()
    chosen = means.groupby(level="condition").idxmax().map(lambda pair: pair[1])
    selected = rows.label.isin(chosen)
    return rows[selected].assign(label=condition[selected])


def judge_parts(rows: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Judge contrasts: confirmatory parts are one family, each of the papers' claims another."""
    confirmatory = [name for name, design in DESIGNS.items() if design["status"] == CONFIRMATORY]
    tables = []
    for family in (confirmatory, *([name] for name in CLAIM_DESIGNS)):
        contrasts = []
        for name in filter(rows.__contains__, family):
            table, design = rows[name], DESIGNS[name]
            if "at_best" in design:
                table = at_best(table, design["at_best"], design["score"])
            contrasts += [({"part": name}, *contrast) for contrast in measured(design, table)]
        if contrasts:
            tables.append(judged_table(contrasts).drop(columns=["p", "margin"]))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def measured(
    design: Mapping[str, Any], rows: pd.DataFrame, kind: str = "contrasts"
) -> Iterator[tuple[Entry, Interval]]:
    """Yield the declared contrasts of a part, over the seeds that have all of their conditions.

    A contrast is the mean score over the conditions ``plus`` minus that over ``minus``, which are
    patterns of labels. It has no seed where no row has a label that a pattern asks for.
    """
    labels, score = list(dict.fromkeys(rows.label)), design.get("score", "sts")
    for entry in design.get(kind, ()):
        weights: dict[str, float] = {}
        for side, sign in (("plus", 1), ("minus", -1)):
            sets = [fnmatch.filter(labels, pattern) or [pattern] for pattern in entry[side]]
            matches = [label for matching in sets for label in matching]
            for label in matches:
                weights[label] = weights.get(label, 0.0) + sign / len(matches)
        yield entry, over_seeds(by_seed(rows, weights, score))


def by_seed(table: pd.DataFrame, weights: Mapping[str, float], score: str = "sts") -> list[float]:
    """A weighted sum of a score over conditions, once for each seed that has all of them.

    It is in points, unless the score has a unit of its own (`UNITS`).
    """
    own = table[table.label.isin(weights)].pivot(index="seed", columns="label", values=score)
    wide = own.reindex(columns=list(weights)).dropna()
    points = UNITS.get(score, POINTS)
    return (points * wide.to_numpy() @ np.array(list(weights.values()))).tolist()


def numbers(interval: Interval) -> dict[str, float]:
    """Columns of an interval over seeds."""
    return interval.columns("estimate", "low", "high", "seeds")


def judged_table(contrasts: Sequence[tuple[Mapping[str, Any], Entry, Interval]]) -> pd.DataFrame:
    """A row for each contrast, judged as one family: its origin, interval and judgement."""
    judgements = judge([(interval, 0.0, entry.get("margin")) for _, entry, interval in contrasts])
    rows = []
    for (origin, entry, interval), judgement in zip(contrasts, judgements, strict=True):
        row = {**origin, "name": entry["name"], **numbers(interval)}
        row |= {"p": interval.p, "holm": judgement.p, "margin": entry.get("margin")}
        row |= {"equivalence": judgement.equivalence, "verdict": judgement.verdict}
        row |= {"within_margin": judgement.within_margin}
        rows.append(row)
    return pd.DataFrame(rows)


def judge_claim(contrasts: pd.DataFrame, claim: str = "better") -> str:
    """Judge a paper's claim by its judged contrasts: reproduced, contradicted or inconclusive.

    ``claim`` is "better", by papers_claims.toml's rule, or "equal": reproduced if every difference
    is shown to be within its margin, contradicted if one differs from 0 and is not.
    """
    significant = contrasts.holm < 0.05
    if claim == "equal":
        within = contrasts.within_margin == "yes"
        if (significant & ~within).any():
            return "contradicted"
        return "reproduced" if within.all() else "inconclusive"
    if (significant & (contrasts.estimate < 0)).any():
        return "contradicted"
    return "reproduced" if (significant & (contrasts.estimate > 0)).all() else "inconclusive"
