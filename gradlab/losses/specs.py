"""Losses as short texts, such as ``mpt(margin=0.3)``; see `gradlab.settings.text`."""

from gradlab.settings.text import call_text as spec
from gradlab.settings.text import parse_call as parse_spec

__all__ = ["parse_spec", "spec"]
