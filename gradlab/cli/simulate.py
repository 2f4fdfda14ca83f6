"""The command ``gradlab simulate``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from gradlab.cli.options import (
    build_loss,
    check_existing,
    file_name,
    hyperparameters_option,
    loss_option,
    option,
    output_option,
)

WRITTEN = {".png": "heatmap", ".csv": "numbers", ".json": "settings"}


@click.command()
@loss_option(required=True)
@hyperparameters_option
@option(
    "--quantity",
    "relative_push (mean push over the largest as the positive moves, one number for all losses), "
    "gradient_dissipation (mean of what the formulas declare), hardest_share (mean of "
    "max_j W/Σ_j W over the batches with GD >= 0.01) or ratio (at θ = μ; by Monte Carlo the "
    "median, because it has no mean).  [default: gradient_dissipation; relative_push of code]",
    kind=str,
)
@option(
    "--engine",
    "exact or monte_carlo.  [default: exact where the loss has an exact form]",
    metavar="exact|monte_carlo",
)
@option(
    "--grid",
    "Points on each axis.  [default: 100; 16 for a loss that is differentiated; fewer cost less]",
    kind=click.IntRange(1),
)
@option("--sigma-pos", "Standard deviation of the positive's angle, in radians.", 0.05)
@option("--sigma-neg", "Standard deviation of the negatives' angles, in radians.", 0.1)
@option("--negatives", "Negatives of each anchor.", 127, click.IntRange(1))
@option(
    "--own-negatives",
    "Further negatives of each anchor, such as mined hard ones, with angles of their own.",
    0,
    click.IntRange(0),
)
@option(
    "--mu-own",
    "Mean angle to the own negatives, in radians.  [default: that of the other negatives]",
    kind=float,
)
@option(
    "--sigma-own",
    "Standard deviation of their angles, in radians.  [default: that of the other negatives]",
    kind=float,
)
@option(
    "--batches",
    "Sampled batches for each point (Monte Carlo only).  [default: 1000; 8 for a loss that "
    "is differentiated]",
    kind=click.IntRange(1),
)
@option("--seed", "Seed of the draws (Monte Carlo only).", 0, click.IntRange(0))
@option("--device", "cpu, or a torch device such as cuda (Monte Carlo only).", "cpu")
@output_option("simulate")
def command(
    loss_name: str, assignments: tuple[str, ...], output: Path, overwrite: bool, **options: Any
) -> None:
    """Simulate a component of a loss over distributions of angles.

    Anchor-positive angles are drawn around μ_pos (π/20 to π/2), anchor-negative angles around μ_neg
    (π/20 to π).
    """
    from gradlab.files import write_csv, write_json
    from gradlab.losses.base import Loss
    from gradlab.plotting.style import save
    from gradlab.settings import call_text
    from gradlab.simulation import simulate

    result = simulate(build_loss(loss_name, assignments), **options)
    changed = {
        field.name: call_text(value) if isinstance(value, Loss) else value
        for field in dataclasses.fields(result.loss)
        if (value := getattr(result.loss, field.name)) != field.default
    }
    words, unnamed = [result.loss.name, result.quantity], {"quantity", "engine"}
    if result.engine == "exact":
        unnamed |= {"batches", "seed", "device"}
    else:
        words.append(result.engine)
    changed |= {name: value for name, value in options.items() if name not in unnamed}
    base, manifest = output / file_name(words, changed), result.manifest()
    replaced = check_existing(base, WRITTEN, manifest, overwrite)
    save(result.plot()[0], Path(f"{base}.png"))
    write_csv(f"{base}.csv", result.columns())
    write_json(f"{base}.json", manifest)
    click.echo(repr(result))
    for suffix, content in WRITTEN.items():
        click.echo(f"{'Replaced' if replaced else 'Wrote'} {base}{suffix} ({content})")
