"""``gradlab atlas``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradlab.cli.options import OutputFolder
from gradlab.errors import GradlabError

if TYPE_CHECKING:
    from gradlab.atlas.entries import Atlas

EPILOG = """\b
Examples:
  gradlab atlas
  gradlab atlas infonce dcl "symmetric(infonce(temperature=0.1))"
  gradlab atlas --from infonce --to siglip
  gradlab atlas --from infonce --to "hcl(temperature=0.05)"
  gradlab atlas infonce siglip --pages pages
  gradlab atlas --csv atlas.csv --picture atlas.png

The columns are explained in docs/atlas.md, which --write makes anew, with its picture.
"""


@click.command(epilog=EPILOG)
@click.argument("losses", nargs=-1, metavar="[LOSS]...")
@click.option("--from", "first", metavar="LOSS", help="Compare this loss ...")
@click.option("--to", "second", metavar="LOSS", help="... with what would replace it.")
@click.option(
    "--csv", "table", type=click.Path(path_type=Path, dir_okay=False), help="Write the numbers here."
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the picture here (png, svg or pdf).",
)
@click.option(
    "--pages", type=OutputFolder(), metavar="FOLDER", help="Write a page for each loss and combinator here."
)
@click.option(
    "--write", is_flag=True, help="Write docs/atlas.md, docs/losses and figures/atlas.png, of all losses."
)
def command(
    losses: tuple[str, ...],
    first: str | None,
    second: str | None,
    table: Path | None,
    picture: Path | None,
    pages: Path | None,
    write: bool,
) -> None:
    """Place losses by what distinguishes their gradients, or say what changes from one to another."""
    # Before numpy loads: for matrices this small its threads would only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if (first is None) != (second is None):
        raise GradlabError("--from and --to belong together, such as --from infonce --to siglip")
    if first is not None and (losses or table or picture or pages or write):
        raise GradlabError("--from and --to compare two losses and take nothing else")
    if write and losses:
        raise GradlabError("--write is of all losses; leave the names out")
    if picture is not None and picture.suffix not in (".png", ".svg", ".pdf"):
        raise GradlabError(f"--picture must end in .png, .svg or .pdf, not {str(picture)!r}")
    from gradlab.atlas.entries import atlas, measure
    from gradlab.atlas.page import exchange, text_table

    if first is not None and second is not None:
        click.echo(exchange(measure(first), measure(second)))
        return
    if pages is not None or write:
        from gradlab.atlas.loss_pages import write_pages

        written = write_pages(pages or Path("docs/losses"), losses or None)
        click.echo(f"Wrote {len(written)} pages to {written[-1].parent}")
    if pages is not None and not (table or picture or write):
        return
    entries = atlas(losses or None)
    click.echo(text_table(entries))
    if table is not None:
        from gradlab.files import write_text

        write_text(table, entries.to_frame().to_csv(index=False))
        click.echo(f"Wrote {table}")
    if picture is not None:
        _draw(entries, picture)
    if write:
        from gradlab.atlas.page import page
        from gradlab.files import write_text

        write_text(Path("docs/atlas.md"), page(entries, "../figures/atlas.png"))
        click.echo("Wrote docs/atlas.md")
        _draw(entries, Path("figures/atlas.png"))


def _draw(entries: Atlas, path: Path) -> None:
    from gradlab.plotting.style import save

    click.echo(f"Wrote {save(entries.plot()[0], path)}")
