"""``gradlab losses``."""

from __future__ import annotations

import click

from gradlab.cli.options import loss_option, option


@click.command()
@click.argument("name", required=False, metavar="[NAME]")
@loss_option(hidden=True)
@option(
    "--format style",
    "text to read; markdown and latex print the papers' component tables.",
    "text",
    ["text", "markdown", "latex"],
)
def command(name: str | None, loss_name: str | None, style: str) -> None:
    """List the losses, or show one of them by NAME: formula, hyper-parameters with units and defaults, paper."""
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
                "`gradlab losses symmetric` describes one."
            )
    else:
        click.echo(markdown_table(classes) if style == "markdown" else latex_table(classes))
