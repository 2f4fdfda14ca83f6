"""The report of a study: CSV files, pictures drawn from them, and a page that shows both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gradlab.files import atomic_path, write_json, write_text
from gradlab.plotting import close, save
from gradlab.sweep import Run
from studies.conjectures import assumptions, conjecture1, conjecture2, conjecture3, repairs
from studies.conjectures.figures import FIGURES, read_tables
from studies.conjectures.page import page
from studies.conjectures.results import Results, Section
from studies.conjectures.settings import StudySettings
from studies.conjectures.verdicts import claims_table, verdicts_table
from studies.statistics import six

SECTIONS: dict[str, Callable[[Results, StudySettings], Section | None]] = {
    "conjecture1": conjecture1.section,
    "conjecture2": conjecture2.section,
    "conjecture3": conjecture3.section,
    "assumptions": assumptions.section,
    "repairs": repairs.section,
}


def write_report(
    folder: Path,
    parts: Sequence[str],
    runs: Sequence[Run],
    settings: StudySettings,
    about: dict[str, Any],
) -> Path:
    """Analyse the finished runs and write ``folder/report``; ``about`` is for its manifest."""
    results, place = Results.read(runs, folder), folder / "report"
    sections = [found for part in parts if (found := SECTIONS[part](results, settings)) is not None]
    claims = [claim for section in sections for claim in section.claims]
    tables = {"runs": results.table(), "training": results.training, "claims": claims_table(claims)}
    tables["verdicts"] = verdicts_table(tables["claims"])
    for section in sections:
        tables |= section.tables
    # A table that is not written again would be out of date.
    for pattern in ("*.csv", "figure-*.png"):
        for path in place.glob(pattern):
            path.unlink()
    for name, table in tables.items():
        if len(table):
            with atomic_path(place / f"{name}.csv") as temporary:
                table.map(six).to_csv(temporary, index=False, lineterminator="\n")
    # From the files, so that the pictures and the page can show nothing that is not in them.
    written = read_tables(place)
    drawn = {name: draw(written) for name, draw in FIGURES.items()}
    pictures = {name: found[0] for name, found in drawn.items() if found is not None}
    for name, figure in pictures.items():
        save(figure, place / f"{name}.png")
        close(figure)
    manifest = about | {"runs": len(runs), "finished": len(results.runs), "parts": list(parts)}
    write_json(place / "manifest.json", manifest)
    for name in ("report.md", "verdicts.md"):
        write_text(place / name, page(name, written, list(pictures), manifest))
    return place
