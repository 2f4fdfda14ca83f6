"""The command ``gradlab figures``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from gradlab.cli.options import OutputFolder, option


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@option(
    "--as-published",
    "Figures 3 and 4 as the published ones were computed, where that differs from the text.",
    False,
)
@option(
    "--output",
    "Folder to write to; figures already there are drawn anew.",
    "figures",
    OutputFolder(),
)
@option(
    "--format formats",
    "Picture format; repeatable.",
    ("png", "svg"),
    ["png", "svg", "pdf"],
    multiple=True,
)
def command(
    names: tuple[str, ...], as_published: bool, output: Path, formats: tuple[str, ...]
) -> None:
    """Draw the theory figures of the unified-gradient paper, which need no training."""
    # Set before numpy is imported: with small matrices, its threads would only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from gradlab.figures.catalogue import choose, draw_figures

    figures = choose(names, as_published=as_published)
    if as_published:
        for figure in figures:
            if not figure.as_published:
                click.echo(f"Figure {figure.name} was published as the text says.")
    paths = draw_figures(names, output, as_published=as_published, formats=formats)
    for path in paths:
        click.echo(f"Wrote {path}")
