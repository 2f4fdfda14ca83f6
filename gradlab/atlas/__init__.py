"""All losses side by side, by what distinguishes their gradients."""

from __future__ import annotations

from typing import Any

from gradlab.atlas.entries import COLUMNS, Atlas, Entry, atlas, measure

__all__ = ["COLUMNS", "Atlas", "Entry", "atlas", "measure", "plot_curves"]


def __getattr__(name: str) -> Any:
    if name != "plot_curves":  # which loads matplotlib
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gradlab.atlas.picture import plot_curves

    return plot_curves
