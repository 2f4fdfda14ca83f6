"""The numbers of a figure, as drawn and as saved in a CSV file next to it.

A figure is drawn from its tables only, so that the file contains what the picture shows. Numbers
are rounded to 12 significant digits and 14 decimals; further ones differ between machines.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradlab.files import reading

# Columns of equal length by name: numbers or texts.
Table = dict[str, Any]
# Tables of a figure by name; the name is "" if there is only one.
Tables = dict[str, Table]

DIGITS, DECIMALS = 12, 14


def rounded(columns: Mapping[str, Any]) -> Table:
    """Return the columns as arrays, with floats rounded.

    Floats have `DIGITS` significant digits and `DECIMALS` decimals at most.
    """
    return {name: _round(np.asarray(column)) for name, column in columns.items()}


def _round(column: np.ndarray) -> np.ndarray:
    if column.dtype.kind != "f":
        return column
    texts = [f"{value:.{DIGITS}g}" for value in np.round(column, DECIMALS).tolist()]
    return np.array(texts, dtype=float) + 0.0  # turns a negative zero into zero


def grid_table(
    mu_pos: np.ndarray, mu_neg: np.ndarray, quantities: Mapping[str, np.ndarray]
) -> Table:
    """Return grids (P, Q) as a table, with angles in radians.

    It has one row per quantity and μ_pos, and one column per μ_neg.
    """
    names = ["quantity", "mu_pos", *(f"{mu:.{DIGITS}g}" for mu in mu_neg)]
    quantity, mu = np.repeat(list(quantities), len(mu_pos)), np.tile(mu_pos, len(quantities))
    columns = np.concatenate(list(quantities.values())).T
    return rounded(dict(zip(names, (quantity, mu, *columns), strict=True)))


def grid_of(table: Table, quantity: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ``mu_pos`` (P,), ``mu_neg`` (Q,) and a quantity's values (P, Q) in a `grid_table`."""
    here = table["quantity"] == quantity
    names = [name for name in table if name not in ("quantity", "mu_pos")]
    mu_neg = np.array([float(name) for name in names])
    return table["mu_pos"][here], mu_neg, np.stack([table[name][here] for name in names], axis=1)


def select(table: Table, **conditions: Any) -> Table:
    """Return the rows in which every named column has the given value."""
    keep = np.logical_and.reduce([table[name] == value for name, value in conditions.items()])
    return {name: column[keep] for name, column in table.items()}


def stack(parts: Sequence[Mapping[str, Any]]) -> Table:
    """Concatenate tables with the same columns; a single value stands for a whole column."""
    whole = [np.broadcast_arrays(*map(np.atleast_1d, part.values())) for part in parts]
    columns = zip(*whole, strict=True)
    return rounded({name: np.concatenate(one) for name, one in zip(parts[0], columns, strict=True)})


def read_table(path: str | os.PathLike[str]) -> Table:
    """Read a figure's CSV file as columns.

    Numeric columns become float arrays (NaN if empty or ``nan``), others text.

    Raises:
        GradlabError: the file does not exist or is not a table.
    """
    with (
        reading(f"a table from {os.fspath(path)!r}"),
        open(path, encoding="utf-8", newline="") as file,
    ):
        header, *rows = csv.reader(file)
        return {name: _parse([row[index] for row in rows]) for index, name in enumerate(header)}


def _parse(texts: list[str]) -> np.ndarray:
    try:
        return np.array([math.nan if text == "" else float(text) for text in texts])
    except ValueError:
        return np.array(texts)
