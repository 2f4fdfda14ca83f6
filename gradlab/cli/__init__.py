"""The ``gradlab`` command: a thin layer over the Python API, loaded one sub-command at a time."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn


def main() -> NoReturn:
    """Run the command line; exit 2 on bad input (one line, no traceback), 130 when interrupted."""
    try:
        with imports_first():
            # Imported here, so that an interruption of any import, click's included, ends as a later one does.
            from gradlab.cli.commands import run

            sys.exit(run())
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)


@contextlib.contextmanager
def imports_first() -> Iterator[None]:
    """Within the block an interruption during an import comes when that has ended; the second one comes at once.

    Packages do not expect it: numpy is left with half of its modules and says so in a hundred lines, and torch's C++
    aborts the process.
    """
    # A shell's background process ignores interruptions, and is left to; other threads than the main one get none.
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    importer = _importer(frame)
    if importer is None or sys.gettrace() is not None:
        _stop()
    # As debuggers do: called back when the function that asked for the import goes on.
    importer.f_trace = _stop
    sys.settrace(_ignore)


def _importer(frame: FrameType | None) -> FrameType | None:
    """Who asked for the outermost import that is under way; None without one."""
    found = None
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            found = frame.f_back
        frame = frame.f_back
    return found


def _ignore(*event: Any) -> None:
    """Traces no function that begins."""


def _stop(*event: Any) -> NoReturn:
    sys.settrace(None)
    raise KeyboardInterrupt
