"""Writing results: never half a file under the final name, every number at full precision."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import platform
import tempfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; it becomes ``path`` only if the block succeeds.

    Raises:
        GradlabError: if the folder cannot be created or written to.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The final suffix is kept because writers such as matplotlib choose a format by it.
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    except OSError as error:
        raise GradlabError(
            f"cannot write to {str(path.parent)!r} ({error.strerror or error}); choose a writable folder"
        ) from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes files private; results get the permissions any other file would have.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write ``text`` as UTF-8, atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Path(path)


def write_json(path: str | os.PathLike[str], content: Any) -> Path:
    """Write ``content`` as indented JSON, atomically."""
    return write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def write_csv(path: str | os.PathLike[str], columns: Mapping[str, Any]) -> Path:
    """Write equally long columns as CSV, atomically; floats keep every digit (shortest round trip)."""
    rows = zip(*(_as_list(column) for column in columns.values()), strict=True)
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    return Path(path)


def _as_list(column: Any) -> list[Any]:
    return column.tolist() if hasattr(column, "tolist") else list(column)


def versions(*packages: str) -> dict[str, str]:
    """Versions of gradlab, Python and the named packages that are installed."""
    found = {"python": platform.python_version()}
    for package in ("gradlab", *packages):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found
