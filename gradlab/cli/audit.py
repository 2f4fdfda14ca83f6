"""The command ``gradlab audit``."""

from __future__ import annotations

from typing import Any

import click

from gradlab.cli.exit_code import end_with, fail_option, json_option, print_json
from gradlab.cli.options import option, set_option
from gradlab.settings import read_assignments
from gradlab.verdict import BAD, GOOD, WATCH, Grade, graded


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
@json_option
@fail_option("bad")
def command(
    target: str,
    assignments: tuple[str, ...],
    summed: bool,
    even: bool,
    as_json: bool,
    fail_on: str,
    **options: Any,
) -> None:
    """Check the gradient of a loss on several processes against one process."""
    from gradlab.scale.audit import audit

    settings = read_assignments(assignments)
    report = audit(target, settings=settings, averaged=not summed, uneven=not even, **options)
    grade: Grade = BAD if graded(report.faults, BAD) else GOOD if report.passed else WATCH
    if as_json:
        print_json(grade, report.to_dict())
    else:
        click.echo(str(report))
    end_with(grade, fail_on)
