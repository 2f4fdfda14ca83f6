"""Options of commands that read a training file, and the file that they describe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradlab.cli.options import option
from gradlab.errors import GradlabError

if TYPE_CHECKING:
    from gradlab.data.training_file import TrainingFile

# Arguments of the options, by which columns are named and rows are read.
COLUMNS = ("column", "positive_column", "negative_columns")
READING = ("positives_per_row", "negatives_per_row", "faulty_rows", "encoding")


def training_file_options(*, required: bool = False) -> Callable[[Any], Any]:
    """Return a decorator that adds ``--train-file`` and the options of its columns and rows."""
    options = (
        option(
            "--train-file",
            "Sentences, pairs or triples: text, CSV, TSV, JSON, Parquet, a saved dataset, or a "
            "folder in BEIR's layout.",
            kind=Path,
            required=required,
        ),
        option("--column", "Column with the sentences; unset: all columns are found by name."),
        option("--positive-column", "Column with the positives; without one, dropout makes them."),
        option("--negative-columns", "Columns with hard negatives, joined by +."),
        option(
            "--positives-per-row",
            "Of a list of positives: the first, or a row for each of them.",
            "first",
            ["first", "all"],
        ),
        option(
            "--negatives-per-row", "Hard negatives taken from each row.", None, click.IntRange(1)
        ),
        option(
            "--faulty-rows",
            "Rows such as 'nan' or without a text: refuse the file above a share of them, skip the "
            "rows, or keep what has a text.",
            "refuse",
            ["refuse", "skip", "keep"],
        ),
        option("--encoding", "Encoding of a text, JSON, CSV or TSV file.", "utf-8"),
    )

    def decorate(command: Any) -> Any:
        for decorator in reversed(options):
            command = decorator(command)
        return command

    return decorate


def open_training_file(path: Path | None, options: dict[str, Any]) -> TrainingFile | None:
    """Return the file that the options describe, which are taken out of ``options``.

    Its format, and the roles of its columns with a row, are printed to standard error.

    Raises:
        GradlabError: it cannot be read, or options describe a file that is not named.
    """
    from gradlab.data.column_roles import Roles
    from gradlab.data.training_file import TrainingFile

    names = {name: options.pop(name) for name in COLUMNS}
    reading = {name: options.pop(name) for name in READING}
    if path is None:
        if any(names.values()):
            raise GradlabError(
                "--column, --positive-column and --negative-columns name columns of a "
                "--train-file; give it too"
            )
        return None
    column, positive_column, negative_columns = names.values()
    negatives = [name.strip() for name in (negative_columns or "").split("+")]
    roles = Roles(column, positive_column, tuple(filter(None, negatives)))
    file = TrainingFile.open(path, roles, **reading)
    click.echo(file.describe(), err=True)
    file.count_rows(progress=True)
    click.echo(f"  {file.summary()}", err=True)
    return file
