"""Folders that appear whole or not at all, made by one process at a time."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gradlab.errors import GradlabError

_PARTIAL, _REPLACED = ".partial-", ".replaced-"


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield an empty folder beside ``path``; it becomes ``path`` only if the block succeeds.

    Everything in it is on the disk before it gets its name, so that a crash (of the machine too) leaves the
    old folder or the new one. Where ``path`` exists it is moved aside for the moment of the exchange; should
    the process die just then, :func:`recover_folder` brings it back.

    Raises:
        GradlabError: if the folder cannot be written (no permission, disk full).
    """
    path = Path(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f"{_PARTIAL}{path.name}-"))
        yield temporary
        _make_public(temporary)
        _synchronise(temporary)
        _exchange(temporary, path)
    except OSError as error:
        raise GradlabError(
            f"cannot write {str(path)!r} ({error.strerror or error}); free or choose another place"
        ) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def recover_folder(path: str | os.PathLike[str]) -> None:
    """Undo an exchange that a crash cut short, and delete what unfinished writers left behind."""
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
def one_at_a_time(path: str | os.PathLike[str], waiting: str = "") -> Iterator[None]:
    """Let one process at a time into the block, by a lock on the file ``path``; a process that dies lets go of it.

    Args:
        path: a file for the lock alone; it and its folder are made.
        waiting: what to say on the standard error when another process has held the lock for two seconds.

    Raises:
        GradlabError: if the file cannot be made.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=2)
        except Timeout:
            if waiting:
                print(waiting, file=sys.stderr)
            lock.acquire()
    except OSError as error:
        raise GradlabError(
            f"cannot write {str(path)!r} ({error.strerror or error}); free or choose another place"
        ) from error
    try:
        yield
    finally:
        lock.release()


def _exchange(new: Path, path: Path) -> None:
    replaced = path.parent / f"{_REPLACED}{path.name}"
    if path.exists():
        shutil.rmtree(replaced, ignore_errors=True)
        path.rename(replaced)
    new.rename(path)
    _flush(path.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def _make_public(folder: Path) -> None:
    # Temporary folders, and safetensors' files, are private; results get the permissions that others would have.
    umask = os.umask(0)
    os.umask(umask)
    for current, _, names in os.walk(folder):
        Path(current).chmod(0o777 & ~umask)
        for name in names:
            (Path(current) / name).chmod(0o666 & ~umask)


def _synchronise(folder: Path) -> None:
    for current, _, names in os.walk(folder):
        for name in names:
            _flush(Path(current) / name)
        _flush(Path(current))


def _flush(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # Windows cannot open folders
        return
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
