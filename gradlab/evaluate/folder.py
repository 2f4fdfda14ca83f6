"""Finding and reading files in the layout of SentEval's ``data/downstream`` folder.

Files are only ever read as text, line by line; nothing in them is executed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from gradlab.errors import GradlabError

# The folder of each task below data/downstream.
FOLDERS = {
    "STS12": "STS/STS12-en-test",
    "STS13": "STS/STS13-en-test",
    "STS14": "STS/STS14-en-test",
    "STS15": "STS/STS15-en-test",
    "STS16": "STS/STS16-en-test",
    "STS-B": "STS/STSBenchmark",
    "SICK-R": "SICK",
    "MR": "MR",
    "CR": "CR",
    "SUBJ": "SUBJ",
    "MPQA": "MPQA",
    "SST-2": "SST/binary",
    "TREC": "TREC",
    "MRPC": "MRPC",
}


class MissingFile(GradlabError):
    """A file of a task is absent: the task is left out, the others are evaluated."""


def downstream(path: str | os.PathLike[str]) -> Path:
    """Return the folder that holds ``STS/``, ``MR/`` and so on, given it or a SentEval checkout.

    Raises:
        GradlabError: if ``path`` is not a folder or holds none of the tasks.
    """
    root = Path(path)
    if not root.is_dir():
        raise GradlabError(f"no folder {str(root)!r}; give SentEval's data/downstream folder")
    for folder in (root, root / "downstream", root / "data" / "downstream"):
        if any((folder / name).is_dir() for name in FOLDERS.values()):
            return folder
    raise GradlabError(
        f"{str(root)!r} holds no task in SentEval's layout; expected folders such as STS/STSBenchmark or MR"
    )


def read_lines(path: Path, encoding: str = "utf-8-sig") -> list[str]:
    r"""Lines of a text file, without their ends (``\n``, ``\r\n``); a byte-order mark is dropped.

    Unlike ``str.splitlines``, form feeds and Unicode separators inside a sentence do not end a line.

    Raises:
        MissingFile: if the file is absent.
        GradlabError: if it cannot be read, is empty, or is not in ``encoding`` (names the line).
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise MissingFile(f"{path} is absent") from error
    except OSError as error:
        raise GradlabError(f"cannot read {path} ({error.strerror or error})") from error
    if not content.strip():
        raise GradlabError(f"{path} is empty")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        # error.object rather than content: it starts after a byte-order mark, as error.start does.
        line, byte = error.object.count(b"\n", 0, error.start) + 1, error.object[error.start]
        raise GradlabError(f"{path}, line {line}: not valid UTF-8 (byte 0x{byte:02x})") from error
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if not lines[-1] else lines


def read_table(path: Path, columns: int, header: bool = False) -> list[tuple[int, list[str]]]:
    """Tab-separated rows with their line numbers; quotes have no meaning.

    Args:
        path: a UTF-8 file.
        columns: the least number of columns of a row; more are kept.
        header: whether the first line names the columns (it is skipped).

    Raises:
        GradlabError: as :func:`read_lines`, and for a row with fewer columns or a file without rows.
    """
    rows = [(number, line.split("\t")) for number, line in enumerate(read_lines(path), start=1)][header:]
    if not rows:
        raise GradlabError(f"{path} holds a header and no rows")
    for number, row in rows:
        if len(row) < columns:
            malformed(path, number, f"{len(row)} tab-separated columns where at least {columns} are expected")
    return rows


def score(text: str, path: Path, line: int) -> float:
    """A finite gold score, or a GradlabError that names the file and the line."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        malformed(path, line, f"{text[:40]!r} is not a score")
    return value


def label(text: str, known: Sequence[str], path: Path, line: int) -> int:
    """Position of a class label among the known ones, or a GradlabError that names the file and the line."""
    if text not in known:
        malformed(path, line, f"label {text[:40]!r} is none of {', '.join(known)}")
    return known.index(text)


def sentence(text: str) -> str:
    """A sentence as SentEval hands it to an encoder: split on white space, joined by single spaces."""
    return " ".join(text.split())


def malformed(path: Path, line: int, problem: str) -> NoReturn:
    """Raise a GradlabError that names file and line."""
    raise GradlabError(f"{path}, line {line}: {problem}")
