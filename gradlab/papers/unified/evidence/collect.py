"""Rows of finished runs, from where they were trained to where they are committed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError
from gradlab.files import write_csv, write_json
from gradlab.papers.unified.evidence.linear import PARTS, read_rows

_DROPPED = frozenset({"steps", "pull_squared"})
_MEASURED = (
    "stsb_dev", "sts", "STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "diagnostics/alignment",
    "diagnostics/uniformity", "diagnostics/positive_cosine", "diagnostics/negative_cosine",
    "diagnostics/encoder_cosine", "diagnostics/gradient_dissipation", "diagnostics/hardest_share", "diagnostics/ratio",
)  # fmt: skip
_DIGITS = 6


def collect_linear(folder: Path, output: Path) -> list[Path]:
    """Write ``linear-PART.csv`` of each part in ``folder``, and its manifest."""
    written = []
    for part in PARTS:
        path = folder / f"{part}.csv"
        if not path.exists():
            continue
        rows = read_rows(path)
        names = [
            name
            for name in rows[0]
            if name not in _DROPPED or (part == "features" and name == "pull_squared")
        ]
        columns = {name: [_short(row[name]) for row in rows] for name in names}
        written.append(write_csv(output / f"linear-{part}.csv", columns))
    manifest = folder / "manifest.json"
    if manifest.exists():
        written.append(
            write_json(output / "linear-manifest.json", json.loads(manifest.read_text(encoding="utf-8")))
        )
    return written


def collect_sweep(spec_file: Path, folder: Path, output: Path, changes: Mapping[str, Any]) -> list[Path]:
    """Write ``encoder-PART.csv``: a row a finished run of a sweep that may still be going on, and its manifest.

    Args:
        spec_file: the sweep's file.
        folder: the sweep's ``--output``.
        output: where the table goes.
        changes: settings that the sweep was given by ``--set``.

    Raises:
        GradlabError: if no sweep was begun there.
    """
    from gradlab.sweep.board import FINISHED, Board
    from gradlab.sweep.spec import read_spec

    file = (folder / "study.db").absolute()
    if not file.exists():
        raise GradlabError(f"no sweep has been begun in {str(folder)!r} (no study.db)")
    runs = Board(read_spec(spec_file).with_base(changes), f"sqlite:///{file}", create=False).runs()
    done = [run for run in runs if run.state == FINISHED]
    columns: dict[str, list[Any]] = {
        "label": [run.point.label for run in done],
        "seed": [run.seed for run in done],
    }
    for name in _MEASURED:
        values = [(run.results or {}).get(name, "") for run in done]
        if any(value != "" for value in values):
            columns[name] = [_short(value) for value in values]
    written = [write_csv(output / f"encoder-{spec_file.stem}.csv", columns)]
    about: dict[str, Any] = {"finished": len(done), "planned": len(runs)}
    manifests = sorted(folder.glob("runs/*/manifest.json"))
    if manifests:
        own = json.loads(manifests[0].read_text(encoding="utf-8"))
        about |= {
            "device": own["device"],
            "data": {"sha256": own["data"]["sha256"]},
            "versions": own["versions"],
        }
    path = output / f"encoder-{spec_file.stem}-manifest.json"
    return [*written, write_json(path, about)]


def _short(value: Any) -> Any:
    """Numbers with as many digits as mean anything here; texts as they are."""
    try:
        number = float(value)
    except ValueError:
        return value
    return value if number == int(number) and "." not in str(value) else float(f"{number:.{_DIGITS}g}")
