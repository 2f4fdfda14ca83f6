"""The atlas: losses side by side, with the numbers that distinguish their gradients."""

from gradlab.atlas.entries import COLUMNS, Atlas, Entry, atlas, measure
from gradlab.atlas.picture import plot_curves

__all__ = ["COLUMNS", "Atlas", "Entry", "atlas", "measure", "plot_curves"]
