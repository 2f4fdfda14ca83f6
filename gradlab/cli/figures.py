"""``gradlab figures``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from gradlab.cli.options import OutputFolder

EPILOG = """\b
Examples:
  gradlab figures
  gradlab figures 2 10
  gradlab figures 3 4 --as-published
  gradlab figures lemma --format pdf --output paper

\b
Figures of the unified-gradient paper (Li et al. 2024), by its numbers:
  2, 10           mean gradient dissipation over both mean angles
  3               share of the hardest negative in the weight
  4               ratios, and where they occur
  11              what each component does, in steps taken
  12              the geometry of Lemma 1
Beyond it:
  lemma           Lemma 1 against the exact bounds and the steps taken
  noncontrastive  non-contrastive losses before and after their repair

Without names: all of them, 3 and 4 both as the paper's text says and as published. Each is
written as picture and CSV; captions.md says what was computed and how it differs from the paper's.
"""


@click.command(epilog=EPILOG)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--as-published", is_flag=True,
              help="Figures 3 and 4 as the published ones were computed, where that differs from the text.")  # fmt: skip
@click.option("--output", default="figures", show_default=True, type=OutputFolder(),
              help="Folder to write to; figures already there are drawn anew.")  # fmt: skip
@click.option("--format", "formats", multiple=True, default=("png", "svg"), show_default=True,
              type=click.Choice(["png", "svg", "pdf"]), help="Picture format; repeatable.")  # fmt: skip
def command(names: tuple[str, ...], as_published: bool, output: Path, formats: tuple[str, ...]) -> None:
    """Draw the theory figures of the unified-gradient paper, which need no training."""
    # Before numpy loads: for matrices this small its threads would only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from gradlab.figures.catalogue import choose, draw_figures

    chosen = choose(names, as_published=as_published)
    if as_published:
        for figure in chosen:
            if not figure.as_published:
                click.echo(f"Figure {figure.name} was published as the text says.")
    written = draw_figures(names, output, as_published=as_published, formats=formats)
    for path in written:
        click.echo(f"Wrote {path}")
