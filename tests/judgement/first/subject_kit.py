"""What the subjects share: rows of slots, their texts in two wordings, negatives, grades."""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.judgement.first.loop_materials import quiet, ranking
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, keep, retrieval, truth

Row = tuple[str, ...]


def kept_aside(key: str) -> bool:
    """Whether a row belongs to the fifth that training never sees."""
    return zlib.crc32(key.encode()) % 5 == 0


@dataclass(frozen=True)
class Subject:
    """Texts of a subject in two wordings.

    Attributes:
        slots: entries of each slot; "a/b" reads "a" in first and "b" in second texts.
        first: templates of first texts, of which each row draws one.
        second: templates of second texts.
        asides: sentences of which second texts may have some behind them.
    """

    slots: Mapping[str, str]
    first: Sequence[str]
    second: Sequence[str]
    asides: Sequence[str] = ()

    @property
    def entries(self) -> list[list[str]]:
        """The entries of each slot."""
        return [words.split() for words in self.slots.values()]

    def rows(self, count: int, *, held_out: bool = False, seed: int = 0) -> list[Row]:
        """Different rows of entries, in training or held out."""
        combinations = math.prod(map(len, self.entries))
        assert count <= combinations * (0.13 if held_out else 0.7), combinations
        draw, rows = random.Random(seed), dict[Row, None]()
        while len(rows) < count:
            row = tuple(map(draw.choice, self.entries))
            if kept_aside(" ".join(row)) == held_out:
                rows[row] = None
        return list(rows)

    def text(self, row: Row, column: int, version: int = 0) -> str:
        """The text of a row in a column."""
        draw = random.Random(f"{row} {column} {version}")
        words = {}
        for name, entry in zip(self.slots, row, strict=True):
            wordings = entry.split("/")
            words[name] = wordings[min(column, len(wordings) - 1)].replace("_", " ")
        text = draw.choice((self.first, self.second)[column]).format(**words)
        if column and self.asides:
            text += " " + " ".join(draw.sample(self.asides, draw.randint(0, len(self.asides))))
        return text.strip()

    def texts(self, rows: Sequence[Row], column: int, version: int = 0) -> list[str]:
        """The texts of rows in a column."""
        return [self.text(row, column, version) for row in rows]

    def pairs(self, count: int, *, held_out: bool = False, seed: int = 0) -> dict[str, list[str]]:
        """First texts and the second texts that belong to them."""
        rows = self.rows(count, held_out=held_out, seed=seed)
        return {"anchor": self.texts(rows, 0), "positive": self.texts(rows, 1)}

    def altered(self, row: Row, slots: int = 1, seed: int = 0) -> Row:
        """A row with other entries in so many slots."""
        draw = random.Random(f"{row} {slots} {seed}")
        changed = draw.sample(range(len(row)), slots)
        return tuple(
            draw.choice([counterpart for counterpart in entries if counterpart != entry])
            if at in changed
            else entry
            for at, (entry, entries) in enumerate(zip(row, self.entries, strict=True))
        )

    def with_negatives(self, count: int, number: int = 1, seed: int = 0) -> dict[str, list[str]]:
        """Pairs with hard negatives, each of a row with one other entry."""
        rows = self.rows(count, seed=seed)
        table = self.pairs(count, seed=seed)
        for negative in range(number):
            name = "negative" if number == 1 else f"negative_{negative + 1}"
            table[name] = [self.text(self.altered(row, seed=negative), 1) for row in rows]
        return table

    def graded(
        self, count: int, *, held_out: bool = False, seed: int = 0, most: float = 1.0
    ) -> dict[str, list[Any]]:
        """Pairs of texts with the share of slots in which they agree, times ``most``."""
        rows = self.rows(count, held_out=held_out, seed=seed)
        size = len(self.slots)
        differing = [at % (size + 1) for at in range(count)]
        counterparts = [
            self.altered(row, slots) for row, slots in zip(rows, differing, strict=True)
        ]
        return {
            "sentence1": self.texts(rows, 0),
            "sentence2": self.texts(counterparts, 1),
            "score": [round(most * (size - slots) / size, 4) for slots in differing],
        }

    def judged(
        self, count: int, *, held_out: bool = False, seed: int = 0
    ) -> dict[str, list[Any]]:  # fmt: skip
        """Pairs that belong together (1), or differ in one slot or in all (0), half and half."""
        rows = self.rows(count, held_out=held_out, seed=seed)
        seconds = [
            row if at % 2 else self.altered(row, 1 if at % 4 else len(row))
            for at, row in enumerate(rows)
        ]
        return {
            "sentence1": self.texts(rows, 0),
            "sentence2": self.texts(seconds, 1),
            "label": [at % 2 for at in range(count)],
        }

    def by_slot(
        self, slot: str, count: int, *, held_out: bool = False, column: int = 1
    ) -> dict[str, list[Any]]:
        """Texts with the number of their entry in a slot as class."""
        rows = self.rows(count, held_out=held_out)
        at = list(self.slots).index(slot)
        labels = [self.entries[at].index(row[at]) for row in rows]
        return {"text": self.texts(rows, column), "label": labels}

    def words(self) -> list[str]:
        """Texts that hold every word of the subject."""
        longest = max(map(len, self.entries))
        rows = [tuple(e[at % len(e)] for e in self.entries) for at in range(longest)]
        filled = []
        for row in rows:
            for column, templates in enumerate((self.first, self.second)):
                named = {
                    name: entry.split("/")[min(column, entry.count("/"))].replace("_", " ")
                    for name, entry in zip(self.slots, row, strict=True)
                }
                filled += [template.format(**named) for template in templates]
        return [*filled, *self.asides]

    def sought(self, count: int = 60, *, prompts: Any = None) -> Callable[[Any], float]:
        """A score: how well held-out second texts are found by first texts."""
        table = self.pairs(count, held_out=True, seed=11)
        return lambda model: retrieval(model, table, prompts=prompts)

    def ordered(self, count: int = 80) -> Callable[[Any], float]:
        """A score: the rank correlation of cosines with held-out grades."""
        table = self.graded(count, held_out=True, seed=11)
        return lambda model: correlation(model, table)


def neighbours(table: Mapping[str, Sequence[Any]]) -> Callable[[Any], float]:
    """A score: the share of texts whose nearest other text is of the same class."""

    def score(model: Any) -> float:
        rows = model.encode(list(table["text"]), show_progress_bar=False)
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        cosines = rows @ rows.T
        np.fill_diagonal(cosines, -2)
        labels = np.array(table["label"])
        return float((labels[cosines.argmax(1)] == labels).mean())

    return score


def schooled(
    stage: Stage, model: Any, table: Mapping[str, Sequence[Any]], *, steps: int = 80,
    loss: Callable[[Any], Any] = ranking, **settings: Any,
) -> Any:  # fmt: skip
    """Train an encoder beforehand: a teacher, a guide, or a body that is tuned further."""
    folder = str(stage.folder / "school")
    options = {"learning_rate": 1e-3, "max_steps": steps, "output_dir": folder}
    trainer = stage.trainer(loss, table, model, **{**options, **settings})
    with quiet():
        trainer.train()
    return model.eval()


def rises(stage: Stage, scores: tuple[float, float], least: float) -> None:
    """Keep the scores of a loop, and hold it to have raised its score."""
    before, after = scores
    keep(stage, before=before, after=after)
    assert after >= before + least, truth(stage)
