"""The command ``gradlab atlas``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from gradlab.cli.options import given_options, option
from gradlab.errors import GradlabError


@click.command()
@click.argument("losses", nargs=-1, metavar="[LOSS]...")
@option("--models", "List what published embedding models were trained with.", False)
@option("--from first", "Compare this loss or published model with that of --to.", metavar="LOSS")
@option("--to second", "The loss or published model that would replace it.", metavar="LOSS")
@option("--csv table", "Write the numbers here.", kind=Path)
@option("--picture", "Write the picture here (png, svg or pdf).", kind=Path)
def command(
    losses: tuple[str, ...],
    models: bool,
    first: str | None,
    second: str | None,
    table: Path | None,
    picture: Path | None,
) -> None:
    """Compare losses by what their gradients do, or say what would change from one to another."""
    # Set before numpy is imported: with small matrices, its threads would only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    options_used, pair = given_options().keys() - {"loss_files"}, {"first", "second"}
    if options_used & pair and options_used != pair:
        raise GradlabError(
            "--from and --to belong together, such as --from infonce --to siglip, and take nothing "
            "else"
        )
    if models and not options_used <= {"models", "table"}:
        raise GradlabError("--models takes nothing else but --csv")
    if picture is not None and picture.suffix not in (".png", ".svg", ".pdf"):
        raise GradlabError(f"--picture must end in .png, .svg or .pdf, not {str(picture)!r}")
    from gradlab.atlas import models as published
    from gradlab.atlas import tables as text
    from gradlab.atlas.entries import atlas, measure
    from gradlab.files import write_text

    if first is not None and second is not None:
        if published.is_model(first) and published.is_model(second):
            entries = published.measure_model(first), published.measure_model(second)
            click.echo(text.exchange_models(*entries))
        else:
            click.echo(text.exchange(measure(first), measure(second)))
        return
    comparison: Any = published.models() if models else atlas(losses or None)
    click.echo(text.models_table(comparison) if models else text.text_table(comparison))
    files = [] if table is None else [write_text(table, comparison.to_frame().to_csv(index=False))]
    if picture is not None:
        from gradlab.plotting.style import save

        files.append(save(comparison.plot()[0], picture))
    for file in files:
        click.echo(f"Wrote {file}")
