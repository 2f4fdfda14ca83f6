"""The command ``gradlab explore``."""

from __future__ import annotations

from pathlib import Path

import click

from gradlab.cli.options import option


@click.command()
@click.argument("losses", metavar="[LOSS]...", nargs=-1)
@option("--output", "The page.", "explore.html", Path)
def command(losses: tuple[str, ...], output: Path) -> None:
    """Write a page that teaches and compares losses; without LOSS, all of them.

    LOSS is a name of `gradlab losses`, also with settings, such as "mpt(margin=0.3)".
    """
    from gradlab.explorer import explore

    page = explore(*losses)
    path = page.save(output)
    for name, why in page.left_out.items():
        click.echo(f"Left out {name}: {why}")
    count = "1 loss" if len(page.losses) == 1 else f"{len(page.losses)} losses"
    click.echo(f"Wrote {path} ({count}, {path.stat().st_size / 1e6:.1f} MB); open it in a browser")
