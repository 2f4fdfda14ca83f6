"""Pictures for phones: ``NAME-narrow.png`` beside each picture of a page.

    python docs/narrow.py              # all, in a minute
    python docs/narrow.py theory       # or first-round, second-round, conjectures, atlas

They are drawn from the committed numbers, which stay as they are. ``python docs/draw.py`` draws
those of the essays.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from gradlab.atlas.entries import atlas
from gradlab.atlas.models import measurable_models
from gradlab.atlas.picture import draw_models
from gradlab.figures.catalogue import FIGURES
from gradlab.plotting.narrow import save_narrow, write_narrow
from gradlab.plotting.style import style

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "figures"
STUDY = FOLDER / "study"


def theory() -> None:
    """The figures that need no training."""
    for figure in FIGURES:
        tables = figure.read(FOLDER)
        assert tables is not None, f"{figure.stem}: its CSV files are committed"
        save_narrow(figure.module.draw(tables)[0], FOLDER / f"{figure.stem}.png")


def first_round() -> None:
    """The pictures of the first round."""
    from studies.evidence import figures
    from studies.evidence.analysis import read_frames

    folder = STUDY / "evidence"
    rows, untrained = read_frames(folder), pd.read_csv(folder / "untrained.csv")
    drawings = figures.drawings_of(rows, tables_of(folder), untrained)
    for name, (draw, *content) in drawings.items():
        save_narrow(draw(*content), folder / f"{name}.png")


def second_round() -> None:
    """The pictures of the second round."""
    from studies.second_round import figures, over_rates, prediction, surface
    from studies.second_round.declarations import declaration, read_rows

    folder = STUDY / "second_round"
    rows, tables = read_rows(folder), tables_of(folder)
    untrained = 100 * declaration()["protocol"]["untrained"]
    orders, shares = tables["interventions-orders"], tables["interventions-left-out"]
    factors = surface.factors_of(rows["surface"])
    drawn = {
        "heads": figures.draw_heads(rows["heads"], untrained),
        "interventions": figures.draw_interventions(orders, shares),
        "surface": surface.draw(factors, tables["surface-curves"], untrained),
    }
    for name in ("rates", "uniform", "long"):
        drawn[name] = over_rates.draw(over_rates.table_of(name, rows[name]), untrained)
    for name in figures.CLAIM_PICTURES:
        drawn[name] = figures.draw_claims(tables["contrasts"], name)
    declared = prediction.declared()
    designs = {
        "prediction": (prediction.first_runs(), prediction.FIRST),
        "declared-prediction": (prediction.runs_of(rows, declared), declared),
    }
    for name, (runs, design) in designs.items():
        errors = tables[f"{name}-errors"]
        drawn[name] = figures.draw_prediction(tables["features"], runs, design, errors)
    for name, figure in drawn.items():
        save_narrow(figure, folder / f"{name}.png")


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
        write_narrow(atlas().plot()[0], FOLDER / "atlas.png")
    save_narrow(draw_models(measurable_models())[0], FOLDER / "models.png")


PICTURES = {
    "theory": theory,
    "first-round": first_round,
    "second-round": second_round,
    "conjectures": conjectures,
    "atlas": atlas_pictures,
}

if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    with style("screen"):
        for name in sys.argv[1:] or PICTURES:
            PICTURES[name]()
