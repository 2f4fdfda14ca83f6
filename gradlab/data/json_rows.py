"""JSON lines and JSON arrays: a row is an object, a list of texts, or a text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from gradlab.data.suffixes import form_of
from gradlab.data.table import Table, explained, numbered, open_text
from gradlab.errors import GradlabError

# Rows whose keys are columns, beyond which a new key goes unnoticed.
_NAMED_BY = 100
_CHUNK = 1 << 16
# Columns of rows that are texts, and of rows that are lists of texts.
SENTENCE = "sentence"
LIST_NAMES = ("anchor", "positive", "negative")


def open_json(path: Path, encoding: str) -> Table:
    """Return the columns of JSON lines, or of an array of rows."""
    array = is_array(path, encoding)
    names: dict[str, None] = {}
    rows = read_values(path, encoding, array)
    # A damaged row is reported, with its number, where it is read.
    with explained(path, ", row 1"):
        for number, row in enumerate(_until_damaged(rows)):
            if number == _NAMED_BY:
                break
            names.update(dict.fromkeys(_cells_by_column(row) if row is not None else ()))
    if not names:
        for _ in numbered(path, read_values(path, encoding, array)):
            pass  # names the row that cannot be read
        raise GradlabError(f"the training file {str(path)!r} holds no sentence")
    return Table(
        path,
        "a JSON array" if array else "JSON lines",
        tuple(names),
        lambda columns: _cells(read_values(path, encoding, array), columns),
        (path,),
    )


def is_array(path: Path, encoding: str) -> bool:
    """Return whether a file is an array of rows, and not a list of texts on each line."""
    with explained(path), open_text(path, encoding) as file:
        lines = (line for line in file if line.strip())
        line, only = next(lines, ""), next(lines, None) is None
    if not line.lstrip().startswith("["):
        return False
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return True
    # A list of texts is a row of its line, unless the file is nothing else.
    return not row or not isinstance(row[0], str) or (only and form_of(path)[0] == ".json")


def read_values(path: Path, encoding: str, array: bool) -> Iterator[Any]:
    """Yield the rows of a file as JSON has them; None for a blank line."""
    with open_text(path, encoding) as file:
        if array:
            yield from _entries(file)
            return
        for line in file:
            try:
                yield json.loads(line) if line.strip() else None
            except ValueError as error:
                raise ValueError(f"not JSON ({error}); put an object on each line") from error


def _until_damaged(rows: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from rows
    except (ValueError, RecursionError):
        return


def _entries(file: IO[str]) -> Iterator[Any]:
    """Yield the entries of an array, of which only a part is in memory at a time."""
    decoder, text, over = json.JSONDecoder(), "", False
    first = True
    while True:
        text = text.lstrip()
        if first and text:
            if text[0] != "[":
                raise ValueError("not a JSON array")
            text, first = text[1:].lstrip(), False
        if not first and text.startswith("]"):
            return
        try:
            entry, end = decoder.raw_decode(text)
            # A number, or an entry at the end of the chunk, may go on in the following one.
            if end == len(text) and not over:
                raise ValueError("more to read")
        except ValueError as error:
            chunk = file.read(max(_CHUNK, len(text)))
            over = not chunk
            if over:
                raise ValueError(f"not JSON ({error}); the array does not end") from error
            text += chunk
            continue
        yield entry
        text = text[end:].lstrip()
        while not text and (chunk := file.read(_CHUNK)):
            text = chunk.lstrip()
        if text.startswith(","):
            text = text[1:]
        elif not text.startswith("]"):
            raise ValueError("not JSON: a comma is missing between two rows of the array")


def _cells_by_column(row: Any) -> dict[str, Any]:
    """Return the cells of a row by their column."""
    if isinstance(row, dict):
        return row
    if isinstance(row, str):
        return {SENTENCE: row}
    if isinstance(row, list) and row and all(isinstance(text, str) for text in row):
        hard = [f"{LIST_NAMES[2]}_{number}" for number in range(1, len(row) - 1)]
        names = [*LIST_NAMES[: min(2, len(row))], *(hard if len(hard) > 1 else LIST_NAMES[2:])]
        return dict(zip(names, row, strict=False))
    raise ValueError("expected an object with a sentence")


def _cells(rows: Iterator[Any], columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    for row in rows:
        if row is None:
            yield ("",) * len(columns)
            continue
        cells = _cells_by_column(row)
        if cells.keys().isdisjoint(columns):
            raise ValueError(f"no column {columns[0]!r}; it has {', '.join(map(str, cells))}")
        yield tuple(map(cells.get, columns))
