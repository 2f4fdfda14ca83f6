"""The command ``gradlab audit``."""

from __future__ import annotations

import sys
from typing import Any

import click

from gradlab.cli.options import option, set_option
from gradlab.settings import read_assignments


@click.command()
@click.argument("target")
@set_option("An argument of the loss, e.g. scale=20; repeatable.")
@option("--summed", "Gradients are summed over processes, not averaged as by DDP.", False)
@option("--even", "Test equal shares only, as if incomplete last batches were dropped.", False)
@option("--processes", "Local processes to start.", 2, click.IntRange(2))
@option(
    "--columns",
    "Columns of embeddings that the loss takes: anchors, positives, then hard negatives.",
    2,
    click.IntRange(2),
)
@option("--own-negatives", "Own negatives of each anchor.", 0, click.IntRange(0))
@option("--timeout", "Seconds after which a process that waits for another one has hung.", 20.0)
@option("--seed", "Seed of the embeddings.", 0, click.IntRange(0))
def command(
    target: str, assignments: tuple[str, ...], summed: bool, even: bool, **options: Any
) -> None:
    """Check the gradient of a loss on several processes against one process."""
    from gradlab.scale.audit import audit

    settings = read_assignments(assignments)
    report = audit(target, settings=settings, averaged=not summed, uneven=not even, **options)
    click.echo(str(report))
    if not report.passed:
        sys.exit(1)
