"""The version of gradlab."""

__version__ = "0.1.0"
