"""Pictures for phones: ``NAME-narrow.png`` beside each picture of a page.

    python docs/narrow.py              # all, in two minutes
    python docs/narrow.py theory       # or studies, atlas

They are drawn from the committed numbers, which stay as they are. ``python docs/draw.py`` draws
those of the essays.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from gradlab.atlas.entries import atlas
from gradlab.atlas.models import measurable_models
from gradlab.atlas.picture import draw_models
from gradlab.figures.catalogue import FIGURES
from gradlab.plotting.narrow import save_narrow, write_narrow
from gradlab.plotting.style import narrow_copies, style

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "figures"


def theory() -> None:
    """The figures that need no training."""
    for figure in FIGURES:
        tables = figure.read(FOLDER)
        assert tables is not None, f"{figure.stem}: its CSV files are committed"
        save_narrow(figure.module.draw(tables)[0], FOLDER / f"{figure.stem}.png")


def studies() -> None:
    """The pictures of the studies, in a copy of their folder."""
    sys.path.insert(0, str(ROOT))
    from studies.__main__ import write_conjectures, write_first_round, write_second_round

    with tempfile.TemporaryDirectory() as scratch, narrow_copies():
        copy = Path(shutil.copytree(FOLDER / "study", Path(scratch) / "study"))
        for write in (write_first_round, write_second_round, write_conjectures):
            print(*write(copy), sep="\n")
        for path in copy.rglob("*-narrow.png"):
            shutil.copyfile(path, FOLDER / "study" / path.relative_to(copy))


def atlas_pictures() -> None:
    """The pictures of the atlas, as in a printed column, and of the models."""
    with style("paper", "column"):
        write_narrow(atlas().plot()[0], FOLDER / "atlas.png")
    save_narrow(draw_models(measurable_models())[0], FOLDER / "models.png")


PICTURES = {"theory": theory, "studies": studies, "atlas": atlas_pictures}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]()
