"""The numbers of a figure, as drawn and as saved in a CSV file next to it.

A figure is drawn from its tables only, so that the file contains what the picture shows. Numbers
are rounded to 12 significant digits and 14 decimals; further ones differ between machines.
"""

from __future__ import annotations

import contextlib
import csv
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
    """Return the columns as arrays, floats with `DIGITS` digits and `DECIMALS` decimals at most."""
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    for name, column in arrays.items():
        if column.dtype.kind == "f":
            texts = [f"{value:.{DIGITS}g}" for value in np.round(column, DECIMALS).tolist()]
            arrays[name] = np.array(texts, dtype=float) + 0.0  # turns a negative zero into zero
    return arrays


def grid_table(
    mu_pos: np.ndarray, mu_neg: np.ndarray, quantities: Mapping[str, np.ndarray]
) -> Table:
    """Return grids (P, Q) as a table: a row per quantity and μ_pos, a column per μ_neg, radians."""
    names = ["quantity", "mu_pos", *(f"{mu:.{DIGITS}g}" for mu in mu_neg)]
    quantity, mu = np.repeat(list(quantities), len(mu_pos)), np.tile(mu_pos, len(quantities))
    columns = np.concatenate(list(quantities.values())).T
    return rounded(dict(zip(names, (quantity, mu, *columns), strict=True)))


def grid_of(table: Table, quantity: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ``mu_pos`` (P,), ``mu_neg`` (Q,) and a quantity's values (P, Q) in a `grid_table`."""
    of_quantity = table["quantity"] == quantity
    names = [name for name in table if name not in ("quantity", "mu_pos")]
    mu_neg = np.array([float(name) for name in names])
    return (
        table["mu_pos"][of_quantity],
        mu_neg,
        np.stack([table[name][of_quantity] for name in names], axis=1),
    )


def select(table: Table, **conditions: Any) -> Table:
    """Return the rows in which every named column has the given value."""
    keep = np.logical_and.reduce([table[name] == value for name, value in conditions.items()])
    return {name: column[keep] for name, column in table.items()}


def stack(tables: Sequence[Mapping[str, Any]]) -> Table:
    """Concatenate tables with the same columns; a single value stands for a whole column."""
    names = list(tables[0])
    whole = [
        np.broadcast_arrays(*(np.atleast_1d(table[name]) for name in names)) for table in tables
    ]
    columns = map(np.concatenate, zip(*whole, strict=True))
    return rounded(dict(zip(names, columns, strict=True)))


def read_table(path: str | os.PathLike[str]) -> Table:
    """Read a figure's CSV file: numeric columns as floats (NaN if empty), others as text.

    Raises:
        GradlabError: the file does not exist or is not a table.
    """
    with (
        reading(f"a table from {os.fspath(path)!r}", IndexError, csv.Error),
        open(path, encoding="utf-8", newline="") as file,
    ):
        header, *rows = csv.reader(file)
        table = {name: np.array([row[at] for row in rows]) for at, name in enumerate(header)}
    for name, column in table.items():
        with contextlib.suppress(ValueError):
            table[name] = np.where(column == "", "nan", column).astype(float)
    return table
