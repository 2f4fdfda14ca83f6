"""Texts of a field made from slots with wordings for each column, in several templates."""

from __future__ import annotations

import random
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = tuple[str, ...]


def is_held_out(row: Row) -> bool:
    """Whether a row is kept from all training."""
    return zlib.crc32(" ".join(row).encode()) % 5 == 0


@dataclass(frozen=True)
class Slotted:
    """Rows of a field: an entry "first/second" for each slot, worded anew in each column.

    Attributes:
        slots: entries of each slot, apart by spaces; underscores stand for spaces.
        columns: templates of each column, of which a row takes one.
    """

    slots: Mapping[str, str]
    columns: Mapping[str, Sequence[str]]

    def rows(self, count: int, *, held_out: bool = False, seed: int = 0) -> list[Row]:
        """Return different rows; a fifth of all possible rows is held out from training."""
        draw, drawn_rows = random.Random(seed), dict[Row, None]()
        for _ in range(500 * count):
            row = tuple(draw.choice(entries.split()) for entries in self.slots.values())
            if is_held_out(row) == held_out:
                drawn_rows[row] = None
            if len(drawn_rows) == count:
                return list(drawn_rows)
        raise ValueError("the field has fewer rows")

    def text(self, row: Row, column: int = 0, style: int = 0) -> str:
        """Return a row in the wording of a column."""
        templates = list(self.columns.values())[column]
        template = templates[(zlib.crc32(" ".join(row).encode()) // 7 + style) % len(templates)]
        words = {}
        for name, entry in zip(self.slots, row, strict=True):
            wordings = entry.split("/")
            words[name] = wordings[min(column, len(wordings) - 1)].replace("_", " ")
        return template.format(**words)

    def table(self, count: int, *, held_out: bool = False, seed: int = 0) -> dict[str, list[Any]]:
        """Return the texts of all columns."""
        rows = self.rows(count, held_out=held_out, seed=seed)
        return {name: [self.text(row, column) for row in rows]
                for column, name in enumerate(self.columns)}  # fmt: skip

    def sought(self, count: int = 100) -> dict[str, list[Any]]:
        """Return the first two columns of held-out rows."""
        return dict(list(self.table(count, held_out=True).items())[:2])

    def changed(self, row: Row, slots: Sequence[int], draw: random.Random) -> Row:
        """Return a row with other entries in some slots, of the part that the row belongs to."""
        lists = [entries.split() for entries in self.slots.values()]
        for _ in range(300):
            other_row = tuple(
                draw.choice([counterpart for counterpart in lists[at] if counterpart != entry])
                if at in slots else entry
                for at, entry in enumerate(row)
            )  # fmt: skip
            if is_held_out(other_row) == is_held_out(row):
                return other_row
        return other_row if is_held_out(row) else self.changed(row, range(len(row)), draw)

    def near_misses(self, count: int, *, slot: int, column: int = 1, seed: int = 0) -> list[str]:
        """Return texts of the rows of `table` that differ in one slot: hard negatives."""
        draw = random.Random(seed + 100 + slot)
        return [self.text(self.changed(row, [slot], draw), column)
                for row in self.rows(count, seed=seed)]  # fmt: skip

    def graded(self, count: int, *, most: float = 1.0, column: int = 1, held_out: bool = False,
               seed: int = 0) -> dict[str, list[Any]]:  # fmt: skip
        """Return pairs of texts with the share of slots in which they agree, times ``most``."""
        draw, firsts, seconds, scores = random.Random(seed + 5), [], [], []
        for row in self.rows(count, held_out=held_out, seed=seed):
            differing = draw.sample(range(len(row)), draw.randint(0, len(row)))
            firsts.append(self.text(row))
            seconds.append(self.text(self.changed(row, differing, draw), column, style=1))
            scores.append(round(most * (1 - len(differing) / len(row)), 3))
        return {"first": firsts, "second": seconds, "score": scores}

    def matched(self, count: int, *, slots: int = 1, held_out: bool = False,
                seed: int = 0) -> dict[str, list[Any]]:  # fmt: skip
        """Return pairs of texts that mean the same (1) or differ in some slots (0)."""
        draw, firsts, seconds, labels = random.Random(seed + 6), [], [], []
        for row in self.rows(count, held_out=held_out, seed=seed):
            label = draw.randint(0, 1)
            differing = [] if label else draw.sample(range(len(row)), slots)
            firsts.append(self.text(row))
            seconds.append(self.text(self.changed(row, differing, draw), 1))
            labels.append(label)
        return {"first": firsts, "second": seconds, "label": labels}

    def classes(self, count: int, *, slot: int, held_out: bool = False,
                seed: int = 0) -> dict[str, list[Any]]:  # fmt: skip
        """Return texts of any column with the number of their entry in a slot."""
        draw = random.Random(seed + 7)
        entries = list(self.slots.values())[slot].split()
        rows = self.rows(count, held_out=held_out, seed=seed)
        return {
            "text": [self.text(row, draw.randrange(len(self.columns))) for row in rows],
            "label": [entries.index(row[slot]) for row in rows],
        }

    def vocabulary(self, *extras: str) -> list[str]:
        """Return texts that hold all words of the field."""
        entries = [entries.replace("/", " ").replace("_", " ") for entries in self.slots.values()]
        templates = [template for several in self.columns.values() for template in several]
        return [*entries, *templates, *extras]
