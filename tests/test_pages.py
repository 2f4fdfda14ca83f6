"""Numbers and tables of pages are right."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from scipy.optimize import brentq

import gradlab
from gradlab.losses.registry import loss_class
from gradlab.losses.tables import markdown_table

DOCS = Path(__file__).resolve().parents[1] / "docs"


def half_open(loss: str, negatives: int = 127) -> float:
    """Mean angle of the negatives, in degrees, at which the mean dissipation passes one half."""

    def above(mu_neg: float) -> float:
        result = gradlab.simulate(loss, mu_pos=[math.pi / 6], mu_neg=[mu_neg], negatives=negatives)
        return float(result.value[0, 0]) - 0.5

    return math.degrees(brentq(above, 0.2, math.pi))


def table(heading: str) -> list[list[str]]:
    """Cells of the table that follows a text, without its head."""
    text = (DOCS / "which-loss.md").read_text(encoding="utf-8").split(heading)[1]
    rows = re.search(r"\n\|.*?\n\n", text, flags=re.DOTALL).group().strip().splitlines()
    return [[cell.strip(" *") for cell in row.strip("|").split("|")] for row in rows[2:]]


def test_angles_at_which_a_temperature_lets_go():
    rows = table("negatives spread by 6°:")
    assert len(rows) == 6
    for temperature, *cells in rows:
        for cell, negatives in zip(cells, (63, 127, 1023), strict=True):
            loss = f"infonce(temperature={temperature})"
            if cell == "never":
                edge = gradlab.simulate(
                    loss, mu_pos=[math.pi / 6], mu_neg=[math.pi], negatives=negatives
                )
                assert edge.value[0, 0] > 0.5
            else:
                assert float(cell.rstrip("°")) == pytest.approx(
                    half_open(loss, negatives), abs=0.051
                )


def test_angles_at_which_a_margin_lets_go():
    rows = table("The same positives and negatives as above:")
    units = {"π": math.pi, "°": math.pi / 180}
    published = {}
    for name, *cells in rows:
        name = name.strip("`")
        for cell in cells:
            margin, angle = cell.split(": ")
            value = float(margin.rstrip("π°")) * units.get(margin[-1], 1)
            assert float(angle.rstrip("°")) == pytest.approx(
                half_open(f"{name}(margin={value!r})"), abs=0.051
            )
            if value == pytest.approx(gradlab.get_loss(name).margin):
                published[name] = float(angle.rstrip("°"))
    assert set(published) == {"mpt", "met", "mat", "baseline", "arccon"}
    gates = [published[name] for name in ("mpt", "met", "mat", "baseline")]
    assert max(gates) - min(gates) < 10
    assert min([*published.values(), half_open("infonce")]) - 30 > 25
    assert max(published.values()) - 30 < 45


def test_component_table_is_the_registrys_and_markdown_does_not_break_it():
    names = [name for name in gradlab.loss_names() if name != "recombined"]
    table = markdown_table([loss_class(name) for name in names])
    papers = names[: names.index("modified_vicreg") + 1]
    text = (DOCS / "mathematics.md").read_text(encoding="utf-8")
    assert markdown_table([loss_class(name) for name in papers]) in text
    rows = table.splitlines()[2:]
    assert len(rows) == len(names)
    for row in rows:
        assert row.count("|") == 5
        assert not re.search(r"\\[^a-zA-Z]", row)


def test_a_loss_without_formulas_has_dashes_in_the_table():
    class Own(gradlab.PairLoss):
        title = "own"

    assert markdown_table([Own]).splitlines()[-1] == "| own | – | – | – |"
