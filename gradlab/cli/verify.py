"""The command ``gradlab verify``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gradlab.cli.exit_code import end_with, fail_option, json_option, print_json
from gradlab.cli.options import build_loss, hyperparameters_option, loss_option, option
from gradlab.errors import GradlabError
from gradlab.progress_bars import progress_bar
from gradlab.verdict import BAD, GOOD, Grade

if TYPE_CHECKING:
    from gradlab.gradient.verification import Check


@click.command()
@loss_option()
@hyperparameters_option
@option("--batch-size", "Sentences in a batch.", 32, click.IntRange(2))
@option("--dim", "Dimensions of the embeddings.", 64, click.IntRange(1))
@option("--seed", "Seed of the batches.", 0, click.IntRange(0))
@option("--side", "View whose gradient is compared.", "both", metavar="anchors|positives|both")
@option("--device", "Where torch computes both, such as cuda.  [default: numpy, on the CPU]")
@option("--per-batch", "Print a line for each kind of batch.", False)
@json_option
@fail_option("bad")
def command(
    loss_name: str | None,
    assignments: tuple[str, ...],
    per_batch: bool,
    as_json: bool,
    fail_on: str,
    **options: Any,
) -> None:
    """Compare every closed form with autograd, in float64."""
    from gradlab.gradient.verification import BATCHES, CONVENTIONS, LABELS, OWN, Checks, verify
    from gradlab.losses.registry import loss_names, taught_names

    if loss_name is None and assignments:
        raise GradlabError("--set needs --loss: hyper-parameters belong to one loss")
    losses = [build_loss(loss_name, assignments)] if loss_name else [*loss_names(), *taught_names()]
    if as_json:
        table = Checks(
            check for loss in progress_bar(losses, None) for check in verify(loss, **options)
        ).columns()
        rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        grade: Grade = GOOD if all(table["passed"]) else BAD
        print_json(grade, {"checks": rows})
        return end_with(grade, fail_on)
    click.echo(f"{'loss':40}" + "".join(f"{name:>14}" for name in CONVENTIONS))
    failed = False
    for loss in progress_bar(losses, None):
        checks = verify(loss, **options)
        failed |= not all(check.passed for check in checks)
        batches = dict.fromkeys(check.batch for check in checks) if per_batch else [""]
        for form in dict.fromkeys(check.form for check in checks):
            for batch in batches:
                of_row = [c for c in checks if c.form == form and batch in ("", c.batch)]
                click.echo(_row(of_row, batch))
        paper = [
            c
            for c in checks
            if (c.form, c.convention) == ("components", "tangent") and not c.declared
        ]
        off = ", ".join(f"{c.batch} {c.relative:.2g}" for c in paper if c.side == paper[0].side)
        if off:
            click.echo(
                f"  the paper's form of {checks[0].loss.name} is off, relative to the gradient, "
                f"by: {off}"
            )
    click.echo(
        f"\nBatches of {options['batch_size']} x {options['dim']}: {', '.join(BATCHES)}; "
        f"{OWN} for losses of pairs; {LABELS} for several positives."
    )
    if failed:
        click.echo("Some closed form misses its declared exactness ('!').", err=True)
        end_with(BAD, fail_on)


def _row(checks: list[Check], batch: str) -> str:
    """Return a line with the loss and largest error by convention: ``=`` exact, ``!`` failed."""
    from gradlab.gradient.verification import Checks

    errors = Checks(checks).errors()
    cells = [
        f"{error:12.1e} {'!' if not right else '=' if exact else ' '}"
        for _, _, error, exact, right in errors
    ]
    return f"{', '.join(filter(None, [errors[0][0], batch])):40}" + "".join(cells)
