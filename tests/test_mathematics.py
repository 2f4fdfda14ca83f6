"""The page on the mathematics: its table is what the registry says."""

from __future__ import annotations

import re
from pathlib import Path

import gradlab
from gradlab.losses.registry import loss_class
from gradlab.losses.tables import markdown_table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "mathematics.md"


def test_component_table_is_the_registrys_and_markdown_does_not_break_it() -> None:
    names = [name for name in gradlab.loss_names() if name != "recombined"]
    table = markdown_table([loss_class(name) for name in names])
    assert table in PAGE.read_text(encoding="utf-8")
    rows = table.splitlines()[2:]
    assert len(rows) == len(names)
    for row in rows:
        assert row.count("|") == 5
        assert not re.search(r"\\[^a-zA-Z]", row)
