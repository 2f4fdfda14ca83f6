"""Rows that are drawn until there are enough of them, apart for training and for scores."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.judgement.truth import correlation, retrieval

Make = Callable[[random.Random], tuple[Any, ...]]
Score = Callable[[Any], float]


def apart(make: Make, names: Sequence[str], count: int, seed: int) -> dict[str, list[Any]]:
    """A table of ``count`` different rows; odd seeds draw rows that even seeds never draw.

    ``make`` returns a key, by which rows differ, and the cells of a row.
    """
    draw, rows = random.Random(seed), dict[str, tuple[Any, ...]]()
    for _ in range(200 * count):
        key, *cells = make(draw)
        kept_for_scores = zlib.crc32(repr(key).encode()) % 5 == 0
        if kept_for_scores == (seed % 2 == 1):
            rows.setdefault(repr(key), tuple(cells))
        if len(rows) == count:
            columns = zip(*rows.values(), strict=True)
            return dict(zip(names, map(list, columns), strict=True))
    raise ValueError(f"fewer than {count} rows of {names}")


def halves(draw: random.Random, entries: str) -> list[str]:
    """Draw an entry "first/second/..." and return its wordings."""
    return draw.choice(entries.split()).replace("_", " ").split("/")


def seeks(table: dict[str, list[Any]], **options: Any) -> Score:
    """A score: how well the second column is retrieved by the first."""
    columns = dict(list(table.items())[:2])
    return lambda model: retrieval(model, columns, **options)


def ranks(table: dict[str, list[Any]]) -> Score:
    """A score: how the cosines of graded pairs are ordered."""
    return lambda model: correlation(model, table)


def groups(table: dict[str, list[Any]], text: str = "text", label: str = "label") -> Score:
    """A score: the share of texts of the same label among the five nearest others."""

    def near(model: Any) -> float:
        rows = model.encode(table[text], show_progress_bar=False)
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        cosines = rows @ rows.T - 3 * np.eye(len(rows))
        labels = np.array(table[label])
        nearest = np.argsort(-cosines, axis=1)[:, :5]
        return float((labels[nearest] == labels[:, None]).mean())

    return near


def orders(table: dict[str, list[Any]]) -> Score:
    """A score: how often the second column is nearer to the first than the third column is."""

    def nearer(model: Any) -> float:
        first, second, third = (
            rows / np.linalg.norm(rows, axis=1, keepdims=True)
            for rows in (model.encode(list(table[name]), show_progress_bar=False)
                         for name in list(table)[:3])
        )  # fmt: skip
        return float(((first * second).sum(1) > (first * third).sum(1)).mean())

    return nearer
