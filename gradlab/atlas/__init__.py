"""All losses side by side, by what distinguishes their gradients."""

from gradlab.atlas.entries import COLUMNS, Entry, atlas, measure

__all__ = ["COLUMNS", "Entry", "atlas", "measure"]
