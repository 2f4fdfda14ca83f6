"""Hooks on what a training calls, which must neither keep a watch alive nor stop the training."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any


def weakly(method: Callable[..., None]) -> Callable[..., None]:
    """Return a hook that calls a bound method as long as its owner lives, and never raises.

    The method may not remove hooks of its own kind: torch walks through them while it calls them.
    """
    reference = weakref.WeakMethod(method)

    def hook(*arguments: Any) -> None:
        call = reference()
        if call is not None:
            with contextlib.suppress(Exception):  # modules and optimizers of other kinds
                call(*arguments)

    return hook
