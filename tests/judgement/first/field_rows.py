"""Rows of the fields: drawn at random, all different, and parted for training and for scores."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.judgement.truth import retrieval

Row = tuple[tuple[str, ...], dict[str, Any]]
HELD_OUT = 1  # seed of the rows that no training sees


def pick(draw: random.Random, entries: str) -> list[str]:
    """Draw one of the entries "first/second/...", and return its wordings."""
    return [wording.replace("_", " ") for wording in draw.choice(entries.split()).split("/")]


def picks(draw: random.Random, entries: str, count: int) -> list[list[str]]:
    """Draw different entries."""
    drawn = draw.sample(entries.split(), count)
    return [[wording.replace("_", " ") for wording in entry.split("/")] for entry in drawn]


def counterpart(draw: random.Random, entries: str, wordings: Sequence[str]) -> list[str]:
    """Draw an entry with other wordings."""
    while True:
        drawn = pick(draw, entries)
        if drawn != list(wordings):
            return drawn


@dataclass(frozen=True)
class Source:
    """A field of texts.

    Attributes:
        make: draws a row: its facts, by which rows are told apart, and its columns.
    """

    make: Callable[[random.Random], Row]

    def table(self, count: int, *columns: str, seed: int = 0) -> dict[str, list[Any]]:
        """Return different rows; an odd seed draws from the fifth that even seeds leave."""
        draw, rows = random.Random(seed), dict[tuple[str, ...], dict[str, Any]]()
        for _ in range(400 * count):
            facts, row = self.make(draw)
            held_out = zlib.crc32(" ".join(facts).encode()) % 5 == 0
            if held_out == bool(seed % 2):
                rows.setdefault(facts, row)
            if len(rows) == count:
                break
        else:
            raise ValueError(f"the field has fewer than {count} rows")
        names = columns or list(next(iter(rows.values())))
        return {name: [row[name] for row in rows.values()] for name in names}

    def texts(self, count: int = 300, *settings: str) -> list[str]:
        """Return texts of all columns of training, whose words make a vocabulary."""
        columns = self.table(count).values()
        return [*(cell for cells in columns for cell in cells if isinstance(cell, str)), *settings]

    def sought(
        self, first: str, second: str, count: int = 60, **options: Any
    ) -> Callable[[Any], float]:
        """Return a score: how well held-out texts of a column are found by those of another."""
        table = self.table(count, first, second, seed=HELD_OUT)
        return lambda model: retrieval(model, table, **options)

    def neighbours(self, text: str, label: str, count: int = 80) -> Callable[[Any], float]:
        """Return a score: how many of each held-out text's five nearest are of its class."""
        table = self.table(count, text, label, seed=HELD_OUT)

        def score(model: Any) -> float:
            import torch

            rows = torch.as_tensor(model.encode(table[text], show_progress_bar=False))
            rows = torch.nn.functional.normalize(rows, dim=1)
            nearest = (rows @ rows.T).fill_diagonal_(-2).topk(5).indices
            labels = torch.tensor(table[label])
            return float((labels[nearest] == labels[:, None]).float().mean())

        return score
