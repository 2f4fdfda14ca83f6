"""`Table`: the columns and rows of a file, and how files are opened, decoded and refused."""

from __future__ import annotations

import codecs
import csv
import gzip
import itertools
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gradlab.data.suffixes import FORMATS, form_of
from gradlab.errors import GradlabError

Reader = Callable[[Sequence[str]], Iterator[tuple[Any, ...]]]


@dataclass(frozen=True)
class Table:
    """The columns of a file.

    Attributes:
        path: the file or folder.
        form: its format, for display, such as ``CSV, separated by ';'``.
        names: names of the columns, in the order of the file; empty for plain text.
        reader: yields, for names of columns, a tuple per row: strings, numbers, lists or None.
        files: the files that hold its content.
        encoding: of its text.
    """

    path: Path
    form: str
    names: tuple[str, ...]
    reader: Reader
    files: tuple[Path, ...]
    encoding: str = "utf-8"

    def rows(self, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield the named columns of all rows, even blank ones.

        Raises:
            GradlabError: a row (the message has its number, from 1) that cannot be read.
        """
        return numbered(self.path, self._checked(names))

    def _checked(self, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        for row in self.reader(names):
            for cell in row:
                check_characters(cell, self.encoding)
            yield row


def check_file(path: Path, encoding: str = "utf-8") -> None:
    """Raise GradlabError if the file or the encoding does not exist."""
    try:
        exists, folder = path.is_file(), path.is_dir()
    except OSError as error:  # such as a name that is too long
        raise GradlabError(f"cannot read {str(path)!r:.200}: {error.strerror}") from error
    if not exists:
        state = "is a folder" if folder else "does not exist"
        raise GradlabError(f"the training file {str(path)!r} {state}; expected {FORMATS}")
    try:
        "a".encode(encoding)
    except (LookupError, UnicodeError) as error:
        raise GradlabError(f"unknown encoding {encoding!r}; utf-8 and latin-1 are usual") from error


def open_text(path: Path, encoding: str) -> IO[str]:
    """Open a text file, compressed or not; only a line feed ends a line.

    Bytes that are not in the encoding become surrogates, which `check_characters` refuses.
    """
    # A byte-order mark is not part of the first sentence.
    codec = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
    file: IO[str] = form_of(path)[1](
        path, "rt", encoding=codec, errors="surrogateescape", newline="\n"
    )
    return file


def numbered(path: Path, rows: Iterator[Any]) -> Iterator[Any]:
    """Yield rows; errors in one become a `GradlabError` with its number, from 1."""
    for number in itertools.count(1):
        with explained(path, f", row {number}"):
            try:
                row = next(rows)
            except StopIteration:
                return
        yield row


class explained:  # used as a context manager
    """Turn errors of reading ``path`` into a `GradlabError` of one line."""

    def __init__(self, path: Path, place: str = "") -> None:
        self.path, self.place = path, place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, GradlabError):
            return
        if isinstance(error, ValueError | csv.Error | RecursionError | OverflowError):
            text = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            message = f"{self.path}{self.place}: {text}"
        elif isinstance(error, EOFError | lzma.LZMAError | zlib.error | gzip.BadGzipFile):
            kind_of_file = self.path.suffix[1:]
            message = f"{self.path} is damaged or not {kind_of_file} data: {error}"
        elif isinstance(error, OSError):
            message = f"cannot read {self.path}: {error.strerror or error}"
        else:
            return
        raise GradlabError(" ".join(message.split())) from error


def check_characters(cell: Any, encoding: str = "utf-8") -> None:
    """Refuse surrogates, which stand for bytes that are no text, or come from escapes in JSON."""
    if isinstance(cell, list):
        for entry in cell:
            check_characters(entry, encoding)
    if not isinstance(cell, str) or cell.isascii():
        return
    try:
        cell.encode()
    except UnicodeEncodeError as error:
        code = ord(error.object[error.start])
        name = f"byte 0x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:x}"
        raise ValueError(
            f"{name} is not {encoding}; convert the file, or name its encoding (latin-1, say)"
        ) from None
