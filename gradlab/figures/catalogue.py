"""The figures that need no training: which there are, and drawing them into a folder with numbers and captions."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from gradlab.errors import GradlabError, nearest
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
from gradlab.plotting.style import save
from gradlab.plotting.tables import Tables, read_table

FORMATS = ("png", "svg")


@dataclasses.dataclass(frozen=True)
class TheoryFigure:
    """A figure: its numbers and how to draw them; what to say of them is ``texts/STEM.md``.

    Attributes:
        name: what `gradlab figures` calls it: the paper's number, or a word.
        stem: file name without suffix.
        compute: the tables behind it; every number comes from gradlab's public functions.
        draw: tables -> (figure, axes).
        facts: tables -> what the text says of them, by the names in it.
        as_published: whether this is the variant that computes as the published figure was computed.
        tables: names of its tables, each a CSV file; ``""`` for the only one.
    """

    name: str
    stem: str
    compute: Callable[[], Tables]
    draw: Callable[[Tables], tuple[Any, Any]]
    facts: Callable[[Tables], Mapping[str, str]] = lambda tables: {}
    as_published: bool = False
    tables: tuple[str, ...] = ("",)

    @functools.cached_property
    def _texts(self) -> tuple[str, str, str]:
        """Title, caption and comparison, a paragraph a line."""
        text = (Path(__file__).parent / "texts" / f"{self.stem}.md").read_text(encoding="utf-8")
        title, _, rest = text.removeprefix("# ").partition("\n")
        parts = rest.split("\n## Compared with the paper\n")
        joined = ["\n\n".join(" ".join(one.split()) for one in part.strip().split("\n\n")) for part in parts]
        return title, joined[0], joined[1] if len(joined) > 1 else ""

    @property
    def title(self) -> str:
        """One line."""
        return self._texts[0]

    @property
    def comparison(self) -> str:
        """How it compares with the paper's figure; empty where the paper has none."""
        return self._texts[2]

    def caption(self, tables: Tables) -> str:
        """What was computed, with which settings, and what it shows."""
        return self._texts[1].format(**self.facts(tables))

    def csv_path(self, folder: Path, table: str) -> Path:
        """Where the numbers of a table are."""
        return folder / f"{self.stem}{'-' if table else ''}{table}.csv"

    def read(self, folder: Path) -> Tables | None:
        """The tables as they were written, or None where one is missing."""
        paths = {table: self.csv_path(folder, table) for table in self.tables}
        if not all(path.exists() for path in paths.values()):
            return None
        return {table: read_table(path) for table, path in paths.items()}

    def write(self, folder: Path, tables: Tables, formats: Iterable[str] = FORMATS) -> list[Path]:
        """Draw into ``folder``: a picture in each format, and a CSV file for each table."""
        figure, _ = self.draw(tables)
        paths = []
        for index, suffix in enumerate(formats):
            if index == 1:
                figure.set_layout_engine("none")  # laid out already; once more would take as long again
            paths.append(save(figure, folder / f"{self.stem}.{suffix}"))
        return paths + [write_csv(self.csv_path(folder, name), columns) for name, columns in tables.items()]


def _dissipation(name: str, stem: str, losses: tuple[str, ...]) -> TheoryFigure:
    compute = functools.partial(dissipation.compute, losses)
    return TheoryFigure(name, stem, compute, dissipation.draw, dissipation.facts, tables=losses)


def _published(
    name: str, stem: str, module: Any, tables: tuple[str, ...]
) -> tuple[TheoryFigure, TheoryFigure]:
    """A figure as the paper's text says, and as the published one was computed."""
    how = {"draw": module.draw, "facts": module.facts, "tables": tables}
    return (
        TheoryFigure(name, stem, module.compute, **how),
        TheoryFigure(name, f"{stem}-as-published", module.compute_as_published, as_published=True, **how),
    )


FIGURES = (
    _dissipation("2", "figure-02-dissipation", dissipation.FIGURE_2),
    *_published("3", "figure-03-hardest-share", hardest_share, ("",)),
    *_published("4", "figure-04-ratios", ratios, ratios.LOSSES),
    _dissipation("10", "figure-10-dissipation", dissipation.FIGURE_10),
    TheoryFigure("11", "figure-11-roles", roles.compute, roles.draw, roles.facts),
    TheoryFigure("12", "figure-12-lemma-geometry", lemma_geometry.compute, lemma_geometry.draw),
    TheoryFigure(
        "lemma",
        "lemma-accuracy",
        lemma_accuracy.compute,
        lemma_accuracy.draw,
        lemma_accuracy.facts,
        tables=("bounds", "steps", "accuracy"),
    ),
    TheoryFigure(
        "noncontrastive",
        "noncontrastive-components",
        noncontrastive.compute,
        noncontrastive.draw,
        noncontrastive.facts,
    ),
)

# Figures of the unified-gradient paper that show trained encoders.
TRAINED = {
    "1": "STS results before and after the repairs",
    "5": "cosines with and without dissipation",
    "6": "STS-B against margin, temperature and ratio",
    "7": "the hardest negative's share on encoders",
    "8": "the lemma's minimum ratio and the ratios in training",
    "9": "angles in training",
}


def figure_names() -> list[str]:
    """The names that `draw_figures` knows, in order."""
    return list(dict.fromkeys(figure.name for figure in FIGURES))


def choose(names: Iterable[str] = (), *, as_published: bool = False) -> list[TheoryFigure]:
    """The figures of these names, in the paper's order; none means all, with both variants of each.

    Args:
        names: such as ``"2"`` or ``"lemma"``.
        as_published: take the variant computed as the published figure was, for figures that have one; without
            names, those variants only.

    Raises:
        GradlabError: an unknown name, or a figure that needs trained encoders.
    """
    wanted = [str(name).lower().removeprefix("figure").removeprefix("fig").strip(" .-") for name in names]
    for name in wanted:
        if name in TRAINED:
            raise GradlabError(
                f"figure {name} ({TRAINED[name]}) needs trained encoders; `python -m studies.conjectures` trains them and draws it: "
                "python -m studies.conjectures --help"
            )
        if name not in figure_names():
            known = ", ".join(figure_names())
            raise GradlabError(
                f"unknown figure {name!r}; there are: {known}.{nearest(name, figure_names()) if not name.isdigit() else ''}"
            )
    if not wanted:
        return [figure for figure in FIGURES if figure.as_published or not as_published]
    varied = {figure.name for figure in FIGURES if figure.as_published}
    return [
        figure
        for figure in FIGURES
        if figure.name in wanted and figure.as_published == (as_published and figure.name in varied)
    ]


def draw_figures(
    names: Iterable[str] = (),
    output: str | os.PathLike[str] = "figures",
    *,
    as_published: bool = False,
    formats: Iterable[str] = FORMATS,
    progress: bool | None = None,
) -> list[Path]:
    """Draw figures into a folder, each with its numbers as CSV, and bring the folder's ``captions.md`` up to date.

    The same settings always give the same numbers, so files of the same name are replaced.

    Args:
        names: see `choose`.
        output: folder.
        as_published: see `choose`.
        formats: suffixes of picture files that matplotlib writes.
        progress: show a bar if it takes over two seconds; None does so on a terminal.

    Returns:
        The files written.

    Raises:
        GradlabError: unknown names, or a folder that cannot be written to.
    """
    folder, written = Path(output), []
    disable = None if progress is None else not progress
    for figure in tqdm(
        choose(names, as_published=as_published), delay=2, disable=disable, leave=False, unit="figure"
    ):
        written += figure.write(folder, figure.compute(), tuple(formats))
    return [*written, write_captions(folder)]


HEAD = """# Figures

`gradlab figures` draws them all, and `gradlab figures NAME` draws one. Open the fold below a picture for its settings, what
it shows in detail, how it compares with the paper, and its numbers. 'The paper' is Li et al. (ACL 2024), "Towards Better
Understanding of Contrastive Sentence Representation Learning: A Unified Paradigm for Gradient".

Each picture is drawn from its CSV files and from nothing else. Numbers there have 12 significant digits and 14 decimals at most.
Angles are in radians. Files of heatmaps have a row for each quantity and mean anchor-positive angle, and a column for each
mean anchor-negative angle.
"""
FOLD = "<details><summary>Settings, reading, numbers</summary>"


def _first_sentences(caption: str) -> tuple[str, str]:
    """The first two sentences of a caption, and what is folded below them."""
    ends = [found.end() for found in re.finditer(r"[.!?](?=\s+[A-Z])", caption)]
    end = ends[1] if len(ends) > 1 else len(caption)
    return caption[:end], caption[end:].strip()


def write_captions(folder: Path) -> Path:
    """``captions.md``: two sentences for each figure in the folder; folded, its settings, comparison and numbers."""
    parts = [HEAD]
    for figure in FIGURES:
        tables = figure.read(folder)
        pictures = [
            suffix for suffix in ("png", "svg", "pdf") if (folder / f"{figure.stem}.{suffix}").exists()
        ]
        if tables is None or not pictures:
            continue
        picture = f"[{figure.title}]({figure.stem}.{pictures[0]})"
        shown = picture if pictures[0] == "pdf" else f"!{picture}"  # browsers show no PDF within a page
        number = f"Figure {figure.name}: " if figure.name.isdigit() else ""
        files = ", ".join(
            f"[{figure.csv_path(folder, name).name}]({figure.csv_path(folder, name).name})" for name in tables
        )
        first, rest = _first_sentences(figure.caption(tables))
        parts += [f"## {number}{figure.title}", shown, first, FOLD, rest]
        if figure.comparison:
            parts.append(f"Compared with the paper: {figure.comparison}")
        parts += [f"Numbers: {files}", "</details>"]
    made = ", ".join(
        f"{name} {version}" for name, version in versions("matplotlib", "numpy", "scipy").items()
    )
    return write_text(
        folder / "captions.md", "\n\n".join(part.strip() for part in [*parts, f"Made with {made}."]) + "\n"
    )
