"""The ``gradlab`` command: a thin layer over the Python API that imports only what is used."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import click

    from gradlab.cli.commands import CommandGroup
    from gradlab.cli.options import OutputFolder, data_option, device_option, option, pooler_option

__all__ = [
    "CommandGroup",
    "OutputFolder",
    "data_option",
    "device_option",
    "main",
    "option",
    "pooler_option",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "commands" if name == "CommandGroup" else "options"
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def main(command: click.Command | None = None) -> NoReturn:
    """Run a command line and exit, with 2 on bad input (a line, no traceback), 130 if interrupted.

    Args:
        command: the command to run; None runs ``gradlab``.
    """
    # A shell's background process ignores interruptions for good; only the main thread gets any.
    main_thread = threading.current_thread() is threading.main_thread()
    handled = main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handled:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        # Imported here, so that interrupting an import, even click's, has the same effect as later.
        from gradlab.cli.commands import run

        sys.exit(run(command))
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)
    finally:
        if handled:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, or end the process if an import is in progress.

    Packages do not expect an exception during their import: numpy stays half imported and prints a
    hundred lines, and the C++ code of torch aborts the process.
    """
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            sys.stdout.flush()
            print("Interrupted.", file=sys.stderr, flush=True)
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt
