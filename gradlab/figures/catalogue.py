"""Catalogue and drawing of the figures that need no training, with their numbers and captions."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from gradlab.errors import GradlabError, check_known
from gradlab.figures import (
    dissipation,
    hardest_share,
    lemma_accuracy,
    lemma_geometry,
    noncontrastive,
    ratios,
    roles,
)
from gradlab.files import versions, write_csv, write_text
from gradlab.plotting.figure_tables import Tables, read_table
from gradlab.plotting.style import save
from gradlab.progress_bars import progress_bar
from gradlab.templates import render

FORMATS = ("png", "svg")


@dataclasses.dataclass(frozen=True)
class TheoryFigure:
    """A figure that needs no training; its title and caption are in ``texts/STEM.md``.

    Attributes:
        name: name for `gradlab figures`: the paper's number, or a word.
        stem: file name without suffix.
        module: module with ``compute``, which returns tables from gradlab's public functions,
            ``draw``, which draws the tables, and optionally ``facts``, which returns values for
            names in the caption.
        tables: names of the tables, each a CSV file; ``""`` for a single table.
        settings: arguments of ``compute``.
    """

    name: str
    stem: str
    module: ModuleType
    tables: tuple[str, ...] = ("",)
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def as_published(self) -> bool:
        """Whether this variant is computed in the same way as the published figure."""
        return bool(self.settings.get("as_published"))

    def compute(self) -> Tables:
        """Return the tables of numbers behind the figure."""
        tables: Tables = self.module.compute(**self.settings)
        return tables

    @functools.cached_property
    def texts(self) -> tuple[str, str, str]:
        """Title, caption and any comparison with the paper's figure; each paragraph is one line."""
        text = (Path(__file__).parent / "texts" / f"{self.stem}.md").read_text(encoding="utf-8")
        text, _, comparison = text.partition("## Compared with the paper")
        title, *caption = (" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))
        return title.removeprefix("# "), "\n\n".join(caption), " ".join(comparison.split())

    def caption(self, tables: Tables) -> str:
        """Return the caption: a summary in its first paragraph, then settings and result."""
        facts = self.module.facts(tables) if hasattr(self.module, "facts") else {}
        return self.texts[1].format(**facts)

    def csv_path(self, folder: Path, table: str) -> Path:
        """Return the path of a table's CSV file."""
        return folder / f"{self.stem}{'-' if table else ''}{table}.csv"

    def read(self, folder: Path) -> Tables | None:
        """Read the tables that `write` wrote, or return None if a file is missing."""
        paths = {table: self.csv_path(folder, table) for table in self.tables}
        if not all(path.exists() for path in paths.values()):
            return None
        return {table: read_table(path) for table, path in paths.items()}

    def write(self, folder: Path, tables: Tables, formats: Iterable[str] = FORMATS) -> list[Path]:
        """Write a picture per format and a CSV file per table to ``folder``; return the paths."""
        figure, _ = self.module.draw(tables)
        paths = []
        for suffix in formats:
            paths.append(save(figure, folder / f"{self.stem}.{suffix}"))
            # The layout is done; repeating it would take as long again.
            figure.set_layout_engine("none")
        return paths + [write_csv(self.csv_path(folder, name), tables[name]) for name in tables]


FIGURE_10 = dissipation.FIGURE_10
PUBLISHED = {"as_published": True}
FIGURES = (
    TheoryFigure("2", "figure-02-dissipation", dissipation, dissipation.FIGURE_2),
    TheoryFigure("3", "figure-03-hardest-share", hardest_share),
    TheoryFigure("3", "figure-03-hardest-share-as-published", hardest_share, settings=PUBLISHED),
    TheoryFigure("4", "figure-04-ratios", ratios, ratios.LOSSES),
    TheoryFigure("4", "figure-04-ratios-as-published", ratios, ratios.LOSSES, PUBLISHED),
    TheoryFigure(
        "10", "figure-10-dissipation", dissipation, FIGURE_10, settings={"names": FIGURE_10}
    ),
    TheoryFigure("11", "figure-11-roles", roles),
    TheoryFigure("12", "figure-12-lemma-geometry", lemma_geometry),
    TheoryFigure("lemma", "lemma-accuracy", lemma_accuracy, ("bounds", "steps", "accuracy")),
    TheoryFigure("noncontrastive", "noncontrastive-components", noncontrastive),
)

# Figures of the unified-gradient paper that need trained encoders.
TRAINED = ("1", "5", "6", "7", "8", "9")


def choose(names: Iterable[str] = (), *, as_published: bool = False) -> list[TheoryFigure]:
    """Return the named figures in the paper's order; without names, all figures in all variants.

    Args:
        names: names such as ``"2"`` or ``"lemma"``.
        as_published: return the variant computed like the published figure, for figures that have
            one; without names, return only these variants.

    Raises:
        GradlabError: a name is unknown, or a figure needs trained encoders.
    """
    cleaned = [re.sub(r"^fig(ure)?|[ .-]", "", str(name).lower()) for name in names]
    available = dict.fromkeys(figure.name for figure in FIGURES)
    for name in cleaned:
        if name in TRAINED:
            raise GradlabError(
                f"figure {name} needs trained encoders; `python -m studies.conjectures` trains "
                "them and draws it: python -m studies.conjectures --help"
            )
        check_known("figure", name, available)
    if not cleaned:
        return [figure for figure in FIGURES if figure.as_published or not as_published]
    varied = {figure.name for figure in FIGURES if figure.as_published}
    return [
        figure
        for figure in FIGURES
        if figure.name in cleaned
        and figure.as_published == (as_published and figure.name in varied)
    ]


def draw_figures(
    names: Iterable[str] = (),
    output: str | os.PathLike[str] = "figures",
    *,
    as_published: bool = False,
    formats: Iterable[str] = FORMATS,
    progress: bool | None = None,
) -> list[Path]:
    """Draw figures into a folder, with their numbers as CSV files, and update its ``captions.md``.

    Existing files are replaced, because the same settings always give the same numbers.

    Args:
        names, as_published: see `choose`.
        output: folder for the files.
        formats: suffixes of picture files that matplotlib writes.
        progress: show a progress bar after two seconds; None does so only on a terminal.

    Returns:
        Paths of the files.

    Raises:
        GradlabError: a name is unknown, or the folder cannot be written to.
    """
    folder, paths = Path(output), []
    figures = choose(names, as_published=as_published)
    for figure in progress_bar(figures, progress, unit="figure"):
        paths += figure.write(folder, figure.compute(), tuple(formats))
    return [*paths, write_captions(folder)]


def write_captions(folder: Path) -> Path:
    """Write ``captions.md`` for the folder's figures: a summary of each, and folded details."""
    sections = []
    for figure in FIGURES:
        tables = figure.read(folder)
        names = [f"{figure.stem}.{suffix}" for suffix in ("png", "svg", "pdf")]
        pictures = [name for name in names if (folder / name).exists()]
        if tables is not None and pictures:
            words = figure.caption(tables).split("\n\n", 1)
            title, _, comparison = figure.texts
            files = [figure.csv_path(folder, name).name for name in tables]
            sections.append((figure.name, title, comparison, pictures[0], *words, files))
    installed = versions("matplotlib", "numpy", "scipy").items()
    text = render(
        "gradlab.figures",
        "captions.md",
        figures=sections,
        installed=", ".join(f"{name} {version}" for name, version in installed),
    )
    return write_text(folder / "captions.md", text)
