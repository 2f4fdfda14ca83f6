"""The declared parts of the second round: conditions, committed rows, contrasts and verdicts."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import qmc

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
    if "sobol" in design:
        sweep["points"] = sobol_points(design["sobol"])
    else:
        sweep |= {name: design[name] for name in ("grid", "points") if name in design}
    return parse_spec(sweep).with_base(changes or {})


def labels_of(experiment: str) -> list[str]:
    """Return the labels of a part's conditions, in the order of the declaration."""
    return [point.title() for point in sweep_of(experiment).points({})]


def sobol_points(design: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return recombined losses on a scrambled Sobol sequence over the logarithms of settings."""
    names = ("temperature", "ratio", "margin", "learning_rate")
    low, high = ([math.log(design[name][end]) for name in names] for end in (0, 1))
    # The whole block of a power of two, of which the first are taken: scipy warns of anything else.
    sequence = qmc.Sobol(len(names), seed=design["seed"]).random_base2(
        math.ceil(math.log2(design["runs"]))
    )
    points = []
    for number, logarithms in enumerate(qmc.scale(sequence, low, high)[: design["runs"]]):
        temperature, ratio, margin, rate = (float(f"{math.exp(log):.4g}") for log in logarithms)
        point = {
            "label": f"{number}: τ={temperature:g} r={ratio:g} m={margin:g} rate={rate:g}",
            "loss": "recombined",
            "pooler": "cls",
            "learning_rate": rate,
            "loss_settings.gate": f"mpt(margin={margin})",
            "loss_settings.weight": f"infonce(temperature={temperature})",
            "loss_settings.ratio": ratio,
            "loss_settings.gauge": "unit",
        }
        points.append(point)
    return points


def read_rows(committed: Path = ROWS) -> dict[str, pd.DataFrame]:
    """Return the committed rows by part, in the order of the declaration."""
    files = {experiment: committed / f"{experiment}.csv" for experiment in declared_parts()}
    return {experiment: pd.read_csv(file) for experiment, file in files.items() if file.exists()}


def is_whole(experiment: str, rows: pd.DataFrame) -> bool:
    """Return whether the rows are those of all declared runs of a part, each once."""
    runs = [
        (point.title(), seed) for point in sweep_of(experiment).points({}) for seed in point.seeds
    ]
    return sorted(zip(rows.label, rows.seed, strict=True)) == sorted(runs)


def contrasts_of(experiment: str) -> tuple[Contrast, ...]:
    """Return the contrasts that are declared for a part."""
    return declared_contrasts(declared_parts()[experiment], labels_of(experiment))


def judge_parts(rows: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Judge contrasts: confirmatory parts are one family, each of the papers' claims another."""
    designs = declaration()["parts"].items()
    confirmatory = [
        experiment for experiment, design in designs if design["status"] == CONFIRMATORY
    ]
    families = [
        confirmatory,
        *([name] for file in FILES[1:] for name in declaration(file)["parts"]),
    ]
    tables = []
    for family in families:
        measured = [
            ({"part": experiment}, contrast, contrast.interval(rows[experiment]))
            for experiment in family
            if experiment in rows
            for contrast in contrasts_of(experiment)
        ]
        if measured:
            tables.append(judged_table(measured).drop(columns=["p", "margin"]))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def judge_claim(contrasts: pd.DataFrame) -> str:
    """Judge a paper's claim by papers.toml's rule: reproduced, contradicted or inconclusive."""
    significant = contrasts.holm < 0.05
    if (significant & (contrasts.estimate < 0)).any():
        return "contradicted"
    return "reproduced" if (significant & (contrasts.estimate > 0)).all() else "inconclusive"
