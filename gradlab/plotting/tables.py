"""The numbers behind a figure, as they are drawn and as they lie beside it in a CSV file.

A figure is drawn from its tables alone, so that the file holds what the picture shows. Numbers are rounded to 12
significant digits and 14 decimals, which is what they are good for: the digits beyond differ between machines.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradlab.errors import GradlabError, reason

# Columns by name, equally long: numbers, or texts.
Table = dict[str, Any]
# The tables of a figure by the name of what they hold; "" where there is one only.
Tables = dict[str, Table]

DIGITS, DECIMALS = 12, 14


def rounded(columns: Mapping[str, Any]) -> Table:
    """The columns as arrays, floats rounded to `DIGITS` significant digits and `DECIMALS` decimals."""
    return {name: _round(np.asarray(column)) for name, column in columns.items()}


def _round(column: np.ndarray) -> np.ndarray:
    if column.dtype.kind != "f":
        return column
    # + 0.0 makes a negative zero a plain one.
    return np.array([float(f"{value:.{DIGITS}g}") for value in np.round(column, DECIMALS).tolist()]) + 0.0


def grid_table(mu_pos: np.ndarray, mu_neg: np.ndarray, quantities: Mapping[str, np.ndarray]) -> Table:
    """Grids (P, Q) as one table: a row for each quantity and μ_pos, a column for each μ_neg (its name, in radians)."""
    rows = len(quantities) * len(mu_pos)
    columns: dict[str, Any] = {
        "quantity": np.repeat(list(quantities), len(mu_pos)),
        "mu_pos": np.tile(mu_pos, len(quantities)),
    }
    stacked = np.concatenate(list(quantities.values()))
    assert stacked.shape == (rows, len(mu_neg))
    columns |= {f"{mu:.{DIGITS}g}": stacked[:, index] for index, mu in enumerate(mu_neg)}
    return rounded(columns)


def grid_of(table: Table, quantity: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``mu_pos`` (P,), ``mu_neg`` (Q,) and the values (P, Q) of one quantity of a `grid_table`."""
    here = table["quantity"] == quantity
    names = [name for name in table if name not in ("quantity", "mu_pos")]
    mu_neg = np.array([float(name) for name in names])
    return table["mu_pos"][here], mu_neg, np.stack([table[name][here] for name in names], axis=1)


def select(table: Table, **conditions: Any) -> Table:
    """The rows in which every named column has the given value."""
    keep = np.logical_and.reduce([table[name] == value for name, value in conditions.items()])
    return {name: column[keep] for name, column in table.items()}


def stack(parts: Sequence[Mapping[str, Any]]) -> Table:
    """Tables of the same columns, one under the other."""
    return rounded({name: np.concatenate([np.atleast_1d(part[name]) for part in parts]) for name in parts[0]})


def read_table(path: str | os.PathLike[str]) -> Table:
    """Read a figure's CSV file: columns of numbers (empty or ``nan``: NaN) as float arrays, others as text.

    Raises:
        GradlabError: no such file, or not a table.
    """
    try:
        with open(path, encoding="utf-8", newline="") as file:
            header, *rows = list(csv.reader(file))
    except (OSError, ValueError) as error:
        raise GradlabError(f"cannot read a table from {os.fspath(path)!r} ({reason(error)})") from error
    return {name: _parse([row[index] for row in rows]) for index, name in enumerate(header)}


def _parse(texts: list[str]) -> np.ndarray:
    try:
        return np.array([math.nan if text == "" else float(text) for text in texts])
    except ValueError:
        return np.array(texts)
