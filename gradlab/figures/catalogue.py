"""The figures that need no training: which there are, and drawing them into a folder with numbers and captions."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable
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
    """A figure: its numbers, how to draw them, and what to say of them.

    Attributes:
        name: what `gradlab figures` calls it: the paper's number, or a word.
        stem: file name without suffix.
        title: one line.
        compute: the tables behind it; every number comes from gradlab's public functions.
        draw: tables -> (figure, axes).
        caption: tables -> what was computed, with which settings, what it shows.
        comparison: how that compares with the paper's figure; empty where the paper has none.
        as_published: whether this is the variant that computes as the published figure was computed.
        tables: names of its tables, each a CSV file; ``""`` for the only one.
    """

    name: str
    stem: str
    title: str
    compute: Callable[[], Tables]
    draw: Callable[[Tables], tuple[Any, Any]]
    caption: Callable[[Tables], str]
    comparison: str = ""
    as_published: bool = False
    tables: tuple[str, ...] = ("",)

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


FIGURES = (
    TheoryFigure(
        "2", "figure-02-dissipation", "Gradient dissipation of ArcCon and MET",
        functools.partial(dissipation.compute, dissipation.FIGURE_2), dissipation.draw, dissipation.caption,
        "The paper's Figure 2 shows the same two losses by Monte Carlo: 1 where the two mean angles are close, a rapid fall to 0 "
        "once μ_neg is larger than μ_pos to some extent. So does this one, without the sampling noise.",
        tables=dissipation.FIGURE_2,
    ),
    TheoryFigure(
        "3", "figure-03-hardest-share", "Share of the hardest negative in the weight",
        hardest_share.compute, hardest_share.draw, hardest_share.caption,
        "From its Figure 3 the paper reads that the softmax weight comes to look at the hardest negative only, like the "
        "piecewise weight of MPT and MET. Averaged over all batches, as its text says, the share rises to a maximum a little "
        "beyond μ_neg = π/2, whose height depends on the temperature, and falls again. Among the batches that still have a "
        "gradient it does rise at the end, for these are the batches with an unusually near negative. The published "
        "curves are drawn by `gradlab figures 3 --as-published`.",
    ),
    TheoryFigure(
        "3", "figure-03-hardest-share-as-published", "Share of the hardest negative, as published",
        hardest_share.compute_as_published, hardest_share.draw, hardest_share.caption_as_published,
        "This is how the published figure was computed, except that it does not tell the filled cells from the measured ones.",
        as_published=True,
    ),
    TheoryFigure(
        "4", "figure-04-ratios", "The ratios that depend on the angles",
        ratios.compute, ratios.draw, ratios.caption,
        "The paper calls its Figure 4 averages of three dynamic ratios; it defines two, and the third is that of MAT, which only its "
        "code has. Its conclusion, mostly between 1 and 2, holds for the cells that occur; with "
        "the dissipation averaged as in Figure 2 more cells occur than it shades free, and MET and MAT exceed 2 in more of them.",
        tables=ratios.LOSSES,
    ),
    TheoryFigure(
        "4", "figure-04-ratios-as-published", "The ratios that depend on the angles, as published",
        ratios.compute_as_published, ratios.draw, ratios.caption_as_published,
        "The published figure was computed at θ = μ, not averaged, and shaded by the dissipation at θ = μ.",
        as_published=True, tables=ratios.LOSSES,
    ),
    TheoryFigure(
        "10", "figure-10-dissipation", "Gradient dissipation of InfoNCE and MPT, MAT and the baseline",
        functools.partial(dissipation.compute, dissipation.FIGURE_10), dissipation.draw, dissipation.caption,
        "The paper's Figure 10 shows InfoNCE and MPT (its appendix announces it as MET in Figure 11a) with the same pattern as "
        "Figure 2. MAT, which only the published code has, and the baseline of Eq. 5 are added here.",
        tables=dissipation.FIGURE_10,
    ),
    TheoryFigure(
        "11", "figure-11-roles", "What each component does",
        roles.compute, roles.draw, roles.caption,
        "The paper's Figure 11 illustrates the same three roles: a larger gap without dissipation, the hardest negative dominating the "
        "direction only when amplified by the weight, the positive moving away or closer according to the ratio.",
    ),
    TheoryFigure(
        "12", "figure-12-lemma-geometry", "The geometry of Lemma 1",
        lemma_geometry.compute, lemma_geometry.draw, lemma_geometry.caption,
        "The paper's Figure 12 illustrates the two situations of its proof, which has neither the upper end nor the third case.",
    ),
    TheoryFigure(
        "lemma", "lemma-accuracy", "Lemma 1 against the steps taken on the sphere",
        lemma_accuracy.compute, lemma_accuracy.draw, lemma_accuracy.caption,
        tables=("bounds", "steps", "accuracy"),
    ),
    TheoryFigure(
        "noncontrastive", "noncontrastive-components", "Non-contrastive losses before and after their repair",
        noncontrastive.compute, noncontrastive.draw, noncontrastive.caption,
    ),
)  # fmt: skip

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

Drawn by `gradlab figures`; `gradlab figures NAME` draws one. Each picture is drawn from the CSV files named below it
and from nothing else. Numbers there have 12 significant digits and 14 decimals at most. Angles are in radians. Files
of heatmaps have a row for each quantity and mean anchor-positive angle, a column for each mean anchor-negative angle.
'The paper' is Li et al. (ACL 2024), "Towards Better Understanding of Contrastive Sentence Representation Learning: A
Unified Paradigm for Gradient".
"""


def write_captions(folder: Path) -> Path:
    """``captions.md``: for each figure in the folder what was computed, and how it differs from the paper's."""
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
        parts += [f"## {number}{figure.title}", shown, figure.caption(tables)]
        if figure.comparison:
            parts.append(f"Compared with the paper: {figure.comparison}")
        parts.append(f"Numbers: {files}")
    made = ", ".join(
        f"{name} {version}" for name, version in versions("matplotlib", "numpy", "scipy").items()
    )
    return write_text(
        folder / "captions.md", "\n\n".join(part.strip() for part in [*parts, f"Made with {made}."]) + "\n"
    )
