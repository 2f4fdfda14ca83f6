"""Deprecated module, renamed to `gradlab.monitor.watch`."""

from __future__ import annotations

import warnings
from typing import Any

from gradlab.monitor import watch

_RENAMED = {"Watcher": "Watch", "LoopWatcher": "LoopWatch"}


def __getattr__(name: str) -> Any:
    found = getattr(watch, _RENAMED.get(name, name))
    warnings.warn(
        "gradlab.monitor.watcher is now called gradlab.monitor.watch",
        DeprecationWarning,
        stacklevel=2,
    )
    return found
