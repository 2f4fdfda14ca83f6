"""What the commands of several studies share."""

from __future__ import annotations

from typing import Any

import click

from gradlab.cli import CommandGroup


def group(epilog: str, **settings: Any) -> Any:
    """Return a decorator that makes a group of commands in the style of gradlab's."""
    context = {"help_option_names": ["-h", "--help"]}
    return click.group(cls=CommandGroup, epilog=epilog, context_settings=context, **settings)
