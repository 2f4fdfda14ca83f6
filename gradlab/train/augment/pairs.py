"""A file of two columns: sentences and their second views, made beforehand (paraphrases, back-translations)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError
from gradlab.train.sentences import check_file, read_rows
from gradlab.train.tokens import Tokens, tokenize


def read_pairs(
    path: str | Path, columns: tuple[str, str], encoding: str = "utf-8"
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a CSV, TSV, JSON lines or Parquet file, stripped; rows where both are blank are skipped.

    Args:
        path: the file; .gz, .xz and .bz2 too, except for Parquet.
        columns: names of the column with the sentences and of the one with their views.
        encoding: of text.

    Raises:
        GradlabError: if the file cannot be read or lacks a column, or a row has one of the two (names the row).
    """
    path = Path(path)
    check_file(path, encoding)
    first, second = (read_rows(path, column, encoding) for column in columns)
    for number, pair in enumerate(zip(first, second, strict=True), start=1):
        sentence, view = (text.strip() for text in pair)
        if bool(sentence) != bool(view):
            blank = columns[bool(sentence)]
            raise GradlabError(f"{path}, row {number}: {blank!r} is blank; each sentence needs its view")
        if sentence:
            yield sentence, view


def tokenize_pairs(
    path: str | Path,
    tokenizer: Any,
    max_length: int,
    columns: tuple[str, str],
    *,
    encoding: str = "utf-8",
    progress: bool = False,
) -> tuple[Tokens, Tokens]:
    """Tokenise both columns, or find them in the cache; row i of one belongs to row i of the other.

    Args:
        path, columns, encoding: see :func:`read_pairs`.
        tokenizer, max_length, progress: see :func:`gradlab.train.tokens.tokenize`.

    Raises:
        GradlabError: as :func:`read_pairs` and :func:`gradlab.train.tokens.tokenize`.
    """
    for _ in read_pairs(path, columns, encoding):  # every row has both, so that both are skipped together
        pass
    first, second = (
        tokenize(path, tokenizer, max_length, column=column, encoding=encoding, progress=progress)
        for column in columns
    )
    if len(first) != len(second):
        raise GradlabError(f"{path} has {len(first)} sentences and {len(second)} views after tokenising")
    return first, second
