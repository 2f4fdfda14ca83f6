"""Sentences of a file in any format, for scripts; training reads `TrainingFile`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from gradlab.data.column_roles import Roles
from gradlab.data.training_file import TrainingFile


def read_sentences(
    path: str | Path, column: str | None = None, encoding: str = "utf-8"
) -> Iterator[str]:
    """Yield a file's non-blank sentences, stripped; only a part of the file is in memory at a time.

    Args:
        path: a file in any of `gradlab.data.suffixes.FORMATS`.
        column: column of a table; None finds the anchors by their name, or takes the only column.
        encoding: encoding of text, JSON, CSV and TSV.

    Raises:
        GradlabError: the file is absent, damaged or wrongly encoded (the message names the row), or
            it lacks the column.
    """
    file = TrainingFile.open(path, Roles(column), encoding=encoding, faulty_rows="keep")
    roles = Roles(file.roles.anchor)
    for example in dataclasses.replace(file, roles=roles).examples():
        yield example.texts[0]
