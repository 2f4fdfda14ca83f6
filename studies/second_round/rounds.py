"""The declared parts as sweeps, and their contrasts as verdicts."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import qmc

from gradlab import GradlabError
from gradlab.encoder import Encoder
from gradlab.errors import check_known
from gradlab.evaluate import evaluate
from gradlab.files import read_object, write_csv, write_text
from gradlab.monitor import DIAGNOSTICS
from gradlab.sweep import DIVERGED, FINISHED, Spec, Trials, parse_spec, run_sweep
from gradlab.train import say
from studies.contrasts import Contrast, declared
from studies.contrasts import judged as judged_family
from studies.runs import recorded, runs_in
from tests.gpu.machine import Case

DECLARATION = Path(__file__).with_name("declaration.toml")
AT_LENGTH = Path(__file__).with_name("at_length.toml")
PAPERS = Path(__file__).with_name("papers.toml")
# Where rows are committed, and the columns they have.
ROWS = Path(__file__).parents[2] / "figures/study/second_round"
COLUMNS = ("label", "seed", "state", "sts", "stsb_dev", "open_share", "device", "commit")
# Further columns of runs that are evaluated on the way: the STS average of the last encoder, the
# best STS-B dev score and its step.
SELECTED = ("sts_last", "stsb_dev_best", "best_step")
# Settings that grow with the length of a run.
LENGTHS = ("max_steps", "save_every", "eval_every", "diagnostics_every")
CONFIRMATORY = "confirmatory"


def declaration(file: Path | None = None) -> dict[str, Any]:
    """What is declared, as the file says it; None is `DECLARATION`.

    A declaration that is ``of`` another has parts of that, made longer, or its own.
    """
    file = DECLARATION if file is None else file
    declared = tomllib.loads(file.read_text(encoding="utf-8"))
    if "of" not in declared:
        return declared
    before = declaration(file.with_name(declared["of"]))
    parts = declared["parts"]
    if isinstance(parts, list):  # names of parts of the other
        parts = {name: before["parts"][name] for name in parts}
    times = declared.get("times", 1)
    for settings in (before["base"], *(part.get("base", {}) for part in parts.values())):
        settings.update({name: times * settings[name] for name in LENGTHS if name in settings})
    return {
        **declared,
        "protocol": before["protocol"] | declared["protocol"],
        "base": before["base"] | declared.get("base", {}),
        "parts": parts,
    }


def declared_in(output: Path) -> Path:
    """The declaration that the runs in a folder follow."""
    places = [output / one.name for one in (AT_LENGTH, DECLARATION)]
    return next((one for one in places if one.exists()), DECLARATION)


def file_of(part: str) -> Path:
    """Which of the two files of this round declares a part."""
    return PAPERS if part in declaration(PAPERS)["parts"] else DECLARATION


def every_part(file: Path | None = None) -> dict[str, Any]:
    """The parts of a declaration; without one those of this round."""
    files = [file] if file else [DECLARATION, PAPERS]
    return {part: about for one in files for part, about in declaration(one)["parts"].items()}


def seconds_of(
    settings: Mapping[str, Any], estimate: Mapping[str, float], rates: Mapping[str, float]
) -> float:
    """How long a run is expected to take on a GPU, by a declaration's ``estimate``.

    A step takes 6 operations a weight and token of both views (8 where the momentum branch encodes
    too), the STS test sets 2; a step takes at least ``estimate["step"]``. Rates are operations per
    second by precision, as `tests.gpu.machine.RATES`.
    """
    weights = estimate["weights"]
    a_token = (8 if settings.get("recipe") == "mocose" else 6) * weights
    step = a_token * 2 * settings["batch_size"] * min(estimate["tokens"], settings["max_length"])
    scored = 2 * weights * estimate["sentences"] * estimate["tokens"]
    a_step, a_score = (
        Case("", lambda _: {}, flops, settings["precision"], fixed=0.0).seconds(dict(rates))
        for flops in (step, scored)
    )
    return estimate["fixed"] + a_score + settings["max_steps"] * max(estimate["step"], a_step)


def sweep_of(part: str, changes: Mapping[str, Any] | None = None, file: Path | None = None) -> Spec:
    """The sweep of a part.

    The ``changes`` are model, data and other places: nothing that the declaration settles. Without
    a ``file``, it is the one of this round that declares the part.

    Raises:
        GradlabError: an unknown part.
    """
    declared = declaration(file or file_of(part))
    check_known("part", part, declared["parts"])
    own = declared["parts"][part]
    base = {**declared["base"], **own.get("base", {})}
    content = {
        "name": f"second-{part}",
        "about": own["question"],
        "metric": "sts",
        "evaluate": ["sts"],
        "keep_encoders": _selects(base),  # the last one is scored later
        "base": base,
        "seeds": own["seeds"],
    }
    if "sobol" in own:
        content["points"] = sobol_points(own["sobol"])
    else:
        content |= {name: own[name] for name in ("grid", "points") if name in own}
    return parse_spec(content).with_base(changes or {})


def _selects(settings: Mapping[str, Any]) -> bool:
    """Whether a run is evaluated on the way, so that its best encoder need not be its last one."""
    return bool(settings["eval_every"] < settings["max_steps"])


def sobol_points(design: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Recombined losses on a scrambled Sobol sequence over the logarithms of their settings."""
    names = ("temperature", "ratio", "margin", "learning_rate")
    low, high = ([math.log(design[name][end]) for name in names] for end in (0, 1))
    # The whole block of a power of two, of which the first are taken: scipy warns of anything else.
    drawn = qmc.Sobol(len(names), seed=design["seed"]).random_base2(
        math.ceil(math.log2(design["runs"]))
    )
    points = []
    for number, row in enumerate(qmc.scale(drawn, low, high)[: design["runs"]]):
        temperature, ratio, margin, rate = (float(f"{math.exp(value):.4g}") for value in row)
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


def run_part(
    part: str,
    output: Path,
    changes: Mapping[str, Any],
    workers: int = 1,
    file: Path | None = None,
    committed: Path = ROWS,
) -> int:
    """Train what is left of a part, and return how many of its runs are finished.

    Called again, it goes on where it stopped; runs whose rows are committed are not trained again.
    The declaration is copied into ``output`` when the first run begins.

    Raises:
        GradlabError: bad input, or a declaration that has changed since.
    """
    file = file or file_of(part)
    copies = {output / one.name: one.read_text(encoding="utf-8") for one in (DECLARATION, file)}
    before = {copy: copy.read_text(encoding="utf-8") for copy in copies if copy.exists()}
    at_length = file.name == AT_LENGTH.name
    if before and (
        before != {copy: copies[copy] for copy in before}
        or (output / AT_LENGTH.name).exists() != at_length
    ):
        raise GradlabError(
            f"the declaration has changed since the runs in {str(output)!r} began; "
            "take another --output, and say so with the result"
        )
    spec = sweep_of(part, changes, file)
    spec.check()
    for copy, text in copies.items():
        if copy not in before:
            write_text(copy, text)
    if not at_length:
        _adopt(spec, output / part, read_rows(committed).get(part))
    runs = run_sweep(spec, output / part, say, workers=workers)
    return sum(run.state == FINISHED for run in runs)


def _adopt(spec: Spec, output: Path, rows: pd.DataFrame | None) -> None:
    """Have a sweep begin with the finished runs of committed rows."""
    if rows is None:
        return
    output.mkdir(parents=True, exist_ok=True)
    trials = Trials(spec, f"sqlite:///{(output / 'study.db').absolute()}")
    finished = rows[rows.state == FINISHED].set_index(["label", "seed"]).sts
    for run in trials.runs():
        if run.trial < 0 and (run.point.title(), run.seed) in finished.index:
            trials.adopt(run, {spec.metric: finished[run.point.title(), run.seed]})


def rows_of(part: str, output: Path) -> pd.DataFrame:
    """A row a run that has ended and was trained in ``output``.

    Columns are label, seed, state, ``sts`` and ``stsb_dev`` after the last step (-1 to 1),
    ``open_share``, the mean share of anchors that learn, and what trained it: device, commit. What
    diverged counts as the untrained encoder. Runs that are evaluated on the way have `SELECTED`,
    too: there ``sts`` is of the encoder that was best on STS-B dev.
    """
    lowest = declaration(declared_in(output))["protocol"]["untrained"]
    rows = []
    for run, folder in runs_in(output / part):
        if run.state not in (FINISHED, DIVERGED) or not (folder / "manifest.json").exists():
            continue
        about = read_object(folder / "manifest.json")
        shares = recorded(folder).series(DIAGNOSTICS, "active")[1]
        done, results = run.state == FINISHED, run.results or {}
        row = {"label": run.point.title(), "seed": run.seed, "state": run.state}
        row["sts"] = run.value if done else lowest
        row["stsb_dev"] = results.get("stsb_dev_last") if done else None
        row["open_share"] = np.mean(shares) if shares else math.nan
        row |= {"device": about["device"]["name"], "commit": about.get("commit")}
        if _selects(run.point.settings):
            last = _score_of_last(folder, str(run.point.settings["sts"])) if done else lowest
            selected = (last, results.get("stsb_dev"), results.get("best_step"))
            row |= dict(zip(SELECTED, selected, strict=True))
        rows.append(row)
    return pd.DataFrame(rows, columns=None if rows else list(COLUMNS))


def _score_of_last(folder: Path, sts: str) -> float:
    """STS average of a run's last encoder, kept in the run's folder, as it takes some minutes."""
    kept = folder / "sts_last.txt"
    if not kept.exists():
        say(f"Scoring the last encoder of {folder.name}")
        found = evaluate(Encoder.load(folder / "encoder").encode, sts, "sts", progress=False)
        write_text(kept, repr(found.averages["sts"]))
    return float(kept.read_text(encoding="utf-8"))


def collect(part: str, output: Path, committed: Path = ROWS) -> pd.DataFrame:
    """Add the rows of ``output`` to a part's committed ones, write ``PART.csv``, and return all.

    Raises:
        GradlabError: a run that is committed with another score.
    """
    found, before = rows_of(part, output).round(6), read_rows(committed).get(part)
    rows = found if before is None else pd.concat([before, found])
    names = [*COLUMNS, *(name for name in SELECTED if name in rows)]
    rows = rows.reindex(columns=names).drop_duplicates(
        [name for name in names if name in ("label", "seed", "state", "sts", "sts_last")]
    )
    twice = rows[rows.duplicated(["label", "seed"])]
    if len(twice):
        one = twice.iloc[0]
        raise GradlabError(f"{one.label}, seed {one.seed}, is committed with another score")
    rows = rows.sort_values(["seed", "label"], ignore_index=True)
    write_csv(committed / f"{part}.csv", dict(rows))
    return rows


def read_rows(committed: Path = ROWS) -> dict[str, pd.DataFrame]:
    """The committed rows by part, in the order of the declaration."""
    files = {part: committed / f"{part}.csv" for part in every_part()}
    return {part: pd.read_csv(file) for part, file in files.items() if file.exists()}


def is_whole(part: str, rows: pd.DataFrame) -> bool:
    """Whether the rows are those of all declared runs of a part, each once."""
    points = sweep_of(part).points({})
    wanted = [(point.title(), seed) for point in points for seed in point.seeds]
    return sorted(zip(rows.label, rows.seed, strict=True)) == sorted(wanted)


def contrasts_of(part: str) -> tuple[Contrast, ...]:
    """The contrasts that are declared for a part."""
    return declared(every_part()[part], [point.title() for point in sweep_of(part).points({})])


def judged(rows: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Judge contrasts: confirmatory parts are one family, each of the papers' claims another."""
    parts = declaration()["parts"].items()
    confirmatory = [part for part, about in parts if about["status"] == CONFIRMATORY]
    families = [confirmatory, *([part] for part in declaration(PAPERS)["parts"])]
    tables = []
    for family in families:
        found = [
            ({"part": part}, one, one.interval(rows[part]))
            for part in family
            if part in rows
            for one in contrasts_of(part)
        ]
        if found:
            tables.append(judged_family(found).drop(columns=["p", "margin"]))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def claim(contrasts: pd.DataFrame) -> str:
    """Judge a paper's claim by papers.toml's rule: reproduced, contradicted or inconclusive."""
    told = contrasts.holm < 0.05
    if (told & (contrasts.estimate < 0)).any():
        return "contradicted"
    return "reproduced" if (told & (contrasts.estimate > 0)).all() else "inconclusive"
