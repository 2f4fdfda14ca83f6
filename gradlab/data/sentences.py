"""Streams of sentences from text, JSON lines, CSV, TSV and Parquet files, compressed or not."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import json
import lzma
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError
from gradlab.files import reading

FORMATS = ".txt, .jsonl, .csv, .tsv or .parquet, the first four also with .gz, .xz or .bz2"
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
_JSON, _PARQUET = (".jsonl", ".ndjson", ".json"), (".parquet", ".pq")
_TABLES = {".csv": ",", ".tsv": "\t"}
# Columns of sentences that are found without being named.
USUAL_COLUMNS = ("sentence", "text", "sent0", "anchor")
Columns = Sequence[str | None]


@dataclass
class Skipped:
    """Number of blank rows that reading left out, updated while a file is read."""

    blank: int = 0


def read_sentences(
    path: str | Path,
    column: str | None = None,
    encoding: str = "utf-8",
    skipped: Skipped | None = None,
) -> Iterator[str]:
    """Yield a file's non-blank sentences, stripped; only a part of the file is in memory at a time.

    Args:
        path: see :data:`FORMATS`; without a known ending it is read as text, one sentence per line.
        column: column of JSON lines, CSV, TSV and Parquet; None takes a usual one or the only one.
        encoding: encoding of text, JSON lines, CSV and TSV.
        skipped: counts blank rows.

    Raises:
        GradlabError: the file is absent, damaged or wrongly encoded (the message names the row), or
            it lacks the column.
    """
    for (sentence,) in read_columns(path, (column,), encoding, skipped):
        yield sentence


def read_columns(
    path: str | Path, columns: Columns, encoding: str = "utf-8", skipped: Skipped | None = None
) -> Iterator[tuple[str, ...]]:
    """Yield rows of one or several columns of a file, as :func:`read_sentences` yields sentences.

    Raises:
        GradlabError: the file cannot be read or lacks a column, or a row (named) is partly blank.
    """
    skipped = skipped or Skipped()
    for number, row in enumerate(read_rows(Path(path), columns, encoding), start=1):
        texts = tuple(map(str.strip, row))
        if all(texts):
            yield texts
        elif any(texts):
            blank = columns[texts.index("")]
            raise GradlabError(
                f"{path}, row {number}: {blank!r} is blank; each row needs all sentences"
            )
        else:
            skipped.blank += 1


def read_beside(
    path: str | Path, columns: Columns, beside: str, encoding: str = "utf-8"
) -> Iterator[tuple[int, str]]:
    """Yield for each sentence its row number, from 1, and a further column's text or number.

    Rows that are blank in all ``columns`` are left out; GradlabError as in :func:`read_columns`.
    """
    for number, row in enumerate(
        read_rows(Path(path), (*columns, beside), encoding, free=beside), start=1
    ):
        *texts, value = (text.strip() for text in row)
        if any(texts):
            if not value:
                raise GradlabError(
                    f"{path}, row {number}: {beside!r} is blank; each sentence needs a value"
                )
            yield number, value


def check_file(path: Path, encoding: str = "utf-8") -> None:
    """Raise GradlabError if the file or the encoding does not exist."""
    with reading(f"the training file {str(path)[:100]!r}"):
        is_file = path.is_file()  # refuses names of more than 255 bytes
    if not is_file:
        what = "is a folder" if path.is_dir() else "does not exist"
        raise GradlabError(f"the training file {str(path)!r} {what}; expected {FORMATS}")
    try:
        "a".encode(encoding)
    except LookupError as error:
        raise GradlabError(f"unknown encoding {encoding!r}; utf-8 and latin-1 are usual") from error


def form_of(path: Path) -> tuple[str, Any]:
    """Return the lower-case ending of a file's format, without compression, and its opener."""
    endings = [ending.lower() for ending in path.suffixes]
    opener = _OPENERS[endings.pop()] if endings and endings[-1] in _OPENERS else open
    return endings[-1] if endings else "", opener


def read_rows(
    path: Path, columns: Columns, encoding: str, *, free: str | None = None
) -> Iterator[tuple[str, ...]]:
    """Yield rows unchanged, even blank; a column None is chosen, and ``free`` may hold numbers."""
    check_file(path, encoding)
    number = 1
    try:
        for row in _rows(path, columns, encoding, free):
            _check_characters(row, encoding)
            yield row
            number += 1
    except (ValueError, csv.Error) as error:
        raise GradlabError(f"{path}, row {number}: {error}") from error
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise GradlabError(f"{path} is damaged or not {path.suffix[1:]} data: {error}") from error
    except OSError as error:
        raise GradlabError(f"cannot read {path}: {error.strerror or error}") from error


def _rows(
    path: Path, columns: Columns, encoding: str, free: str | None
) -> Iterator[tuple[str, ...]]:
    ending, opener = form_of(path)
    if ending in _PARQUET:
        yield from _parquet(path, columns, free)
        return
    # A byte-order mark is not part of the first sentence.
    codec = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
    # Only a line feed ends a line. Bytes that are not in the encoding become surrogates.
    with opener(path, "rt", encoding=codec, errors="surrogateescape", newline="\n") as file:
        if ending in _TABLES:
            yield from _table(file, _TABLES[ending], columns)
        elif ending in _JSON:
            yield from _json_lines(file, columns, free)
        elif any(columns):
            raise ValueError(f"plain text has no column {columns[-1]!r}; expected {FORMATS}")
        else:
            for line in file:
                if not line.endswith("\n") and "\r" in line.strip():
                    raise ValueError(
                        "lines end with carriage returns, as on old Macs; convert to line feeds"
                    )
                yield (line,)


def _check_characters(row: tuple[str, ...], encoding: str) -> None:
    """Refuse surrogates, which stand for bytes that are no text, or come from escapes in JSON."""
    try:
        "".join(row).encode()
    except UnicodeEncodeError as error:
        code = ord(error.object[error.start])
        what = f"byte 0x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:x}"
        raise ValueError(
            f"{what} is not {encoding}; convert the file, or name its encoding (latin-1, say)"
        ) from None


def _json_lines(
    lines: Iterable[str], columns: Columns, free: str | None
) -> Iterator[tuple[str, ...]]:
    chosen: list[str] = []
    for line in lines:
        try:
            row = json.loads(line) if line.strip() else None
        except ValueError as error:
            raise ValueError(f"not JSON ({error}); put an object on each line") from error
        if row is None:
            yield ("",) * len(columns)
        elif isinstance(row, str) and columns == (None,) and not chosen:
            yield (row,)
        elif not isinstance(row, dict):
            raise ValueError("expected an object with a sentence")
        else:
            chosen = _choose(list(row), chosen or columns)
            for column in chosen:
                kinds = str | int | float | None if column == free else str | None
                if not isinstance(row[column], kinds):
                    wanted = "a string or a number" if column == free else "a string"
                    raise ValueError(f"{column!r} is not {wanted}")
            yield tuple(_text(row[column]) for column in chosen)


def _table(lines: Iterable[str], delimiter: str, columns: Columns) -> Iterator[tuple[str, ...]]:
    csv.field_size_limit(2**31 - 1)
    # In the TSV files of the field, quotes have no meaning.
    quoting: Any = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    # Strict, because an unclosed quote would otherwise turn the following lines into one sentence.
    rows = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    header = next(rows, None)
    if header is None:
        return
    places = []
    for column in _choose(header, columns):
        if header.count(column) > 1:
            raise ValueError(f"there are {header.count(column)} columns {column!r}; rename them")
        places.append(header.index(column))
    for row in rows:
        # Most often, more columns mean an unquoted comma, and the sentence would be cut at it.
        if row and (len(row) <= max(places) or any(row[len(header) :])):
            found = f"{len(row)} columns where the header has {len(header)}"
            raise ValueError(f"{found}; does a sentence hold a {delimiter!r} outside quotes?")
        yield tuple(row[place] if row else "" for place in places)


def _parquet(path: Path, columns: Columns, free: str | None) -> Iterator[tuple[str, ...]]:
    import pyarrow
    from pyarrow import parquet, types

    try:
        with parquet.ParquetFile(path) as file:
            chosen = _choose(list(file.schema_arrow.names), columns)
            for column in chosen:
                kind = file.schema_arrow.field(column).type
                known = types.is_string(kind) or types.is_large_string(kind)
                if not known and (column != free or types.is_nested(kind)):
                    raise ValueError(f"column {column!r} holds {kind}, not strings")
            for batch in file.iter_batches(batch_size=8192, columns=chosen):
                values = [map(_text, batch.column(column).to_pylist()) for column in chosen]
                yield from zip(*values, strict=True)
    except pyarrow.ArrowException as error:
        raise ValueError(f"damaged or not a Parquet file: {error}") from error


def _text(value: Any) -> str:
    """Return a value of a typed file as text: equal for equal numbers, empty for None and NaN."""
    if value is None or value != value:
        return ""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _choose(names: list[str], columns: Columns) -> list[str]:
    """Return the names of the columns; None stands for a usual column, or the only one."""
    usual = [name for name in USUAL_COLUMNS if name in names] or names[:1] * (len(names) == 1)
    chosen = []
    for column in columns:
        if column is None and not usual:
            raise ValueError(f"it has the columns {', '.join(names)}; name the one with sentences")
        chosen.append(usual[0] if column is None else column)
        if chosen[-1] not in names:
            raise ValueError(f"no column {chosen[-1]!r}; it has {', '.join(names)}")
    return chosen
