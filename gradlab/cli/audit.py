"""``gradlab audit``."""

from __future__ import annotations

import sys

import click

from gradlab.settings import read_assignments

EPILOG = """\b
Examples:
  gradlab audit my_losses:loss
  gradlab audit my_losses.py:make_loss --set scale=20 --processes 4
  gradlab audit sentence_transformers.losses:MultipleNegativesRankingLoss --set gather_across_devices=true
  gradlab audit my_losses:loss --columns 3 --even

TARGET is what `gradlab decompose` takes: a function of columns of embeddings, a class, a maker of losses, or a loss of
sentence-transformers (plain or cached). It is called on each process with that process's sentences, and gathers what it
needs itself. The gradients of all embeddings are compared with those of one process that has the whole batch.
Exit code 1 if anything is wrong; each fault comes with its usual cause and the mend.
"""


@click.command(epilog=EPILOG)
@click.argument("target")
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True,
              help="An argument of the loss, e.g. scale=20; repeatable.")  # fmt: skip
@click.option("--processes", default=2, show_default=True, type=click.IntRange(2), help="Local processes.")
@click.option("--columns", default=2, show_default=True, type=click.IntRange(2),
              help="Columns of embeddings: anchors, positives and any hard negatives.")  # fmt: skip
@click.option("--summed", is_flag=True, help="Gradients are summed over processes, not averaged as by DDP.")
@click.option("--even", is_flag=True, help="Leave shares of different sizes out: the last batch is dropped.")
@click.option("--timeout", default=20.0, show_default=True, type=click.FloatRange(1),
              help="Seconds after which a loss counts as hanging.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the embeddings.")
def command(
    target: str,
    assignments: tuple[str, ...],
    processes: int,
    columns: int,
    summed: bool,
    even: bool,
    timeout: float,
    seed: int,
) -> None:
    """Check the gradient of a loss on several processes against one process."""
    from gradlab.scale.audit import audit

    found = audit(
        target,
        processes=processes,
        columns=columns,
        settings=read_assignments(assignments),
        averaged=not summed,
        uneven=not even,
        timeout=timeout,
        seed=seed,
    )
    click.echo(str(found))
    if not found.passed:
        sys.exit(1)
