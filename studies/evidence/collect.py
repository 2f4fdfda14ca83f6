"""Rows of finished runs, from where they were trained to where they are committed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from gradlab.files import read_object, write_json
from gradlab.gradient import BINS
from gradlab.monitor import DIAGNOSTICS, History
from gradlab.sweep import FINISHED
from studies.runs import recorded, runs_in, write_rows
from studies.statistics import six

_MEASURED = (
    "stsb_dev", "sts", "STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R",
    "diagnostics/alignment", "diagnostics/uniformity", "diagnostics/positive_cosine",
    "diagnostics/negative_cosine", "diagnostics/encoder_cosine",
    "diagnostics/gradient_dissipation", "diagnostics/hardest_share", "diagnostics/ratio",
)  # fmt: skip
_LAST = 50  # batches that mean angles are taken over


def collect_sweep(part: str, folder: Path, output: Path, commit: str = "") -> list[Path]:
    """Write ``encoder-PART.csv``, a row per finished run of the sweep in a folder, and a manifest.

    The sweep may still be going on. ``commit`` says what it was trained from where its runs do not.

    Raises:
        GradlabError: if no sweep was begun there.
    """
    runs = runs_in(folder)
    rows = []
    for run, place in runs:
        if run.state == FINISHED:
            results = run.results or {}
            found = {name: results[name] for name in _MEASURED if name in results}
            found |= measured_angles(recorded(place))
            about_run = {"label": run.point.label, "seed": run.seed}
            rows.append(about_run | {name: six(value) for name, value in found.items()})
    about: dict[str, Any] = {"finished": len(rows), "planned": len(runs)}
    if manifests := [read_object(one) for one in sorted(folder.glob("runs/*/manifest.json"))]:
        own = manifests[0]
        about |= {
            # More than one of a kind says that the rows are not of one state or of one machine.
            "commit": _all(one.get("commit") or commit for one in manifests),
            "device": own["device"] | {"name": _all(one["device"]["name"] for one in manifests)},
            "data": {"sha256": own["data"]["sha256"]},
            "versions": own["versions"],
        }
    return [
        write_rows(output / f"encoder-{part}.csv", rows),
        write_json(output / f"encoder-{part}-manifest.json", about),
    ]


def measured_angles(history: History) -> dict[str, float]:
    """From what a run recorded while it trained.

    Returns:
        ``dissipation_mean``: over all records; and of a run that recorded every step ``theta_pos``
        and ``theta_neg``: mean angles (radians) over its last `_LAST` batches, measured before the
        step is taken on them, from the histograms of cosines (bins at their middle).
    """
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


def _all(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values)))
