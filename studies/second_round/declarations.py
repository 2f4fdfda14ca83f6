"""The declared parts of the second round: conditions, committed rows, contrasts and verdicts."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from gradlab.errors import check_known
from gradlab.sweep import Spec, parse_spec
from studies.contrasts import Contrast, judged_table
from studies.contrasts import declared as declared_contrasts

DECLARATION = Path(__file__).with_name("declaration.toml")
PAPERS = Path(__file__).with_name("papers.toml")
TABLES = Path(__file__).with_name("tables.toml")
FILES = (DECLARATION, PAPERS, TABLES)
# Where rows are committed, and the columns they have.
ROWS = Path(__file__).parents[2] / "figures/study/second_round"
COLUMNS = ("label", "seed", "state", "sts", "stsb_dev", "open_share", "device", "commit")
CONFIRMATORY = "confirmatory"


def declaration(file: Path = DECLARATION) -> dict[str, Any]:
    """Return what a file declares; one that is ``of`` another adds to the protocol and settings."""
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    if "of" not in content:
        return content
    general = declaration(file.with_name(content["of"]))
    return {
        **content,
        "protocol": general["protocol"] | content["protocol"],
        "base": general["base"] | content.get("base", {}),
    }


def declared_parts() -> dict[str, Any]:
    """Return the parts of all declarations by name, in their order."""
    return {name: design for file in FILES for name, design in declaration(file)["parts"].items()}


def sweep_of(experiment: str, changes: Mapping[str, Any] | None = None) -> Spec:
    """Return the sweep that trained a part.

    The ``changes`` are model, data and other places: nothing that the declaration settles.

    Raises:
        GradlabError: an unknown part.
    """
    check_known("part", experiment, declared_parts())
    contents = map(declaration, FILES)
    content = next(content for content in contents if experiment in content["parts"])
    design = content["parts"][experiment]
    sweep = {
        "name": f"second-{experiment}",
        "about": design["question"],
        "metric": (metric := "sts" if design.get("score", "sts") == "sts" else "stsb_dev"),
        "evaluate": ["sts"] if metric == "sts" else [],
        "keep_encoders": design.get("score") == "transfer",  # scored after the training
        "base": content["base"] | design.get("base", {}),
        "seeds": design["seeds"],
    }
    sweep |= {name: design[name] for name in ("grid", "points") if name in design}
    return parse_spec(sweep).with_base(changes or {})


def labels_of(experiment: str) -> list[str]:
    """Return the labels of a part's conditions, in the order of the declaration."""
    return [point.title() for point in sweep_of(experiment).points({})]


def read_rows(committed: Path = ROWS) -> dict[str, pd.DataFrame]:
    """Return the committed rows by part, in the order of the declaration."""
    files = {experiment: committed / f"{experiment}.csv" for experiment in declared_parts()}
    return {experiment: pd.read_csv(file) for experiment, file in files.items() if file.exists()}


def is_whole(experiment: str, rows: pd.DataFrame) -> bool:
    """Return whether the rows are those of all declared runs of a part, each once.

    Points of a Sobol sequence have one seed each and are numbered; the labels have their settings.
    """
    if sobol := declared_parts()[experiment].get("sobol"):
        numbers = rows.label.str.partition(":")[0].astype(int)
        return sorted(numbers) == list(range(sobol["runs"]))
    runs = [
        (point.title(), seed) for point in sweep_of(experiment).points({}) for seed in point.seeds
    ]
    return sorted(zip(rows.label, rows.seed, strict=True)) == sorted(runs)


def contrasts_of(experiment: str) -> tuple[Contrast, ...]:
    """Return the contrasts that are declared for a part."""
    design = declared_parts()[experiment]
    if "contrasts" not in design:
        return ()
    labels = [without(label, design.get("at_best", "")) for label in labels_of(experiment)]
    return declared_contrasts(design, list(dict.fromkeys(labels)))


def without(label: str, setting: str) -> str:
    """Return the label of a point of a grid without its last setting, if it is ``setting``."""
    return label.partition(f", {setting}=")[0]


def at_best(rows: pd.DataFrame, setting: str, score: str) -> pd.DataFrame:
    """Return the rows of each condition at the value of ``setting`` with its best mean ``score``.

    Means are over seeds. The label of a row no longer has the setting.
    """
    condition = rows.label.map(lambda label: without(label, setting)).rename("condition")
    means = rows.groupby([condition, rows.label])[score].mean()
    chosen = means.groupby(level="condition").idxmax().map(lambda pair: pair[1])
    selected = rows.label.isin(chosen)
    return rows[selected].assign(label=condition[selected])


def judge_parts(rows: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Judge contrasts: confirmatory parts are one family, each of the papers' claims another."""
    designs = declared_parts()
    confirmatory = [name for name, design in designs.items() if design["status"] == CONFIRMATORY]
    tables = []
    for family in (confirmatory, *([name] for name in claims())):
        measured = []
        for name in filter(rows.__contains__, family):
            table = rows[name]
            if "at_best" in designs[name]:
                table = at_best(table, designs[name]["at_best"], designs[name]["score"])
            measured += [
                ({"part": name}, contrast, contrast.interval(table))
                for contrast in contrasts_of(name)
            ]
        if measured:
            tables.append(judged_table(measured).drop(columns=["p", "margin"]))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def claims() -> dict[str, Any]:
    """Return the parts that test a paper's claim, by name, in the order of their declarations."""
    return {name: part for file in FILES[1:] for name, part in declaration(file)["parts"].items()}


def judge_claim(contrasts: pd.DataFrame, claim: str = "better") -> str:
    """Judge a paper's claim: reproduced, contradicted or inconclusive.

    Args:
        contrasts: of its part, judged.
        claim: "better", by papers.toml's rule, or "equal": reproduced if every difference is shown
            to be within its margin, contradicted if one differs from 0 and is not.
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
