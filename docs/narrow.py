"""Pictures for phones: ``NAME-narrow.png`` beside each picture of a page.

    python docs/narrow.py              # all, in a minute
    python docs/narrow.py theory   # or first-round, second-round, conjectures, atlas, models

They are drawn from the committed numbers, which stay as they are. ``python docs/draw.py`` draws
those of the essays.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.text import Text

from gradlab.atlas.entries import atlas
from gradlab.atlas.models import measurable_models
from gradlab.atlas.picture import draw_models
from gradlab.figures.catalogue import FIGURES
from gradlab.plotting.narrow import save_narrow, write_narrow
from gradlab.plotting.style import style

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "figures"
STUDY = FOLDER / "study"
BELOW = 0.2  # rows from a name to the middle of its bar


def theory() -> None:
    """The figures that need no training."""
    for figure in FIGURES:
        tables = figure.read(FOLDER)
        assert tables is not None, f"{figure.stem}: its CSV files are committed"
        save_narrow(figure.module.draw(tables)[0], FOLDER / f"{figure.stem}.png")


def first_round() -> None:
    """The pictures of the first round."""
    from studies.evidence.declarations import FIRST_ROUND, read_first_round
    from studies.evidence.report import first_drawings

    tables = tables_of(FIRST_ROUND)
    _save_narrow(FIRST_ROUND, first_drawings(FIRST_ROUND, read_first_round(), tables))


def second_round() -> None:
    """The pictures of the second round."""
    from studies.evidence import pictures
    from studies.evidence.declarations import SECOND_ROUND, read_second_round

    tables = tables_of(SECOND_ROUND)
    drawings = pictures.second_round(read_second_round(), tables, tables["features"])
    _save_narrow(SECOND_ROUND, drawings)


def _save_narrow(folder: Path, drawings: dict[str, tuple[Any, ...]]) -> None:
    for name, (draw, *content) in drawings.items():
        save_narrow(draw(*content), folder / f"{name}.png")


def conjectures() -> None:
    """The pictures of the three conjectures."""
    from studies.conjectures.figures import FIGURES as DRAWN
    from studies.conjectures.figures import read_tables

    tables = read_tables(STUDY)
    for name, draw in DRAWN.items():
        save_narrow(draw(tables)[0], STUDY / f"{name}.png")


def tables_of(folder: Path) -> dict[str, pd.DataFrame]:
    """The committed tables of a folder, by name."""
    return {path.stem: pd.read_csv(path) for path in folder.glob("*.csv")}


def atlas_pictures() -> None:
    """The pictures of the atlas, as in a printed column, and of the models."""
    with style("paper", "column"):
        figure = atlas().plot()[0]
        for text in figure.findobj(Text):
            text.set_fontfamily("sans-serif")
            text.set_fontsize(min(text.get_fontsize(), 7))
        write_narrow(figure, FOLDER / "atlas.png")
    models()


def models() -> None:
    """The picture of the models, with thin bars and points below the names of their rows."""
    figure, ax = draw_models(measurable_models())
    for bar in ax.patches:
        bar.set_y(bar.get_y() + bar.get_height() / 2)
        bar.set_height(bar.get_height() / 2)
    for line in figure.axes[1].lines:
        line.set_ydata(line.get_ydata() + BELOW)
    figure.axes[1].tick_params(axis="y", length=0)
    save_narrow(figure, FOLDER / "models.png")


PICTURES = {
    "theory": theory,
    "first-round": first_round,
    "second-round": second_round,
    "conjectures": conjectures,
    "atlas": atlas_pictures,
    "models": models,
}

if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    with style("screen"):
        for name in sys.argv[1:] or PICTURES:
            PICTURES[name]()
