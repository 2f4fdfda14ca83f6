"""``gradlab explore``."""

from __future__ import annotations

from pathlib import Path

import click

EPILOG = """\b
Examples:
  gradlab explore
  gradlab explore infonce arccon met
  gradlab explore "arccon(temperature=0.1)" mhe --output compare.html

One page, without server or network: drag an anchor, its positive and its negatives and see pull, push, dissipation, weights,
ratio and the next step of two losses side by side; curves and heatmaps with sliders. Its address holds what is shown.
"""


@click.command(epilog=EPILOG)
@click.argument("losses", metavar="[LOSS]...", nargs=-1)
@click.option(
    "--output", default="explore.html", show_default=True, type=click.Path(path_type=Path), help="The page."
)
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
