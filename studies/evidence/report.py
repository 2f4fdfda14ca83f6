"""The report of the evidence: pictures first, then the numbers behind them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from gradlab.files import read_object, write_text
from gradlab.sweep import read_spec
from studies.evidence import analysis
from studies.evidence.figures import REGIMES, draw
from studies.pages import render, write_table

SHOWN_STEPS = (1, 2, 5, 10, 20, 60, 120)


def write_report(folder: Path) -> Path:
    """Analyse the rows in ``folder``, write tables and pictures there, and ``report.md``."""
    rows = analysis.read_frames(folder)
    predictions = {name: pd.read_csv(folder / f"{name}-predictions.csv") for name in REGIMES}
    tables = analysis.analyse(rows, predictions)
    spec = read_spec(analysis.SWEEPS / "factorial.toml").with_base({"backbone": "bert-base"})
    rates = {point.label: float(point.settings["learning_rate"]) for point in spec.points({})}
    tables["encoder-rates"] = analysis.rates_and_ratios(rows["encoder-factorial"], rates)
    untrained = pd.read_csv(folder / "untrained.csv")
    for name, table in tables.items():
        write_table(folder / f"{name}.csv", table)
    steps = rows["encoder-steps"]
    steps = steps[steps.step.isin(SHOWN_STEPS)]
    half, full = (
        rows[f"encoder-{name}"].set_index("label").loc["SimCSE"].set_index("seed").sts
        for name in ("precision", "recipes")
    )
    page = render(
        "evidence",
        "report.md",
        FILTERS,
        names=REGIMES,
        rows=rows,
        tables=tables,
        untrained=untrained,
        pictures=draw(rows, tables, untrained, folder),
        weight_share=analysis.weight_share,
        steps=steps.groupby(["loss", "step"], as_index=False, sort=False).mean(),
        half=100 * (half - full),  # SimCSE in bfloat16 minus float32, points by seed
        manifests=[_manifest(path) for path in sorted(folder.glob("*-manifest.json"))],
    )
    return write_text(folder / "report.md", page)


def _manifest(path: Path) -> tuple[str, str, str]:
    """Part, processor and commit."""
    manifest = read_object(path)
    device = manifest.get("device", "")
    device = device.get("name", "") if isinstance(device, Mapping) else device
    return path.stem.removesuffix("-manifest"), device, manifest.get("commit", "")[:12]


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _p(value: float) -> str:
    return "" if pd.isna(value) else "< .001" if value < 1e-3 else f"{value:.3f}".lstrip("0")


FILTERS: dict[str, Any] = {
    "signed": lambda value, digits=2: f"{value:+.{digits}f}",
    "interval": lambda line, digits=2: f"{line.low:+.{digits}f} to {line.high:+.{digits}f}",
    "percent": _percent,
    "list_of": lambda values: ", ".join(map(_percent, values)),
    "p": _p,
}
