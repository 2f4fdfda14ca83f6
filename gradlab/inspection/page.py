"""The inspection as a self-contained HTML page with searchable, sortable tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradlab.files import read_packaged
from gradlab.inspection.advice import NOTHING
from gradlab.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd

MOST = 500


def render(
    table: Callable[[str], pd.DataFrame],
    several: bool,
    numbers: Mapping[str, Any],
    advice: Sequence[Verdict],
) -> str:
    """Return tables, numbers and advice of an `Inspection` as an HTML page, all sentences escaped.

    ``several`` says whether texts have several columns, whose names are then shown.
    """
    from gradlab.templates import render as fill
    from gradlab.templates import script_json

    entries = read_packaged("gradlab.inspection", "page_lists.toml")["lists"]
    lists = [filled for entry in entries if (filled := _list(table, several, **entry)) is not None]
    return fill(
        "gradlab.inspection",
        "inspect.html",
        n=numbers,
        advice=advice,
        nothing=NOTHING,
        lists=lists,
        data=script_json(lists),
    )


def _list(
    tables: Callable[[str], pd.DataFrame],
    several: bool,
    title: str,
    table: str,
    hint: str,
    columns: Mapping[str, str],
    only: str = "",
    by: str = "",
) -> dict[str, Any] | None:
    """Return an entry of ``page_lists.toml`` with its rows; None if there are none."""
    rows = tables(table)
    if only:
        rows = rows[rows[only] > 0]
    if by:
        rows = rows.sort_values(by.removeprefix("-"), ascending=by.startswith("-"), kind="stable")
    if not len(rows):
        return None
    total, rows = len(rows), rows.head(MOST)
    cells = {
        name: values for name in columns if (values := _cells(rows, name, several)) is not None
    }
    return {
        "title": title,
        "hint": hint,
        "total": total,
        "headings": [columns[name] for name in cells],
        "text": [name not in rows or rows[name].dtype.kind not in "fiu" for name in cells],
        "rows": [list(row) for row in zip(*cells.values(), strict=True)],
    }


def _cells(rows: pd.DataFrame, name: str, several: bool) -> list[Any] | None:
    """Return a column as texts with places, numbers or words; None if there is no such column."""
    if name in ("first", "second"):
        places, columns = rows[f"{name}_row"], rows.get(f"{name}_column")
    elif name == "sentence" or (name in rows and name in ("positive", "hard_negative")):
        places = rows["row"]
        columns = rows["column"] if name == "hard_negative" else [name] * len(rows)
    else:
        return _values(rows[name]) if name in rows else None
    where = [f"row {row}" for row in places]
    if several:
        role_names = {"sentence": "anchor", "positive": "positive"}
        roles = [role_names.get(column, f"hard negative ({column})") for column in columns]
        where = [f"{row}, {role}" for row, role in zip(where, roles, strict=True)]
    return [list(pair) for pair in zip(where, rows[name], strict=True)] if name in rows else where


def _values(column: pd.Series) -> list[Any]:
    """Return values for JSON: four significant digits, and null for values that are not finite."""
    if column.dtype.kind != "f":
        return column.tolist()
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in column]
