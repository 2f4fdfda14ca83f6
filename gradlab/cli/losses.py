"""``gradlab losses``."""

from __future__ import annotations

import click

from gradlab.cli.options import loss_option

EPILOG = """\b
Examples:
  gradlab losses
  gradlab losses arccon
  gradlab losses --format markdown > components.md
  gradlab losses --format latex
"""


@click.command(epilog=EPILOG)
@click.argument("name", required=False, metavar="[NAME]")
@loss_option(hidden=True)
@click.option("--format", "style", type=click.Choice(["text", "markdown", "latex"]), default="text",
              show_default=True, help="text for reading; the papers' component tables for the others.")  # fmt: skip
def command(name: str | None, loss_name: str | None, style: str) -> None:
    """List the losses, or show the one of that NAME: formula, hyper-parameters with units and defaults, paper."""
    from gradlab.losses.registry import combinator_names, loss_class, loss_names, taught_names
    from gradlab.losses.tables import latex_table, markdown_table, text_entry

    loss_name = name or loss_name
    classes = [loss_class(name) for name in ([loss_name] if loss_name else [*loss_names(), *taught_names()])]
    if style == "text":
        click.echo("\n\n".join(text_entry(cls) for cls in classes))
        if not loss_name:
            names = ", ".join(combinator_names())
            click.echo(
                f"\nCombinators change another loss, as in symmetric(infonce(temperature=0.1)): {names}. "
                "`gradlab losses symmetric` tells more."
            )
    else:
        click.echo(markdown_table(classes) if style == "markdown" else latex_table(classes))
