"""The training file without rows that repeat others."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import GradlabError
from gradlab.files import atomic_path
from gradlab.train.sentences import form_of, read_rows


def copy_rows(
    source: Path, output: Path, kept: NDArray[np.int64], columns: Sequence[str] = (), encoding: str = "utf-8"
) -> Path:
    """Copy the ``kept`` rows of a training file, counted without those that are blank in the named columns, with all of their columns."""
    check_ending(source, output)
    texts = read_rows(source, tuple(columns) or (None,), encoding)
    numbers = itertools.count()
    wanted = set(kept.tolist())
    copied = [any(text.strip() for text in row) and next(numbers) in wanted for row in texts]
    ending, opener = form_of(source)
    with atomic_path(output) as path:
        if ending in (".parquet", ".pq"):
            from pyarrow import parquet

            parquet.write_table(parquet.read_table(source).filter(copied), path)
        else:
            reading = "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
            # Lines end at a line feed alone, as `read_rows` takes them.
            with (
                opener(source, "rt", encoding=reading, newline="\n") as old,
                form_of(path)[1](path, "wt", encoding=encoding, newline="\n") as new,
            ):
                _copy_text(old, new, ending, iter(copied))
    return output


def check_ending(source: Path, output: Path) -> None:
    """Raise `GradlabError` unless these are two files that have the same format by their endings."""
    if source.resolve() == output.resolve():
        raise GradlabError(
            f"{output} is the training file itself; give another name, which keeps what is left out"
        )
    ending = form_of(source)[0]
    if form_of(output)[0] != ending:
        raise GradlabError(
            f"{output} must have the ending of {source.name}, {ending or 'none'}: rows are copied as they are"
        )


def _copy_text(old: TextIO, new: TextIO, ending: str, copied: Iterator[bool]) -> None:
    if ending == ".csv":  # a cell may hold line breaks
        rows, writer = csv.reader(old), csv.writer(new, lineterminator="\n")
        writer.writerow(next(rows))
        writer.writerows(row for row, wanted in zip(rows, copied, strict=True) if wanted)
        return
    if ending == ".tsv":
        new.write(next(old))
    new.writelines(
        line if line.endswith("\n") else f"{line}\n"
        for line, wanted in zip(old, copied, strict=True)
        if wanted
    )
