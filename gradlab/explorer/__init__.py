"""A page on which one understands a loss by moving things; what it computes is compiled from the loss files."""

from gradlab.explorer.page import Page, explore

__all__ = ["Page", "explore"]
