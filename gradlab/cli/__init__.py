"""The ``gradlab`` command: `commands` run a command line, `options` are what they share."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

try:
    from gradlab.cli.commands import CommandGroup, main
except KeyboardInterrupt:  # in one line here too; `main` handles what comes later
    print("Interrupted.", file=sys.stderr)
    sys.exit(130)

if TYPE_CHECKING:
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
    """Import `gradlab.cli.options` for its names; commands that do not need it start sooner."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.options"), name)
