"""Rows of finished runs, from where they were trained to where they are committed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gradlab import GradlabError
from gradlab.files import write_csv, write_json
from gradlab.gradient import BINS
from studies.evidence.linear import PARTS
from studies.runs import read_rows, write_rows
from studies.statistics import six

_MEASURED = (
    "stsb_dev", "sts", "STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "diagnostics/alignment",
    "diagnostics/uniformity", "diagnostics/positive_cosine", "diagnostics/negative_cosine",
    "diagnostics/encoder_cosine", "diagnostics/gradient_dissipation", "diagnostics/hardest_share", "diagnostics/ratio",
)  # fmt: skip
_LAST = 50  # batches that mean angles are taken over


def collect_linear(folder: Path, output: Path) -> list[Path]:
    """Write ``linear-PART.csv`` of each part in ``folder``, and its manifest."""
    written = []
    for part in PARTS:
        path = folder / f"{part}.csv"
        if not path.exists():
            continue
        dropped = {"steps"} if part == "features" else {"steps", "pull_squared"}
        rows = [
            {name: _short(text) for name, text in row.items() if name not in dropped}
            for row in read_rows(path)
        ]
        written.append(write_rows(output / f"linear-{part}.csv", rows))
    manifest = folder / "manifest.json"
    if manifest.exists():
        written.append(
            write_json(output / "linear-manifest.json", json.loads(manifest.read_text(encoding="utf-8")))
        )
    return written


def collect_sweep(
    spec_file: Path, folder: Path, output: Path, changes: Mapping[str, Any], commit: str = ""
) -> list[Path]:
    """Write ``encoder-PART.csv``: a row a finished run of a sweep that may still be going on, and its manifest.

    ``changes`` are the settings that the sweep was given by ``--set``; ``commit`` says what it was trained from where its runs do not.

    Raises:
        GradlabError: if no sweep was begun there.
    """
    from gradlab.sweep import FINISHED, Trials, read_spec, run_folder

    file = (folder / "study.db").absolute()
    if not file.exists():
        raise GradlabError(f"no sweep has been begun in {str(folder)!r} (no study.db)")
    runs = Trials(read_spec(spec_file).with_base(changes), f"sqlite:///{file}", create=False).runs()
    done = [run for run in runs if run.state == FINISHED]
    rows = []
    for run in done:
        results = run.results or {}
        found = {name: results[name] for name in _MEASURED if name in results}
        found |= _recorded(run_folder(folder, run) / "metrics.csv")
        about_run = {"label": run.point.label, "seed": run.seed}
        rows.append(about_run | {name: six(value) for name, value in found.items()})
    written = [write_rows(output / f"encoder-{spec_file.stem}.csv", rows)]
    about: dict[str, Any] = {"finished": len(done), "planned": len(runs)}
    manifests = sorted(folder.glob("runs/*/manifest.json"))
    if manifests:
        every = [json.loads(one.read_text(encoding="utf-8")) for one in manifests]
        own = every[0]
        about |= {
            # More than one of a kind says that the rows are not of one state or of one machine.
            "commit": _all(one.get("commit") or commit for one in every),
            "device": own["device"] | {"name": _all(one["device"]["name"] for one in every)},
            "data": {"sha256": own["data"]["sha256"]},
            "versions": own["versions"],
        }
    path = output / f"encoder-{spec_file.stem}-manifest.json"
    return [*written, write_json(path, about)]


def _recorded(metrics: Path) -> dict[str, float]:
    """From what a run recorded while it trained.

    Returns:
        ``dissipation_mean``: over all records; and of a run that recorded every step ``theta_pos`` and ``theta_neg``: mean
        angles (radians) over its last `_LAST` batches, measured before the step is taken on them, from the histograms of cosines (bins
        at their middle).
    """
    from gradlab.monitor import DIAGNOSTICS, History, read_metrics

    if not metrics.exists():
        return {}
    history = History.of(read_metrics(metrics))
    steps, values = history.series(DIAGNOSTICS, "gradient_dissipation")
    if not steps:
        return {}
    found = {"dissipation_mean": float(np.mean(values))}
    if steps == list(range(1, len(steps) + 1)) and len(steps) >= _LAST:
        for name, quantity in (("theta_pos", "positive_cosine"), ("theta_neg", "negative_cosine")):
            low_end, high_end, count = BINS[quantity]
            half = (high_end - low_end) / count / 2
            angles = [
                sum(share * math.acos(low + half) for low, share in shares.items())
                for shares in list(history.histograms(quantity).values())[-_LAST:]
            ]
            found[name] = float(np.mean(angles))
    return found


def collect_open_shares(sweep: Path, output: Path) -> Path:
    """Write seed, step and open share of every gated run of a sweep that recorded them at each step.

    Raises:
        GradlabError: if there is no such run.
    """
    from gradlab.monitor import read_metrics

    columns: dict[str, list[Any]] = {"seed": [], "step": [], "share": []}
    for manifest in sorted(sweep.glob("runs/*/manifest.json")):
        config = json.loads(manifest.read_text(encoding="utf-8"))["config"]
        if str(config["loss_settings"].get("gate")) in ("1", "1.0"):
            continue
        for step, group, name, value in read_metrics(manifest.parent / "metrics.csv"):
            if (group, name) == ("diagnostics", "gradient_dissipation"):
                for column, entry in zip(columns.values(), (config["seed"], step, value), strict=True):
                    column.append(entry)
    if not columns["seed"]:
        raise GradlabError(
            f"no gated run in {str(sweep)!r} recorded its open share; it takes diagnostics_every 1"
        )
    return write_csv(output, columns)


def _all(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values)))


def _short(text: str) -> Any:
    """A number with as many digits as mean anything here; whole ones and other texts as they are."""
    try:
        return text if text.lstrip("-").isdecimal() else six(float(text))
    except ValueError:
        return text
