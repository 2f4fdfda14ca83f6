"""The explorer: an interactive page on losses, compiled from their formulas."""

from gradlab.explorer.page import Page, explore

__all__ = ["Page", "explore"]
