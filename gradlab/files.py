"""Read files, and write files and folders atomically; versions, commit and locks."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradlab.errors import GradlabError, reason

if TYPE_CHECKING:
    import numpy as np

_PARTIAL, _REPLACED = ".partial-", ".replaced-"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # beginnings of texts that a spreadsheet computes


@contextlib.contextmanager
def reading(source: str, *also: type[Exception], hint: str = "") -> Iterator[None]:
    """Turn an error in the block into one line: ``source`` cannot be read, the reason, a ``hint``.

    Errors are those of the operating system, ValueError, and those in ``also``, which bad content
    causes as well.
    """
    expected: tuple[type[Exception], ...] = (OSError, ValueError, *also)
    try:
        yield
    except RecursionError as error:
        raise GradlabError(f"cannot read {source}: it is nested too deeply{hint}") from error
    except expected as error:
        raise GradlabError(f"cannot read {source}: {reason(error)}{hint}") from error


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; it becomes ``path`` only if the block succeeds.

    Raises:
        GradlabError: the folder cannot be created or written to, or the disk is full.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The suffix is kept, because writers such as matplotlib choose a format by it.
        temporary = path.parent / f".{path.stem}-{uuid.uuid4().hex[:8]}{path.suffix}"
        try:
            yield temporary
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error


def check_writable(path: str | os.PathLike[str], folder: bool = False) -> None:
    """Check before a long computation that a file or ``folder`` can be written; create nothing.

    Raises:
        GradlabError: the path is empty or too long, exists as the other kind, or its folder is not
            writable.
    """
    if not os.fspath(path).strip():
        raise GradlabError("cannot write '': the path is empty")
    path = Path(path)
    try:
        exists = path.exists()  # refuses names of more than 255 bytes
    except OSError as error:
        raise _unwritable(path, error) from error
    if exists and path.is_dir() != folder:
        raise GradlabError(f"cannot write {str(path)!r}: it is a {'file' if folder else 'folder'}")
    into = path.absolute() if folder else path.absolute().parent
    existing = next(place for place in (into, *into.parents) if place.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise GradlabError(
            f"cannot write {str(path)!r}: {str(existing)!r} is not a writable folder"
        )


def clear_unfinished(folder: str | os.PathLike[str], *names: str) -> None:
    """Delete what :func:`atomic_path` leaves of files ``names`` if its process is killed.

    Call it only while no other process writes these files.
    """
    for name in names:
        path = Path(folder) / name
        for temporary in path.parent.glob(f".{path.stem}-*{path.suffix}"):
            if re.fullmatch(r"[0-9a-f]{8}", temporary.stem.removeprefix(f".{path.stem}-")):
                temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write ``text`` as UTF-8, atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Path(path)


def read_arrays(path: str | os.PathLike[str], kind: str = "an .npz file") -> dict[str, np.ndarray]:
    """Read the arrays of an .npz file, executing nothing in it.

    Errors say that it must be ``kind``.

    Raises:
        GradlabError: the file does not exist, is damaged, or is not an .npz file.
    """
    import numpy as np

    try:
        # For other files np.load returns an object that is not a context manager, hence TypeError.
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, EOFError, ValueError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        # For other files numpy's message suggests unsafe loading, so it is not quoted.
        why = f" ({error.strerror})" if isinstance(error, OSError) and error.strerror else ""
        raise GradlabError(f"cannot read {os.fspath(path)!r}: it must be {kind}{why}") from error


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> Path:
    """Write arrays by name as a compressed .npz file, atomically."""
    import numpy as np

    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
    return Path(path)


def read_object(path: str | os.PathLike[str], description: str = "") -> dict[str, Any]:
    """Read a JSON object from a file; errors name it, such as by ``"the manifest "``.

    Raises:
        GradlabError: the file cannot be read or contains no JSON object.
    """
    with reading(f"{description}{os.fspath(path)!r}"):
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise GradlabError(f"{os.fspath(path)!r} is not a JSON object")
    return content


def read_packaged(package: str, name: str) -> dict[str, Any]:
    """Read a TOML file that belongs to a package, such as ``"gradlab.report"``."""
    return tomllib.loads((resources.files(package) / name).read_text(encoding="utf-8"))


def for_json(value: Any) -> Any:
    """Replace non-finite numbers by None at any depth, because JSON cannot represent them."""
    if isinstance(value, dict):
        return {name: for_json(member) for name, member in value.items()}
    if isinstance(value, list):
        return [for_json(member) for member in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: str | os.PathLike[str], content: Any) -> Path:
    """Write ``content`` as indented JSON, atomically."""
    return write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def write_csv(
    path: str | os.PathLike[str], columns: Mapping[str, Any], exact: bool = False
) -> Path:
    """Write columns of equal length as CSV, atomically; floats keep all digits.

    Texts that a spreadsheet would compute get an apostrophe in front (`spreadsheet_text`), unless
    ``exact``, as in training data.
    """
    cells = [
        column.tolist() if hasattr(column, "tolist") else column for column in columns.values()
    ]
    lines = [list(columns), *cells]  # the header, which a spreadsheet shows as well
    if not exact:
        lines = [
            [
                spreadsheet_text(cell)
                if isinstance(cell, str) and cell.startswith(_FORMULA)
                else cell
                for cell in line
            ]
            for line in lines
        ]
    header, *cells = lines
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows(itertools.chain([header], zip(*cells, strict=True)))
    return Path(path)


def spreadsheet_text(cell: Any) -> Any:
    """Return a cell that a spreadsheet shows: ``'=1+1`` for the text ``=1+1``, numbers as they are.

    Such texts begin with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return.
    """
    if not isinstance(cell, str) or not cell.startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python, gradlab and those of the named packages that are installed."""
    from importlib import metadata  # slow to import

    installed = {"python": platform.python_version()}
    for package in ("gradlab", *packages):
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed[package] = metadata.version(package)
    return installed


def commit() -> str:
    """Return the commit of gradlab's checkout, plus "with changes" if there are any; else empty."""
    # A package installed inside another repository is not a checkout of gradlab.
    if not (Path(__file__).parents[1] / ".git").exists():
        return ""
    try:
        process = subprocess.run(
            ["git", "describe", "--always", "--dirty= with changes", "--abbrev=40", "--exclude=*"],
            cwd=Path(__file__).parent, capture_output=True, text=True, check=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return process.stdout.strip()


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield an empty folder beside ``path``; it becomes ``path`` only if the block succeeds.

    The content is flushed to disk before the folder gets its name, so that a crash, even of the
    machine, leaves the old folder or the new one. An existing ``path`` is moved aside during the
    exchange; if the process dies then, :func:`recover_folder` restores it.

    Raises:
        GradlabError: the folder cannot be written (no permission, disk full).
    """
    path = Path(path)
    try:
        temporary = path.parent / f"{_PARTIAL}{path.name}-{uuid.uuid4().hex[:8]}"
        temporary.mkdir(parents=True)
        # safetensors writes private files; results get the default permissions of new files.
        readable = temporary.stat().st_mode & 0o666
        try:
            yield temporary
            for current in (temporary, *temporary.rglob("*")):
                current.chmod(current.stat().st_mode | readable)
                _flush(current)
            replaced = path.parent / f"{_REPLACED}{path.name}"
            if path.exists():
                _remove(replaced)
                path.rename(replaced)
            temporary.rename(path)
            _flush(path.parent)
            _remove(replaced)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise _unwritable(path, error) from error


def recover_folder(path: str | os.PathLike[str]) -> None:
    """Restore a folder after a crash during an exchange, and delete unfinished folders."""
    path = Path(path)
    if not path.parent.is_dir():
        return
    replaced = path.parent / f"{_REPLACED}{path.name}"
    if replaced.is_dir():
        if path.exists():
            shutil.rmtree(replaced)
        else:
            replaced.rename(path)
    for partial in path.parent.glob(f"{_PARTIAL}{path.name}-*"):
        shutil.rmtree(partial, ignore_errors=True)


@contextlib.contextmanager
def one_at_a_time(
    path: str | os.PathLike[str], waiting: str = "", refusal: str = "", *, patience: float = 2.0
) -> Iterator[None]:
    """Admit one process at a time to the block; its lock ends with the process.

    Args:
        path: a file used only for the lock; it and its folder are created.
        waiting: text for standard error if another process has held the lock for two seconds.
        refusal: text of an error that is raised after ``patience`` seconds, instead of waiting
            longer.
        patience: seconds to wait in all if there is a ``refusal``, at least two.

    Raises:
        GradlabError: the file cannot be created, or there is a ``refusal``.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        try:
            acquisition = lock.acquire(timeout=2)
        except Timeout:
            if waiting:
                print(waiting, file=sys.stderr)
            try:
                acquisition = lock.acquire(timeout=max(0.0, patience - 2) if refusal else -1)
            except Timeout:
                raise GradlabError(refusal) from None
    except OSError as error:
        raise _unwritable(path, error) from error
    with acquisition:
        yield


def _remove(path: Path) -> None:
    """Delete a folder, or a file that lay in its place, as far as possible."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # folders cannot be opened on Windows
        return
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unwritable(path: str | os.PathLike[str], error: OSError) -> GradlabError:
    """Return an operating-system error as one line with the path and the reason."""
    return GradlabError(
        f"cannot write {str(path)!r} ({reason(error)}); free or choose another place"
    )
