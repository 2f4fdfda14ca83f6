"""The declared parts as sweeps, and their contrasts as verdicts."""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import qmc

from gradlab import GradlabError
from gradlab.errors import nearest
from gradlab.files import write_text
from gradlab.sweep import DIVERGED, FINISHED, Spec, known_runs, parse_spec, read_spec, run_sweep
from gradlab.train import say
from studies.evidence.analysis import by_seed
from studies.evidence.contrasts import Contrast
from studies.statistics import judge, over_seeds

DECLARATION = Path(__file__).with_name("declaration.toml")
CONFIRMATORY = "confirmatory"


def declaration() -> dict[str, Any]:
    """What is declared, as the file says it."""
    return tomllib.loads(DECLARATION.read_text(encoding="utf-8"))


def sweep_of(part: str, changes: Mapping[str, Any] | None = None) -> Spec:
    """The sweep of a part.

    Args:
        part: its name in the declaration.
        changes: model, data and other places; nothing that the declaration settles.

    Raises:
        GradlabError: an unknown part.
    """
    declared = declaration()
    parts = declared["parts"]
    if part not in parts:
        raise GradlabError(f"unknown part {part!r}; there are {', '.join(parts)}.{nearest(part, parts)}")
    own = parts[part]
    content = {
        "name": f"second-{part}",
        "about": own["question"],
        "metric": "sts",
        "evaluate": ["sts"],
        "keep_encoders": False,
        "base": {**declared["base"], **own.get("base", {})},
        "seeds": own["seeds"],
    }
    if "sobol" in own:
        content["points"] = sobol_points(own["sobol"])
    else:
        content |= {name: own[name] for name in ("grid", "points") if name in own}
    return parse_spec(content).with_base(changes or {})


def sobol_points(design: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Recombined losses on a scrambled Sobol sequence over the logarithms of their settings: always the same ones.

    Args:
        design: ``runs``, ``seed``, and the range of ``temperature``, ``ratio``, ``margin`` and ``learning_rate``.
    """
    names = ("temperature", "ratio", "margin", "learning_rate")
    low, high = ([math.log(design[name][end]) for name in names] for end in (0, 1))
    # The whole block of a power of two, of which the first are taken: scipy warns of anything else.
    drawn = qmc.Sobol(len(names), seed=design["seed"]).random_base2(math.ceil(math.log2(design["runs"])))
    points = []
    for number, row in enumerate(qmc.scale(drawn, low, high)[: design["runs"]]):
        temperature, ratio, margin, rate = (float(f"{math.exp(value):.4g}") for value in row)
        points.append(
            {
                "label": f"{number}: τ={temperature:g} r={ratio:g} m={margin:g} rate={rate:g}",
                "loss": "recombined",
                "pooler": "cls",
                "learning_rate": rate,
                "loss_settings.gate": f"mpt(margin={margin})",
                "loss_settings.weight": f"infonce(temperature={temperature})",
                "loss_settings.ratio": ratio,
                "loss_settings.gauge": "unit",
            }
        )
    return points


def run_part(part: str, output: Path, changes: Mapping[str, Any], workers: int = 1) -> int:
    """Train what is left of a part, and return how many of its runs are finished.

    Called again, it goes on where it stopped. The declaration is copied into ``output`` when the first run begins.

    Raises:
        GradlabError: bad input, or a declaration that has changed since.
    """
    copy = output / DECLARATION.name
    text = DECLARATION.read_text(encoding="utf-8")
    if copy.exists() and copy.read_text(encoding="utf-8") != text:
        raise GradlabError(
            f"the declaration has changed since the runs in {str(output)!r} began; take another --output, and say so with the result"
        )
    spec = sweep_of(part, changes)
    spec.check()
    if not copy.exists():
        write_text(copy, text)
    runs = run_sweep(spec, output / part, say, workers=workers)
    return sum(run.state == FINISHED for run in runs)


def rows_of(part: str, output: Path) -> pd.DataFrame:
    """A row a run that has ended: label, seed, state and ``sts`` (-1 to 1); what diverged counts as the untrained encoder."""
    lowest = declaration()["protocol"]["untrained"]
    spec = read_spec(output / part / "sweep.json")
    ended = [run for run in known_runs(spec, output / part) if run.state in (FINISHED, DIVERGED)]
    rows = [
        (run.point.title(), run.seed, run.state, run.value if run.state == FINISHED else lowest)
        for run in ended
    ]
    return pd.DataFrame(rows, columns=["label", "seed", "state", "sts"])


def contrasts_of(part: str) -> list[Contrast]:
    """The contrasts that are declared for a part."""
    return [
        Contrast(one["name"], tuple(one["plus"]), tuple(one["minus"]), margin=one.get("margin"))
        for one in declaration()["parts"][part].get("contrasts", ())
    ]


def judged(rows: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Every contrast of confirmatory parts, as one family; those without two seeds stay inconclusive.

    Args:
        rows: part -> `rows_of`, of the parts that are to be judged.
    """
    parts = [part for part, about in declaration()["parts"].items() if about["status"] == CONFIRMATORY]
    found = [
        (part, contrast, over_seeds(by_seed(rows[part], contrast)))
        for part, contrast in itertools.chain.from_iterable(
            ((part, one) for one in contrasts_of(part)) for part in parts if part in rows
        )
    ]
    verdicts = judge([one for *_, one in found], margins=[contrast.margin for _, contrast, _ in found])
    return pd.DataFrame(
        [
            {"part": part, "name": contrast.name, "estimate": one.mean, "low": one.low, "high": one.high,
             "seeds": one.count, "holm": result.p, "equivalence": result.equivalence, "verdict": result.verdict}
            for (part, contrast, one), result in zip(found, verdicts, strict=True)
        ]
    )  # fmt: skip
