"""Drawing a result by the name of its kind: what computes imports nothing that draws.

`gradlab/__init__.py` says which function draws which kind; it is loaded when the first picture is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

_ARTISTS: dict[str, str] = {}


def drawn_by(artists: Mapping[str, str]) -> None:
    """Say which function, ``module:name``, draws results of which kind."""
    _ARTISTS.update(artists)


def draw(kind: str, result: Any, **options: Any) -> Any:
    """Draw a result of a kind: what the function for it returns, a matplotlib figure and its axes."""
    module, _, name = _ARTISTS[kind].partition(":")
    return getattr(importlib.import_module(module), name)(result, **options)
