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
    mirrored,
    output_option,
)

WRITTEN = {".png": "heatmap", ".csv": "numbers", ".json": "settings"}


@click.command()
@loss_option(required=True)
@hyperparameters_option
@mirrored(
    "simulation.grid:simulate",
    *("quantity", "engine", "grid", "sigma_pos", "sigma_neg", "negatives"),
    *("own_negatives", "mu_own", "sigma_own", "batches", "seed", "device"),
)
@output_option("figures")
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
    for suffix, what in WRITTEN.items():
        click.echo(f"{'Replaced' if replaced else 'Wrote'} {base}{suffix} ({what})")
