"""Streams of sentences from text, JSON lines, CSV, TSV and Parquet files, compressed or not."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import json
import lzma
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gradlab.errors import GradlabError

# Largest number of characters in a sentence, far more than any encoder can use.
LONGEST = 20_000
FORMATS = ".txt, .jsonl, .csv, .tsv or .parquet, the first four also with .gz, .xz or .bz2"
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
_JSON, _PARQUET = (".jsonl", ".ndjson", ".json"), (".parquet", ".pq")
_TABLES = {".csv": ",", ".tsv": "\t"}
# Columns of sentences that are found without being named.
USUAL_COLUMNS = ("sentence", "text", "sent0", "anchor")
Columns = Sequence[str | None]


@dataclass
class Skipped:
    """Counts of what reading left out, updated while a file is read."""

    blank: int = 0
    cut: int = 0

    def message(self) -> str:
        """Return the counts as one line of text; empty if they are zero."""
        blank = f"skipped {self.blank:,} blank lines" if self.blank else ""
        cut = f"cut {self.cut:,} sentences longer than {LONGEST:,} characters" if self.cut else ""
        return "; ".join(filter(None, (blank, cut)))


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
        skipped: counts blank lines and sentences that were cut.

    Raises:
        GradlabError: the file is absent, damaged or wrongly encoded (the message names the line),
            or it lacks the column.
    """
    skipped = skipped or Skipped()
    for (row,) in read_rows(Path(path), (column,), encoding):
        sentence = row.strip()
        if len(sentence) > LONGEST:
            skipped.cut += 1
            sentence = sentence[:LONGEST]
        if sentence:
            yield sentence
        else:
            skipped.blank += 1


def read_columns(
    path: str | Path, columns: Columns, encoding: str = "utf-8"
) -> Iterator[tuple[str, ...]]:
    """Yield rows of one or several columns of a file, stripped, without blank rows.

    Raises:
        GradlabError: the file cannot be read or lacks a column, or a row (named) is partly blank.
    """
    for number, row in enumerate(read_rows(Path(path), columns, encoding), start=1):
        texts = tuple(text.strip() for text in row)
        if all(texts):
            yield texts
        elif any(texts):
            blank = columns[texts.index("")]
            raise GradlabError(
                f"{path}, row {number}: {blank!r} is blank; each row needs all sentences"
            )


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
    """Raise GradlabError if file or encoding do not exist, or its lines do not end as in ASCII."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise GradlabError(f"the training file {str(path)!r} {what}; expected {FORMATS}")
    try:
        codecs.lookup(encoding)
    except LookupError as error:
        raise GradlabError(f"unknown encoding {encoding!r}; utf-8 and latin-1 are usual") from error
    try:
        by_line = b"\n".decode(encoding) == "\n"  # files are split into lines before decoding
    except (LookupError, ValueError):  # a codec that decodes no text, such as hex
        by_line = False
    if not by_line:
        raise GradlabError(
            f"files in {encoding!r} cannot be read line by line; convert the file to utf-8"
        )


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
    ending, opener = form_of(path)
    try:
        if ending in _PARQUET:
            yield from _parquet(path, columns, free)
            return
        with opener(path, "rb") as file:
            if ending in _TABLES:
                yield from _table(_lines(file, path, encoding), path, _TABLES[ending], columns)
            elif ending in _JSON:
                yield from _json_lines(_lines(file, path, encoding), path, columns, free)
            elif columns == (None,):
                yield from ((line,) for line in _lines(file, path, encoding, cut=True))
            else:
                named = next(column for column in columns if column is not None)
                raise GradlabError(
                    f"{path} is plain text and has no column {named!r}; expected {FORMATS}"
                )
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise GradlabError(f"{path} is damaged or not {path.suffix[1:]} data: {error}") from error
    except OSError as error:
        raise GradlabError(f"cannot read {path}: {error.strerror or error}") from error


def _lines(file: IO[bytes], path: Path, encoding: str, *, cut: bool = False) -> Iterator[str]:
    """Yield decoded lines; ``cut`` drops the end of a line that is too long for any use."""
    if codecs.lookup(encoding).name == "utf-8":
        encoding = "utf-8-sig"  # a byte-order mark is not part of the first sentence
    limit = 8 * LONGEST if cut else -1
    number = 0
    while raw := file.readline(limit):
        number += 1
        if number == 1 and not raw.endswith(b"\n") and b"\r" in raw.strip():
            raise GradlabError(
                f"the lines of {path} end with carriage returns alone, as on old Macs; convert "
                "them to line feeds (mac2unix)"
            )
        whole = len(raw) != limit or raw.endswith(b"\n")
        while not whole:
            rest = file.readline(limit)
            whole = not rest or rest.endswith(b"\n")
        try:
            # Cut lines may end within a character.
            yield raw.decode(encoding, "ignore" if len(raw) == limit else "strict")
        except UnicodeDecodeError as error:
            raise GradlabError(
                f"{path}, line {number}: byte 0x{error.object[error.start]:02x} is not "
                f"{encoding.removesuffix('-sig')}; convert the file, or name its encoding "
                "(latin-1, for example)"
            ) from error


def _json_lines(
    lines: Iterator[str], path: Path, columns: Columns, free: str | None
) -> Iterator[tuple[str, ...]]:
    chosen: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            yield ("",) * len(columns)
            continue
        try:
            row = json.loads(line)
            if "\\ud" in line.lower():  # escapes can encode half of a surrogate pair
                json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise GradlabError(
                f"{path}, line {number}: half of a surrogate pair is no character"
            ) from None
        except ValueError as error:
            raise GradlabError(
                f"{path}, line {number}: not JSON ({error}); put an object on each line"
            ) from error
        if isinstance(row, str) and columns == (None,) and not chosen:
            yield (row,)
            continue
        if not isinstance(row, dict):
            raise GradlabError(f"{path}, line {number}: expected an object with a sentence")
        chosen = _choose(path, list(row), chosen or columns)
        for column in chosen:
            kinds = str | int | float | None if column == free else str | None
            if not isinstance(row[column], kinds):
                wanted = "a string or a number" if column == free else "a string"
                raise GradlabError(f"{path}, line {number}: {column!r} is not {wanted}")
        yield tuple(_text(row[column]) for column in chosen)


def _table(
    lines: Iterator[str], path: Path, delimiter: str, columns: Columns
) -> Iterator[tuple[str, ...]]:
    csv.field_size_limit(2**31 - 1)
    # In the TSV files of the field, quotes have no meaning.
    quoting: Any = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    # Strict, because an unclosed quote would otherwise turn the following lines into one sentence.
    rows = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    try:
        header = next(rows, None)
        if header is None:
            return
        chosen = _choose(path, header, columns)
        for column in chosen:
            if header.count(column) > 1:
                raise GradlabError(
                    f"{path} has {header.count(column)} columns {column!r}; give each its own name"
                )
        places = [header.index(column) for column in chosen]
        for row in rows:
            # Most often, more columns mean an unquoted comma, and the sentence would be cut at it.
            if row and (len(row) <= max(places) or any(row[len(header) :])):
                other = f"{len(row)} columns where the header has {len(header)}"
                if len(row) > len(header) and delimiter == ",":
                    other += "; put sentences with commas in quotes"
                raise GradlabError(f"{path}, line {rows.line_num}: {other}")
            yield tuple(row[place] if row else "" for place in places)
    except csv.Error as error:
        raise GradlabError(
            f"{path}, line {rows.line_num}: {error}; a quote within quotes is written twice"
        ) from error


def _parquet(path: Path, columns: Columns, free: str | None) -> Iterator[tuple[str, ...]]:
    import pyarrow
    from pyarrow import parquet, types

    try:
        with parquet.ParquetFile(path) as file:
            chosen = _choose(path, list(file.schema_arrow.names), columns)
            for column in chosen:
                kind = file.schema_arrow.field(column).type
                known = types.is_string(kind) or types.is_large_string(kind)
                if not known and (column != free or types.is_nested(kind)):
                    raise GradlabError(f"{path}: column {column!r} holds {kind}, not strings")
            for batch in file.iter_batches(batch_size=8192, columns=chosen):
                for row in zip(
                    *(batch.column(column).to_pylist() for column in chosen), strict=True
                ):
                    yield tuple(map(_text, row))
    except pyarrow.ArrowException as error:
        raise GradlabError(f"{path} is damaged or not a Parquet file: {error}") from error


def _text(value: Any) -> str:
    """Return a value of a typed file as text: equal for equal numbers, empty for None and NaN."""
    if value is None or value != value:
        return ""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _choose(path: Path, names: list[str], columns: Columns) -> list[str]:
    """Return the names of the columns; None stands for a usual column, or the only one."""
    chosen = []
    for column in columns:
        if column is None:
            usual = [name for name in USUAL_COLUMNS if name in names]
            if not usual and len(names) != 1:
                raise GradlabError(
                    f"{path} has the columns {', '.join(names)}; name the one with sentences"
                )
            column = (usual or names)[0]
        if column not in names:
            raise GradlabError(f"{path} has no column {column!r}; it has {', '.join(names)}")
        chosen.append(column)
    return chosen
