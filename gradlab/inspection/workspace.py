"""Pieces of a long inspection on disk, with which the same inspection goes on after a stop.

They lie in a folder of the cache that is named after all that decides them, and are deleted at the
end. A stopped inspection leaves its folder if it has worked for a minute or more.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab._version import __version__
from gradlab.data.tokens import cache_folder
from gradlab.errors import GradlabError, reason
from gradlab.files import atomic_path
from gradlab.train.progress import say

# Increase when the pieces or their meaning change.
FORMAT = 1
# Seconds of work from which on a stopped inspection is continued.
WORTH_KEEPING = 60.0
# Seconds after which the next inspection deletes what a stopped one left.
LIFETIME = 7 * 24 * 3600.0
_PREFIX, _LOCK = "inspect-", "lock"


class Workspace:
    """Folder of the pieces of one inspection, made when the first of them is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._began = time.monotonic()
        self._lock: Any = None

    def path(self, name: str) -> Path:
        """Return the path of a piece; its folder then exists."""
        if self._lock is None:
            self._make()
        return self.folder / name

    def arrays(self, name: str) -> dict[str, NDArray[Any]] | None:
        """Return arrays that were saved under a name; None if they are absent or damaged."""
        path = self.folder / f"{name}.npz"
        if not path.is_file():
            return None
        try:
            with np.load(path, allow_pickle=False) as saved:
                return dict(saved)
        except Exception:  # whatever the damage, the piece is made anew
            return None

    def save(self, name: str, **arrays: NDArray[Any]) -> None:
        """Save arrays under a name, in place of earlier ones."""
        with explained(self.folder), atomic_path(self.path(f"{name}.npz")) as path:
            np.savez(path, **arrays)  # type: ignore[arg-type]  # none is called allow_pickle

    def close(self, finished: bool, progress: bool) -> None:
        """Delete the folder, unless it is of a stopped inspection that is worth continuing."""
        if self._lock is None:
            return
        if not finished and time.monotonic() - self._began >= WORTH_KEEPING:
            if progress:
                size = sum(file.stat().st_size for file in self.folder.iterdir())
                say(
                    f"Stopped. The same inspection goes on from here; until then, {self.folder} "
                    f"keeps {max(1, size >> 20):,} MB"
                )
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.release()

    def _make(self) -> None:
        from filelock import FileLock, Timeout

        with explained(self.folder.parent):
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            _remove_abandoned(self.folder.parent)
            self.folder.mkdir(exist_ok=True)
            # Ends with the process, and so tells others whether it still runs.
            self._lock = FileLock(self.folder / _LOCK)
            try:
                self._lock.acquire(timeout=0)
            except Timeout:  # another process makes the same pieces
                self.folder = self.folder.with_name(f"{self.folder.name}-{os.getpid()}")
                self.folder.mkdir(exist_ok=True)
                self._lock = FileLock(self.folder / _LOCK)
                self._lock.acquire(timeout=0)


@contextlib.contextmanager
def workspace(key: list[Any], progress: bool = False) -> Iterator[Workspace]:
    """Yield the workspace of an inspection; ``key`` has all that decides its pieces.

    Raises:
        GradlabError: a piece cannot be written (no permission, disk full).
    """
    content = json.dumps([FORMAT, __version__, *key]).encode()
    digest = hashlib.sha256(content).hexdigest()[:24]
    work = Workspace(cache_folder() / f"{_PREFIX}{digest}")
    finished = False
    try:
        yield work
        finished = True
    finally:
        work.close(finished, progress)


@contextlib.contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn errors of writing to a folder of the cache into a `GradlabError` of one line."""
    try:
        yield
    except OSError as error:
        raise GradlabError(
            f"cannot write to {str(folder)!r} ({reason(error)}); "
            "set GRADLAB_CACHE_DIR to a place with more room"
        ) from error


def _remove_abandoned(folder: Path) -> None:
    """Delete workspaces that nobody holds or has written to for a week."""
    from filelock import FileLock, Timeout

    for place in folder.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, Timeout):
            times = [path.stat().st_mtime for path in (place, *place.iterdir())]
            if time.time() - max(times) > LIFETIME:
                with FileLock(place / _LOCK, timeout=0):
                    shutil.rmtree(place, ignore_errors=True)
