"""`Texts`: the sentences to inspect, in rows of one or more columns; and copies of their file."""

from __future__ import annotations

import codecs
import csv
import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gradlab.data.sentences import form_of, read_columns, read_rows, read_sentences
from gradlab.errors import GradlabError
from gradlab.files import atomic_path


def normalize(text: str) -> str:
    """Return the words of a text in order, without case, punctuation or extra spaces.

    Compatibility forms are replaced too. A text without words is only folded and stripped.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.findall(r"\w+", folded)) or folded.strip()


@dataclass(frozen=True)
class Texts:
    """N rows of a sentence each, or of a sentence, its positive and its hard negatives.

    A text has the number row + N * column, with columns in the order of :attr:`columns`.

    Attributes:
        anchors: the sentences.
        positives: their positives; None if dropout makes the second view.
        negatives: hard negatives by the name of their column.
    """

    anchors: Sequence[str]
    positives: Sequence[str] | None = None
    negatives: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if {"sentence", "positive"} & self.negatives.keys():
            raise GradlabError(
                "hard negatives cannot be called 'sentence' or 'positive', the names of other "
                "columns; give them another name"
            )
        if self.positives is None and self.negatives:
            raise GradlabError(
                "hard negatives need positives too: three columns, or give none of them"
            )
        for name, column in self.columns.items():
            if isinstance(column, str) or len(column) != len(self.anchors):
                raise GradlabError(
                    f"{name} must be a list with a text for each of {len(self.anchors)} sentences"
                )
            for row, text in enumerate(column):
                if not isinstance(text, str) or not text.strip():
                    raise GradlabError(
                        f"{name}, row {row}: {text!r:.40} is not a sentence; give a text"
                    )
        if all(normalize(text) == normalize(self.anchors[0]) for text in self.anchors):
            raise GradlabError(
                "an inspection needs at least two sentences with different words; "
                f"the {len(self)} given do not differ"
            )

    @classmethod
    def read(
        cls,
        path: str | Path,
        column: str | None = None,
        positives: str | None = None,
        negatives: Sequence[str] = (),
        encoding: str = "utf-8",
    ) -> Texts:
        """Read a file, see `gradlab.data.sentences.read_sentences`; other columns need ``column``.

        Raises:
            GradlabError: a file that cannot be read, lacks a column, or has no two different texts.
        """
        if positives is None and not negatives:
            return cls(list(read_sentences(path, column, encoding)))
        if column is None or positives is None:
            raise GradlabError(
                "name the columns of the sentences and of their positives too: "
                "--column and --positives"
            )
        rows = list(read_columns(path, [column, positives, *negatives], encoding))
        parts = [list(part) for part in zip(*rows, strict=True)] or [[], []]
        return cls(parts[0], parts[1], dict(zip(negatives, parts[2:], strict=False)))

    def __len__(self) -> int:
        return len(self.anchors)

    def __getitem__(self, number: int) -> str:
        column, row = divmod(int(number), len(self))
        return list(self.columns.values())[column][row]

    def __iter__(self) -> Iterator[str]:
        return itertools.chain.from_iterable(self.columns.values())

    @property
    def count(self) -> int:
        """Number of texts in all columns."""
        return len(self) * len(self.columns)

    @functools.cached_property
    def columns(self) -> dict[str, Sequence[str]]:
        """Columns by name: ``sentence``, ``positive`` and those of the hard negatives."""
        positives = {} if self.positives is None else {"positive": self.positives}
        return {"sentence": self.anchors, **positives, **self.negatives}


def copy_rows(
    source: Path,
    output: Path,
    kept: NDArray[np.int64],
    columns: Sequence[str] = (),
    encoding: str = "utf-8",
) -> Path:
    """Copy the ``kept`` rows of a training file; rows blank in ``columns`` are not counted."""
    texts = read_rows(source, tuple(columns) or (None,), encoding)
    numbers = itertools.count()
    wanted = set(kept.tolist())
    copied = [any(text.strip() for text in row) and next(numbers) in wanted for row in texts]
    ending, opener = form_of(source)
    with atomic_path(output) as path:
        if ending in (".parquet", ".pq"):
            from pyarrow import parquet

            parquet.write_table(parquet.read_table(source).filter(copied), path)
            return output
        if ending in (".csv", ".tsv"):
            copied.insert(0, True)  # the header
        reading = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
        # As in `read_rows`, only a line feed ends a line.
        with (
            opener(source, "rt", encoding=reading, newline="\n") as old,
            form_of(path)[1](path, "wt", encoding=encoding, newline="\n") as new,
        ):
            if ending == ".csv":  # cells may contain line breaks
                rows = zip(csv.reader(old), copied, strict=True)
                csv.writer(new, lineterminator="\n").writerows(row for row, keep in rows if keep)
            else:
                lines = zip(old, copied, strict=True)
                new.writelines(line.removesuffix("\n") + "\n" for line, keep in lines if keep)
    return output


def check_ending(source: Path, output: Path) -> None:
    """Raise `GradlabError` unless the two are different files with endings of the same format."""
    if source.resolve() == output.resolve():
        raise GradlabError(
            f"{output} is the training file itself; give another name, which keeps what is left out"
        )
    ending = form_of(source)[0]
    if form_of(output)[0] != ending:
        raise GradlabError(
            f"{output} must have the ending of {source.name}, {ending or 'none'}: "
            "rows are copied as they are"
        )
