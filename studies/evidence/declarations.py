"""What was declared and its committed rows: experiments, claims of the papers, and verdicts."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from studies.evidence.contrasts import judged_table, measured

STUDY = Path(__file__).parents[2] / "figures/study"
FIRST_ROUND, SECOND_ROUND = STUDY / "evidence", STUDY / "second_round"
Frames = dict[str, pd.DataFrame]
CONFIRMATORY = "confirmatory"
# How pictures say short names.
WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parents[1] / name).read_text(encoding="utf-8"))


# The first round's contrasts; the protocol and the parts of the second round; the papers' claims.
CONTRASTS = _read("evidence/contrasts.toml")["parts"]
DECLARATION = _read("second_round/declaration.toml")
CLAIMS = {name: _read(f"second_round/{name}.toml")["parts"] for name in ("papers", "tables")}
CLAIM_DESIGNS = CLAIMS["papers"] | CLAIMS["tables"]
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
