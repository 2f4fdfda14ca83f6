"""A file of two columns: sentences and their second views, made beforehand (paraphrases, back-translations)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError
from gradlab.train.sentences import check_file, read_rows
from gradlab.train.tokens import Tokens, tokenize


def read_columns(
    path: str | Path, columns: Sequence[str], encoding: str = "utf-8"
) -> Iterator[tuple[str, ...]]:
    """Yield the rows of several columns of a CSV, TSV, JSON lines or Parquet file, stripped; wholly blank rows are skipped.

    Args:
        path: the file; .gz, .xz and .bz2 too, except for Parquet.
        columns: their names, such as that of the sentences and that of their views.
        encoding: of text.

    Raises:
        GradlabError: if the file cannot be read or lacks a column, or a row is blank in some of them (names the row).
    """
    path = Path(path)
    check_file(path, encoding)
    parts = [read_rows(path, column, encoding) for column in columns]
    for number, row in enumerate(zip(*parts, strict=True), start=1):
        texts = tuple(text.strip() for text in row)
        if not any(texts):
            continue
        if not all(texts):
            blank = columns[texts.index("")]
            raise GradlabError(
                f"{path}, row {number}: {blank!r} is blank; each row needs all of its sentences"
            )
        yield texts


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
        path, columns, encoding: see :func:`read_columns`.
        tokenizer, max_length, progress: see :func:`gradlab.train.tokens.tokenize`.

    Raises:
        GradlabError: as :func:`read_columns` and :func:`gradlab.train.tokens.tokenize`.
    """
    for _ in read_columns(path, columns, encoding):  # every row has both, so that both are skipped together
        pass
    first, second = (
        tokenize(path, tokenizer, max_length, column=column, encoding=encoding, progress=progress)
        for column in columns
    )
    if len(first) != len(second):
        raise GradlabError(f"{path} has {len(first)} sentences and {len(second)} views after tokenising")
    return first, second
