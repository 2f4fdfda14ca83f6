"""What is wrong with the rows of a training file, and is it too much to train on?

A `Census` counts rows by kind of fault while they are read, and refuses a file above a share.
"""

from __future__ import annotations

import array
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gradlab.errors import GradlabError

# What to do with rows that have a fault: refuse the file above a share, leave them out, or train
# on them as they are. Rows that lack a text are never trained on.
POLICIES = ("refuse", "skip", "keep")
# Texts that stand for a missing one; without case.
PLACEHOLDERS = frozenset(
    ("nan", "none", "null", "n/a", "na", "#n/a", "<na>", "nat", "nil", "undefined", "[deleted]")
)
_NUMBER = re.compile(r"[+-]?\d[\d.,]*(e[+-]?\d+)?%?")
LABELS_OF_NLI = frozenset(("entailment", "neutral", "contradiction"))


@dataclass(frozen=True)
class Kind:
    """A kind of fault of a row.

    Attributes:
        noun: what is counted, such as ``placeholder text``.
        share: share of the rows above which a file is refused.
        remedy: what would be right.
    """

    noun: str
    share: float
    remedy: str


MISSING = Kind("row that lacks a text", 0.0, "each row needs all texts; fill them in")
PLACEHOLDER = Kind("placeholder text", 0.01, "delete these rows, or fill them in")
LIST = Kind(
    "list written as text",
    0.01,
    "write JSON lines or Parquet, which keep lists: "
    "frame[column] = frame[column].map(ast.literal_eval); "
    'frame.to_json("rows.jsonl", orient="records", lines=True)',
)
NUMBER = Kind("number as text", 0.5, "name the columns that hold sentences")
NUL = Kind("text with NUL characters", 0.01, "the file is damaged or of another encoding")
QUOTED = Kind(
    "text in single quotes",
    0.5,
    "CSV knows double quotes only: write the file again with these",
)
TAB = Kind("line with a tab", 0.5, "name the file .tsv, and its columns in a first row")
KINDS = (MISSING, PLACEHOLDER, LIST, NUMBER, NUL, QUOTED, TAB)


def fault_of(text: str, plain: bool = False) -> Kind | None:
    """Return the fault of a text that is not blank; ``plain`` says that it is a line of a file."""
    if "\0" in text:
        return NUL
    if plain and "\t" in text:
        return TAB
    start, end = text[0], text[-1]
    if start == "[" and end == "]" and len(text) > 3 and text[1] in "'\"":
        return LIST
    if start == end == "'" and len(text) > 1:
        return QUOTED
    if len(text) <= 24:
        if len(text) <= 11 and text.casefold() in PLACEHOLDERS:
            return PLACEHOLDER
        if (start.isdecimal() or start in "+-") and _NUMBER.fullmatch(text):
            return NUMBER
    return None


@dataclass
class Census:
    """Numbers of the rows of a file, by what is wrong with them.

    Attributes:
        rows: rows that are read, without blank ones.
        blank: rows in which all texts are blank.
        left_out: rows with a fault that are left out.
        counts: number of faulty rows by kind and column.
        first: row number and text of the first fault of each kind and column.
        most_negatives, fewest_negatives: largest and smallest number of a row's hard negatives.
        dropped: further positives that are not used, in all rows.
        labels: how often each value of an unused column of labels stands beside pairs.
    """

    rows: int = 0
    blank: int = 0
    left_out: int = 0
    counts: Counter[tuple[Kind, str]] = field(default_factory=Counter)
    first: dict[tuple[Kind, str], tuple[int, str]] = field(default_factory=dict)
    most_negatives: int = 0
    fewest_negatives: int = 0
    dropped: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    _hashes: array.array[int] = field(default_factory=lambda: array.array("q"), repr=False)

    def add_fault(self, kind: Kind, column: str, row: int, text: str) -> None:
        """Count a fault of a row, numbered from 1."""
        self.counts[kind, column] += 1
        self.first.setdefault((kind, column), (row, text))

    def add_row(self, texts: Sequence[str], negatives: int) -> None:
        """Count a row that is read."""
        self._hashes.append(hash(tuple(texts)))
        self.fewest_negatives = min(self.fewest_negatives, negatives) if self.rows else negatives
        self.most_negatives = max(self.most_negatives, negatives)
        self.rows += 1

    @property
    def repeated(self) -> int:
        """Number of rows whose texts all equal those of an earlier row."""
        return len(self._hashes) - len(np.unique(np.frombuffer(self._hashes, dtype=np.int64)))

    def check(self, path: Path, policy: str) -> None:
        """Raise GradlabError if more rows have a fault than training stands, unless they may."""
        if policy != "refuse":
            return
        number = max(1, self.rows + self.left_out)
        for (kind, column), count in self.counts.items():
            if count <= kind.share * number:
                continue
            row, text = self.first[kind, column]
            example = f" ({text:.40})" if text else ""
            name = f" in {column!r}" if column else ""
            out = "" if kind is MISSING else "; --faulty-rows keep reads them as they are"
            raise GradlabError(
                f"{path}, row {row}: {count:,} of {number:,} rows have a {kind.noun}{name}"
                f"{example}; {kind.remedy}; --faulty-rows skip leaves them out{out}".replace(
                    "have a row that lacks a text", "lack a text"
                )
            )

    def check_labels(self, path: Path) -> None:
        """Raise GradlabError if pairs that were found by name have labels of inference (NLI)."""
        if LABELS_OF_NLI & {label.casefold() for label in self.labels}:
            raise GradlabError(
                f"{path}: the pairs have labels ({self.spoken_labels()}), and every row would be "
                "a positive pair; keep the rows of entailment only, or name --column and "
                "--positive-column to go on"
            )

    def spoken_labels(self) -> str:
        """Return the commonest labels with their numbers of rows."""
        return ", ".join(f"{label:.20} {count:,}" for label, count in self.labels.most_common(4))

    def summary(self) -> str:
        """Return one line: the number of rows, and what was noticed in them."""
        remarks = [f"{self.rows:,} rows"]
        if self.blank:
            remarks.append(f"{self.blank:,} blank lines skipped")
        if self.left_out:
            remarks.append(f"{self.left_out:,} faulty rows left out")
        if repeated := self.repeated:
            remarks.append(f"{repeated:,} repeat an earlier row")
        for (kind, column), count in self.counts.items():
            row, text = self.first[kind, column]
            name = f" in {column!r}" if column else ""
            remarks.append(f"{count:,} × {kind.noun}{name} (row {row}: {text[:30]!r})")
        if self.most_negatives != self.fewest_negatives:
            remarks.append(
                f"{self.fewest_negatives} to {self.most_negatives} hard negatives a row; rows "
                "with fewer repeat theirs"
            )
        if self.dropped:
            remarks.append(
                f"{self.dropped:,} further positives not used; --positives-per-row all makes a row "
                "of each"
            )
        return "; ".join(remarks)

    def warnings(self, labels: str = "", scores: str = "") -> list[str]:
        """Return what may be a mistake: a column of labels or scores beside pairs, not used."""
        lines = []
        if self.labels and labels:
            lines.append(
                f"column {labels!r} ({self.spoken_labels()}) is not used: every row is a "
                "positive pair"
            )
        if scores:
            lines.append(f"column {scores!r} is not used: every row is a positive pair")
        return lines
