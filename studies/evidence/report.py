"""Both rounds from their committed rows: tables, pictures, and the first round's page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from gradlab.files import read_object, write_text
from studies.evidence import first_round, pictures, second_round, surface
from studies.evidence.declarations import Frames, read_first_round, read_second_round
from studies.evidence.pictures import Drawings
from studies.output import render, write_picture, write_table

SHOWN_STEPS = (1, 2, 5, 10, 20, 60, 120)
# Tables of the second round that were measured beside the scores of its parts.
MEASURED = ("features", "interventions")


def write_first_round(folder: Path) -> Iterator[Path]:
    """Write tables, pictures and ``report.md`` of the first round beside its rows."""
    rows = read_first_round(folder)
    predicted = {name: _table(folder, f"{name}-predictions") for name in first_round.REGIMES}
    tables = first_round.analyse(rows, predicted)
    yield from _write(folder, tables, first_drawings(folder, rows, tables))
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
        names=first_round.REGIMES,
        rows=rows,
        tables=tables,
        untrained=_table(folder, "untrained"),
        weight_share=first_round.weight_share,
        steps=steps.groupby(["loss", "step"], as_index=False, sort=False).mean(),
        half=100 * (half - full),  # SimCSE in bfloat16 minus float32, points by seed
        manifests=[_manifest(path) for path in sorted(folder.glob("*-manifest.json"))],
    )
    yield write_text(folder / "report.md", page)


def write_second_round(folder: Path) -> Iterator[Path | str]:
    """Write tables and pictures of the second round beside its rows, and say what they hold."""
    rows, measured = read_second_round(folder), {name: _table(folder, name) for name in MEASURED}
    tables = second_round.analyse(rows, measured)
    yield from second_round.summary(rows, tables, measured["features"])
    drawings = pictures.second_round(rows, tables, measured["features"])
    yield from _write(folder, tables, drawings)


def write_splits(folder: Path) -> Path:
    """Write ``surface-splits.csv`` beside the response surface's rows; takes minutes."""
    splits = surface.splits(surface.factors_of(_table(folder, "surface")))
    return write_table(folder / "surface-splits.csv", splits)


def first_drawings(folder: Path, rows: Frames, tables: Frames) -> Drawings:
    """The pictures of the first round, beside the untrained encoder's committed scores."""
    untrained = _table(folder, "untrained").set_index("label")
    return pictures.first_round(rows, tables, 100 * untrained.loc["cls, as it is"])


def _table(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(folder / f"{name}.csv")


def _write(folder: Path, tables: Frames, drawings: Drawings) -> Iterator[Path]:
    for name, table in tables.items():
        yield write_table(folder / f"{name}.csv", table)
    for name, (draw, *content) in drawings.items():
        yield write_picture(folder / f"{name}.png", draw, *content)


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
