"""Which columns does a file have, and what do its rows hold? `open_table` answers for any format.

A module for each family of formats finds the columns and yields rows; this one chooses among them.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gradlab.data import arrow_rows, beir, json_rows, separated_values
from gradlab.data.suffixes import ARROW, JSON, PARQUET, SEPARATED, form_of
from gradlab.data.table import Table, check_file, explained, open_text
from gradlab.errors import GradlabError

_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def open_table(path: str | Path, encoding: str = "utf-8") -> Table:
    """Return the columns of a file or folder; see `gradlab.data.suffixes.FORMATS`.

    A file without a known ending is plain text. A byte-order mark of UTF-16 or UTF-32 overrides the
    encoding.

    Raises:
        GradlabError: the file is absent, damaged or wrongly encoded, or of an unknown layout.
    """
    path = Path(path)
    if beir.is_beir(path):
        return beir.open_beir(path)
    if arrow_rows.is_saved(path):
        return arrow_rows.open_saved(path)
    check_file(path, encoding)
    ending, _ = form_of(path)
    for endings, opener in (
        (PARQUET, arrow_rows.open_parquet),
        (ARROW, arrow_rows.open_arrow),
    ):
        if ending in endings:
            return opener(path)
    encoding, remark = _encoding_of(path, encoding)
    if ending in SEPARATED:
        table = separated_values.open_separated(path, ending, encoding)
    elif ending in JSON:
        table = json_rows.open_json(path, encoding)
    else:
        table = Table(path, "plain text", (), lambda _: _lines(path, encoding), (path,))
    return replace(table, form=table.form + remark, encoding=encoding)


def _encoding_of(path: Path, encoding: str) -> tuple[str, str]:
    """Return the encoding that a byte-order mark names, else the given one, and a remark on it."""
    with explained(path), form_of(path)[1](path, "rb") as file:
        start = file.read(4)
    marked = next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)
    if codecs.lookup(encoding).name != "utf-8":
        return encoding, ""
    if marked is None:
        _check_unmarked(path, start)
        return encoding, ""
    return marked, f", {marked.upper()} by its byte-order mark"


def _check_unmarked(path: Path, start: bytes) -> None:
    """Refuse a file that begins like UTF-16 text of Latin letters, without a byte-order mark."""
    for name, zeros in (("utf-16-be", (0, 2)), ("utf-16-le", (1, 3))):
        if len(start) == 4 and all((start[place] == 0) == (place in zeros) for place in range(4)):
            raise GradlabError(
                f"{path} looks like UTF-16 without a byte-order mark; name its encoding: {name}"
            )


def _lines(path: Path, encoding: str) -> Iterator[tuple[str]]:
    with open_text(path, encoding) as file:
        for line in file:
            if not line.endswith("\n") and "\r" in line.strip():
                raise ValueError(
                    "lines end with carriage returns, as on old Macs; convert to line feeds"
                )
            yield (line,)
