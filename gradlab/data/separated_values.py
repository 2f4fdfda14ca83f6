"""Tables of separated values: CSV and TSV, with the separator and the meaning of quotes found."""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlab.data.table import Table, check_characters, explained, open_text
from gradlab.errors import GradlabError

# Number of rows whose cells are counted, to choose among separators.
_COUNTED = 50
_SEPARATORS = (",", "\t", ";", "|")
_SPOKEN = {"\t": "tabs"}
_QUOTED_CELL = re.compile(r'(?:^|\t)"', re.MULTILINE)


@dataclass(frozen=True)
class Dialect:
    """How the cells of a file are separated."""

    separator: str
    quoted: bool = True  # whether quotes enclose cells, and a doubled quote stands for itself
    skips_space: bool = False  # whether a space follows each separator

    def reader(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """Return the rows of cells; csv.Error where quotes do not close."""
        csv.field_size_limit(2**31 - 1)
        quoting: Any = csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE
        # Strict, because an unclosed quote would turn the following lines into one sentence.
        return csv.reader(
            lines,
            delimiter=self.separator,
            quoting=quoting,
            strict=True,
            skipinitialspace=self.skips_space,
        )

    def spoken(self, ending: str) -> str:
        """Return the format for display, with what its ending does not say."""
        default = separator_of(ending)
        name = ending[1:].upper()
        if self.separator != default:
            name += f", separated by {_SPOKEN.get(self.separator, repr(self.separator))}"
        if self.separator == "\t":
            name += ", quotes enclose cells" if self.quoted else ""
        return name + (", spaces after separators left out" if self.skips_space else "")


def separator_of(ending: str) -> str:
    """Return the separator that an ending promises."""
    return "\t" if ending == ".tsv" else ","


def open_separated(path: Path, ending: str, encoding: str) -> Table:
    """Return the columns of a CSV or TSV file, which are named in its first row."""
    with explained(path, ", row 1"):
        dialect = find_dialect(path, ending, encoding)
        with open_text(path, encoding) as file:
            header = next(dialect.reader(file), [])
        for name in header:
            check_characters(name, encoding)
    if not header:
        raise GradlabError(f"the training file {str(path)!r} holds no sentence")
    names = tuple(name.strip() for name in header)
    return Table(
        path,
        dialect.spoken(ending),
        names,
        lambda columns: _rows(path, encoding, dialect, names, columns),
        (path,),
    )


def find_dialect(path: Path, ending: str, encoding: str) -> Dialect:
    """Return how cells are separated, from the header, the first rows and the quotes of all rows.

    The ending's own separator wins unless another one divides the header, and the rows alike.
    """
    with open_text(path, encoding) as file:
        start = list(itertools.islice(file, 10 * _COUNTED))
    default = separator_of(ending)
    widths = {candidate: _width(start, candidate) for candidate in (default, *_SEPARATORS)}
    widest = max(
        widths,
        key=lambda candidate: (widths[candidate] > 1, candidate == default, widths[candidate]),
    )
    separator = widest if widths[widest] > 1 else default
    quoted = separator != "\t" or _encloses(path, encoding)
    header = start[0].rstrip("\r\n").split(separator) if start else []
    spaces = len(header) > 1 and all(name.startswith(" ") for name in header[1:])
    return Dialect(separator, quoted, spaces)


def records(lines: Iterable[str], dialect: Dialect) -> Iterator[str]:
    """Yield the text of each row, which line breaks in quotes make longer than a line."""
    source = _Recorded(lines)
    for _ in dialect.reader(source):
        yield "".join(source.lines)
        source.lines.clear()


def _width(lines: Sequence[str], separator: str) -> int:
    """Return the number of cells of the header, or 1 if the first rows have other numbers."""
    dialect = Dialect(separator, quoted=separator != "\t")
    widths = []
    try:
        for row in itertools.islice(dialect.reader(lines), _COUNTED):
            widths.append(len(row))
    except csv.Error:  # the last line may begin a cell that goes on
        pass
    widths = [width for width in widths if width]
    if not widths:
        return 1
    common = Counter(widths).most_common(1)[0]
    return widths[0] if common == (widths[0], len(widths)) or 2 * common[1] > len(widths) else 1


def _encloses(path: Path, encoding: str) -> bool:
    """Return whether quotes enclose cells of a TSV file, as `pandas.to_csv` writes them.

    In most TSV files of the field they have no meaning. They enclose cells if every cell that
    begins with one ends with one, holds only doubled ones, and at least one cell needs it: a
    doubled quote, a tab or a line break; or if all cells of the header are enclosed.
    """
    needed = False
    with open_text(path, encoding) as file:
        cells = next(file, "").rstrip("\r\n").split("\t")
    header_enclosed = all(len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in cells)
    with open_text(path, encoding) as file:
        dialect = Dialect("\t")
        try:
            for text in records(file, dialect):
                if '"' not in text or not _QUOTED_CELL.search(text):
                    continue
                (row,) = dialect.reader([text])
                if len(row) != len(cells):
                    return False
                needed |= any('"' in cell or "\t" in cell or "\n" in cell for cell in row)
        except (csv.Error, ValueError):
            return False
    return header_enclosed or needed


class _Recorded:
    """An iterator over lines, which keeps those since the last `clear` in ``lines``."""

    def __init__(self, source: Iterable[str]) -> None:
        self.lines: list[str] = []
        self._source = iter(source)

    def __iter__(self) -> _Recorded:
        return self

    def __next__(self) -> str:
        line = next(self._source)
        self.lines.append(line)
        return line


def _rows(
    path: Path, encoding: str, dialect: Dialect, names: Sequence[str], columns: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    places = []
    for name in columns:
        if names.count(name) > 1:
            raise GradlabError(
                f"{path}: there are {names.count(name)} columns {name!r}; rename them"
            )
        places.append(names.index(name))
    width = len(names)
    with open_text(path, encoding) as file:
        rows = dialect.reader(file)
        next(rows, None)
        for row in rows:
            # Most often, more columns mean an unquoted separator, and the sentence would be cut.
            if row and (len(row) <= max(places) or any(row[width:])):
                raise ValueError(
                    f"{len(row)} columns where the header has {width}; does a sentence hold a "
                    f"{dialect.separator!r} outside quotes?"
                )
            yield tuple(row[place] if row else "" for place in places)
