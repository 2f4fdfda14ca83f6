"""The command ``gradlab audit``."""

from __future__ import annotations

import sys
from typing import Any

import click

from gradlab.cli.options import mirrored, option, set_option
from gradlab.settings import read_assignments


@click.command()
@click.argument("target")
@set_option("An argument of the loss, e.g. scale=20; repeatable.")
@option("--summed", "Gradients are summed over processes, not averaged as by DDP.", False)
@option("--even", "Test equal shares only, as if incomplete last batches were dropped.", False)
@mirrored("scale.audit.auditing:audit", "processes", "columns", "own_negatives", "timeout", "seed")
def command(
    target: str, assignments: tuple[str, ...], summed: bool, even: bool, **options: Any
) -> None:
    """Check the gradient of a loss on several processes against one process."""
    from gradlab.scale.audit import audit

    settings = read_assignments(assignments)
    found = audit(target, settings=settings, averaged=not summed, uneven=not even, **options)
    click.echo(str(found))
    if not found.passed:
        sys.exit(1)
