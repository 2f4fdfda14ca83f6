"""The command ``gradlab losses``."""

from __future__ import annotations

from typing import Any

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
    """List the losses, or show one by NAME: formula, hyper-parameters, units, defaults, paper."""
    from gradlab.losses import registry
    from gradlab.losses.published_models import PREFIX
    from gradlab.losses.tables import latex_table, markdown_table, text_entry

    loss_name = name or loss_name
    losses: list[Any]
    if loss_name is None:
        losses = [
            registry.loss_class(name) for name in (*registry.loss_names(), *registry.taught_names())
        ]
    elif loss_name.startswith(PREFIX) or ("(" in loss_name and not registry.is_own(loss_name)):
        # Shown with the values that it was given or published with.
        losses = [registry.get_loss(loss_name)]
    else:
        losses = [registry.loss_class(loss_name)]
    if style == "text":
        click.echo("\n\n".join(map(text_entry, losses)))
        if not loss_name:
            names = ", ".join(registry.combinator_names())
            click.echo(
                "\nCombinators change another loss, as in symmetric(infonce(temperature=0.1)): "
                f"{names}. `gradlab losses symmetric` describes one."
            )
    else:
        click.echo(markdown_table(losses) if style == "markdown" else latex_table(losses))
