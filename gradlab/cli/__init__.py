"""The ``gradlab`` command: a thin layer over the Python API, loaded one sub-command at a time."""

from __future__ import annotations

import sys
from typing import NoReturn

from gradlab.cli.interruption import imports_first


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
