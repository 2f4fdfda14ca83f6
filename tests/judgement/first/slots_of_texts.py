"""Kinds of texts: slots with several wordings, templates for each column, a held-out quarter."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.judgement.truth import correlation, retrieval

Row = tuple[str, ...]


@dataclass(frozen=True)
class Kind:
    """A kind of texts.

    Attributes:
        slots: entries of each slot: "a|b/c" reads a or b in the first column, c in the others.
        columns: templates of each column, of which a row draws one.
    """

    slots: Mapping[str, str]
    columns: Mapping[str, Sequence[str]]

    def rows(self, count: int, *, held: bool = False, seed: int = 0) -> list[Row]:
        """Different rows; held-out rows are never among those of training."""
        every = itertools.product(*(entries.split() for entries in self.slots.values()))
        rows = [row for row in every if (zlib.crc32(" ".join(row).encode()) % 4 == 0) == held]
        assert len(rows) >= count, f"only {len(rows)} rows"
        return random.Random(seed).sample(rows, count)

    def text(self, row: Row, column: int) -> str:
        """The text of a row in a column; the same row always reads alike."""
        draw, words = random.Random(f"{row}{column}"), {}
        for name, entry in zip(self.slots, row, strict=True):
            wordings = entry.split("/")
            wording = wordings[min(column, len(wordings) - 1)]
            words[name] = draw.choice(wording.split("|")).replace("_", " ")
        return draw.choice(list(self.columns.values())[column]).format(**words)

    def texts(self, rows: Sequence[Row], column: int) -> list[str]:
        return [self.text(row, column) for row in rows]

    def table(self, count: int, **options: Any) -> dict[str, list[str]]:
        """All columns of some rows."""
        rows = self.rows(count, **options)
        return {name: self.texts(rows, at) for at, name in enumerate(self.columns)}

    def near(
        self, count: int, *, slot: int | None = None, column: int = 1, nth: int = 0,
        **options: Any,
    ) -> list[str]:  # fmt: skip
        """Texts like those of `table`, but with another entry in a slot: hard negatives."""
        texts = []
        for row in self.rows(count, **options):
            draw = random.Random(f"{row}{nth}")
            at = draw.randrange(len(row)) if slot is None else slot
            texts.append(self.text(self._counterpart(row, at, draw), column))
        return texts

    def graded(
        self, count: int, *, most: float = 1.0, column: int = 1, **options: Any
    ) -> dict[str, list[Any]]:
        """Pairs of texts with the share of slots in which they agree, times ``most``."""
        table: dict[str, list[Any]] = {"sentence1": [], "sentence2": [], "score": []}
        for row in self.rows(count, **options):
            draw, counterpart = random.Random(f"{row}graded"), row
            changed = draw.sample(range(len(row)), draw.randint(0, len(row)))
            for at in changed:
                counterpart = self._counterpart(counterpart, at, draw)
            table["sentence1"].append(self.text(row, 0))
            table["sentence2"].append(self.text(counterpart, column))
            table["score"].append(round(most * (1 - len(changed) / len(row)), 3))
        return table

    def labels(self, rows: Sequence[Row], slot: int) -> list[int]:
        """The number of each row's entry in a slot, as its class."""
        entries = list(self.slots.values())[slot].split()
        return [entries.index(row[slot]) for row in rows]

    def labelled(self, count: int, slot: int, **options: Any) -> dict[str, list[Any]]:
        """Texts of the first column with their classes."""
        rows = self.rows(count, **options)
        return {"text": self.texts(rows, 0), "label": self.labels(rows, slot)}

    def all_texts(self, *extras: str) -> list[str]:
        """Texts that hold every word of the kind."""
        words = [entry.replace("/", " ").replace("|", " ").replace("_", " ")
                 for entry in " ".join(self.slots.values()).split()]  # fmt: skip
        names = {name: "" for name in self.slots}
        templates = [text.format(**names) for texts in self.columns.values() for text in texts]
        return [*words, *templates, *extras]

    def sought(self, model: Any, count: int = 60, **options: Any) -> float:
        """How well the second column's texts are found by the first's, among held-out rows."""
        columns = list(self.table(count, held=True, seed=5).items())[:2]
        return retrieval(model, dict(columns), **options)

    def agrees(self, model: Any, count: int = 150, column: int = 1) -> float:
        """How well cosines agree with the grades of held-out pairs."""
        return correlation(model, self.graded(count, held=True, seed=5, column=column))

    def sorts(self, model: Any, slot: int, count: int = 100) -> float:
        """Share of held-out texts whose nearest other one is of the same class."""
        table = self.labelled(count, slot, held=True, seed=5)
        return nearest_of_class(model, table["text"], table["label"])

    def _counterpart(self, row: Row, at: int, draw: random.Random) -> Row:
        entries = [entry for entry in list(self.slots.values())[at].split() if entry != row[at]]
        return (*row[:at], draw.choice(entries), *row[at + 1 :])


def nearest_of_class(model: Any, texts: Sequence[str], labels: Sequence[int]) -> float:
    """Share of texts whose nearest other text is of the same class."""
    import numpy as np

    rows = model.encode(list(texts), show_progress_bar=False)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, -2)
    classes = np.array(labels)
    return float((classes[cosines.argmax(1)] == classes).mean())
