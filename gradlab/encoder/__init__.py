"""Sentence encoders, and the files that they are loaded from and saved to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradlab.encoder.model import Encoder

__all__ = ["Encoder"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gradlab.encoder.model import Encoder

    return Encoder
