"""The rows of a training file: texts by role, from any format, with nothing lost in silence.

`TrainingFile` puts a table, the roles of its columns and the census of its rows together. Train,
inspect, mine and doctor read their files with it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from gradlab.data.column_roles import LABELS, SCORES, Roles, find_roles, listed_names
from gradlab.data.formats import open_table
from gradlab.data.row_faults import MISSING, POLICIES, Census, fault_of
from gradlab.data.table import Table
from gradlab.errors import GradlabError, check_known, check_whole
from gradlab.progress_bars import progress_bar

POSITIVES = ("first", "all")


class Example(NamedTuple):
    """A row that is trained on.

    Attributes:
        number: the row's number in the file, from 1 behind any header; shared by the rows that
            ``positives_per_row="all"`` makes of it.
        texts: the anchor and, if there is one, the positive.
        negatives: the row's own hard negatives.
        label, score: as texts; empty without such a column.
    """

    number: int
    texts: tuple[str, ...]
    negatives: tuple[str, ...] = ()
    label: str = ""
    score: str = ""


@dataclass(frozen=True)
class TrainingFile:
    """A file of sentences, pairs or triples.

    Attributes:
        table: its columns.
        roles: what they hold.
        positives_per_row: of a list of positives, the ``first``, or a row for each (``all``).
        negatives_per_row: hard negatives taken from each row; None for as many as there are.
        faulty_rows: one of `gradlab.data.row_faults.POLICIES`.
    """

    table: Table
    roles: Roles
    positives_per_row: str = "first"
    negatives_per_row: int | None = None
    faulty_rows: str = "refuse"

    @classmethod
    def open(
        cls,
        path: str | Path,
        roles: Roles | None = None,
        *,
        encoding: str = "utf-8",
        positives_per_row: str = "first",
        negatives_per_row: int | None = None,
        faulty_rows: str = "refuse",
    ) -> Self:
        """Find the columns of a file and their roles; see `open_table` and `find_roles`.

        Raises:
            GradlabError: the file cannot be read, or its columns do not say what they hold.
        """
        check_known("choice of positives", positives_per_row, POSITIVES)
        check_known("treatment of faulty rows", faulty_rows, POLICIES)
        if negatives_per_row is not None:
            check_whole("negatives_per_row", negatives_per_row, 1)
        table = open_table(path, encoding)
        roles = find_roles(table, roles or Roles())
        return cls(table, roles, positives_per_row, negatives_per_row, faulty_rows)

    @property
    def path(self) -> Path:
        """The file or folder."""
        return self.table.path

    @functools.cached_property
    def census(self) -> Census:
        """Numbers of all rows, for which the whole file is read.

        Raises:
            GradlabError: a row that cannot be read, or more faulty rows than training stands.
        """
        return self.count_rows()

    def count_rows(self, progress: bool = False) -> Census:
        """Return `census`, with a progress bar if that takes long; the file is read once."""
        if "census" in vars(self):
            return self.census
        census = Census()
        bar = {"desc": "Reading", "unit": " rows"}
        for example in progress_bar(self.examples(census), progress, **bar):
            census.add_row((*example.texts, *example.negatives), len(example.negatives))
        census.check(self.path, self.faulty_rows)
        if self.roles.by_name and self.faulty_rows == "refuse":
            census.check_labels(self.path)
        vars(self)["census"] = census
        return census

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of `rows`; lists of hard negatives are as many columns."""
        names = self.roles.texts or ("sentence",)
        if not self.roles.negatives:
            return names
        if not self._has_lists:
            return names[: 2 + (self.negatives_per_row or len(names))]
        count = self.census.most_negatives
        return (*names[:2], *(f"negative_{number}" for number in range(1, count + 1)))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield a text for each of `columns`; a row with fewer hard negatives repeats its own."""
        count = len(self.columns) - 2
        for example in self.examples():
            if not example.negatives:
                yield example.texts
                continue
            negatives = itertools.islice(itertools.cycle(example.negatives), count)
            yield (*example.texts, *negatives)

    def examples(self, census: Census | None = None) -> Iterator[Example]:
        """Yield the rows that are trained on; rows without any text are skipped.

        Args:
            census: counts blank and faulty rows. Without one, a row that lacks a text is an error.

        Raises:
            GradlabError: a row that cannot be read or, without a census, lacks a text.
        """
        roles, label = self.roles, self.roles.label or self._unused_labels
        extra = tuple(filter(None, (label, roles.score)))
        names, width = (*roles.texts, *extra), max(1, len(roles.texts))
        for number, cells in enumerate(self.table.rows(names), start=1):
            extras = dict(zip(extra, cells[width:], strict=True))
            texts = self._texts(number, cells[:width])
            if not any(texts):
                if census is not None:
                    census.blank += 1
                continue
            if not self._is_sound(number, texts, census):
                continue
            if census is not None and roles.label is None and label is not None and len(texts) > 1:
                census.labels[self._value(number, label, extras[label])] += 1
            values = [
                self._value(number, name, extras[name], needed=True) if name else ""
                for name in (roles.label, roles.score)
            ]
            anchors, positives, *columns = [*texts, []][: max(2, len(texts))]
            used_positives = positives if self.positives_per_row == "all" else positives[:1]
            if census is not None:
                census.dropped += len(positives) - len(used_positives)
            hard = tuple(itertools.chain.from_iterable(columns))[: self.negatives_per_row]
            for positive in used_positives if roles.positive else [None]:
                pair = (anchors[0],) if positive is None else (anchors[0], positive)
                yield Example(number, pair, hard, *values)

    def to_columns(self) -> dict[str, list[str]]:
        """Return the texts by column, for `datasets.Dataset.from_dict`.

        The order is the one that sentence-transformers expects: anchors, positives, hard negatives.
        """
        texts: list[list[str]] = [list(column) for column in zip(*self.rows(), strict=True)]
        return dict(zip(self.columns, texts or [[] for _ in self.columns], strict=True))

    def options(self, path: str | Path | None = None) -> list[str]:
        """Return the options of the commands that read this file, or another one, in this way."""
        roles = self.roles
        arguments = {
            "--train-file": path or self.path,
            "--column": roles.anchor,
            "--positive-column": roles.positive,
            "--negative-columns": "+".join(roles.negatives),
            "--positives-per-row": ""
            if self.positives_per_row == "first"
            else self.positives_per_row,
            "--negatives-per-row": self.negatives_per_row,
            "--faulty-rows": "" if self.faulty_rows == "refuse" else self.faulty_rows,
            "--encoding": "" if self.table.encoding == "utf-8" else self.table.encoding,
        }
        return [word for name, text in arguments.items() if text for word in (name, str(text))]

    def snippet(self, path: str | Path | None = None) -> str:
        """Return Python code that reads this file, or another one, as ``dataset``."""
        roles = self.roles
        names = [roles.anchor, roles.positive, roles.negatives]
        while names and not names[-1]:
            names.pop()
        arguments = [repr(str(path or self.path))]
        if names:
            arguments.append(f"Roles({', '.join(map(repr, names))})")
        defaults = {
            "positives_per_row": "first",
            "negatives_per_row": None,
            "faulty_rows": "refuse",
        }
        reading = {name: getattr(self, name) for name in defaults} | {
            "encoding": self.table.encoding
        }
        defaults["encoding"] = "utf-8"
        arguments += [
            f"{name}={setting!r}" for name, setting in reading.items() if setting != defaults[name]
        ]
        imported = "Roles, TrainingFile" if names else "TrainingFile"
        return (
            "from datasets import Dataset\n"
            f"from gradlab.data import {imported}\n"
            f"dataset = Dataset.from_dict(TrainingFile.open({', '.join(arguments)}).to_columns())"
        )

    def describe(self) -> str:
        """Return the format, and a line for each role with the text of the first row."""
        example = next(iter(self.examples(Census())), None)
        lines = [f"{self.path}: {self.table.form}"]
        if example is not None:
            texts = [*example.texts]
            if self.roles.negatives:
                texts.append(" | ".join(example.negatives[:3]))
            names = self.roles.named() or {"anchor": ""}
            values = [*texts, *filter(None, (example.label, example.score))]
            width = max(map(len, names.values()))
            lines += [
                f"  {role:<15} {name:<{width}}  {text[:60]!r}"
                for (role, name), text in zip(names.items(), values, strict=False)
            ]
        if self.roles.unused:
            lines.append(f"  {'not used':<15} {listed_names(self.roles.unused)}")
        return "\n".join(lines)

    def summary(self) -> str:
        """Return a line on the rows, and on a column of labels or scores that is not used."""
        scores = next((name for name in self.roles.unused if name.casefold() in SCORES), "")
        pairs = self.roles.positive is not None
        warnings = self.census.warnings(self._unused_labels or "", scores) if pairs else []
        return "; ".join([self.census.summary(), *warnings])

    @property
    def _unused_labels(self) -> str | None:
        """Column of labels beside pairs that plays no role."""
        if self.roles.positive is None:
            return None
        return next((name for name in self.roles.unused if name.casefold() in LABELS), None)

    @functools.cached_property
    def _has_lists(self) -> bool:
        """Whether the first row that has hard negatives holds a list of them in one column."""
        for cells in self.table.rows(self.roles.negatives):
            if any(isinstance(cell, list | tuple) for cell in cells):
                return True
            if any(cells):
                return False
        return False

    def _texts(self, number: int, cells: tuple[Any, ...]) -> list[list[str]]:
        """Return the texts of each column, stripped, without blank ones."""
        names = self.roles.texts or ("line",)
        columns = []
        for place, (name, cell) in enumerate(zip(names, cells, strict=True)):
            try:
                texts = texts_of(cell, several=place > 0)
            except ValueError as error:
                raise GradlabError(f"{self.path}, row {number}: {name!r} {error}") from error
            columns.append([text for text in map(str.strip, texts) if text])
        return columns

    def _is_sound(self, number: int, texts: list[list[str]], census: Census | None) -> bool:
        """Return whether a row is trained on; count its faults."""
        names = self.roles.texts or ("",)
        plain, sound = not self.roles.texts, True
        absent = [name for name, column in zip(names[:2], texts, strict=False) if not column]
        if len(texts) > 2 and not any(texts[2:]):  # one hard negative is enough
            absent.append(names[2])
        if absent and census is None and self.faulty_rows == "refuse":
            raise GradlabError(
                f"{self.path}, row {number}: {absent[0]!r} is blank; each row needs all sentences; "
                "--faulty-rows skip leaves such rows out"
            )
        for name in absent:
            sound = False
            if census is not None:
                census.add_fault(MISSING, name, number, "")
        for name, column in zip(names, texts, strict=True):
            kinds = {kind: text for text in column if (kind := fault_of(text, plain))}
            for kind, text in kinds.items():
                sound &= self.faulty_rows != "skip"
                if census is not None:
                    census.add_fault(kind, name, number, text)
        if census is not None:
            census.left_out += not sound
        return sound

    def _value(self, number: int, name: str, cell: Any, *, needed: bool = False) -> str:
        """Return a label or a score as text, equal for equal numbers."""
        if not isinstance(cell, str | int | float | None):
            raise GradlabError(f"{self.path}, row {number}: {name!r} is not a string or a number")
        if needed and (cell is None or cell != cell or not str(cell).strip()):
            raise GradlabError(
                f"{self.path}, row {number}: {name!r} is blank; each sentence needs a value"
            )
        if cell is None or cell != cell:
            return ""
        return str(int(cell) if isinstance(cell, float) and cell.is_integer() else cell).strip()


def texts_of(cell: Any, several: bool = True) -> list[str]:
    """Return the texts in a cell: a string, a passage with a ``text``, or a list of these.

    Args:
        cell: None and NaN hold no text; a passage's ``title`` comes before its text.
        several: whether a list may hold more than one text.

    Raises:
        ValueError: anything else.
    """
    if isinstance(cell, str):
        return [cell]
    if cell is None or cell != cell:
        return []
    if isinstance(cell, dict) and isinstance(cell.get("text"), str):
        title = cell.get("title")
        return [f"{title} {cell['text']}" if isinstance(title, str) and title else cell["text"]]
    if isinstance(cell, list | tuple):
        texts = [text for entry in cell for text in texts_of(entry, several=False)]
        if several or len(texts) <= 1:
            return texts
        raise ValueError(f"holds {len(texts)} texts, where one is expected")
    raise ValueError("is not a string")
