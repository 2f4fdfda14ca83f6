"""The command ``gradlab simulate``."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import click

from gradlab.cli.options import (
    build_loss,
    check_existing,
    hyperparameters_option,
    loss_option,
    mirrored,
    output_option,
)
from gradlab.simulation import simulate

WRITTEN = {".png": "heatmap", ".csv": "numbers", ".json": "settings"}


@click.command()
@loss_option(required=True)
@hyperparameters_option
@mirrored(
    simulate,
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
    from gradlab.plotting.style import save

    result = simulate(build_loss(loss_name, assignments), **options)
    base, manifest = output / _file_name(result, options), result.manifest()
    replaced = check_existing(base, WRITTEN, manifest, overwrite)
    save(result.plot()[0], Path(f"{base}.png"))
    write_csv(f"{base}.csv", result.columns())
    write_json(f"{base}.json", manifest)
    click.echo(_summary(result))
    for suffix, what in WRITTEN.items():
        click.echo(f"{'Replaced' if replaced else 'Wrote'} {base}{suffix} ({what})")


def _file_name(result: Any, options: dict[str, Any]) -> str:
    """Return a file name of loss, quantity, and the settings that differ from their defaults."""
    from gradlab.losses.base import Loss
    from gradlab.settings import call_text

    changed = {
        field.name: call_text(value) if isinstance(value, Loss) else value
        for field in dataclasses.fields(result.loss)
        if (value := getattr(result.loss, field.name)) != field.default
    }
    exact = result.engine == "exact"
    ignored = {"quantity", "engine", *(("batches", "seed", "device") if exact else ())}
    defaults = {one.name: one.default for one in command.params if one.name not in ignored}
    changed |= {
        name: options[name]
        for name in defaults
        if options.get(name, defaults[name]) != defaults[name]
    }
    parts = [_short(result.loss.name), result.quantity, *([] if exact else [result.engine])]
    return "_".join([*parts, *(f"{name}-{_short(value)}" for name, value in changed.items())])


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.12g}"
    return re.sub(r"[^\w.=+-]+", "-", str(value)).rstrip("-")


def _summary(result: Any) -> str:
    import numpy as np

    value = result.value
    title = (
        f"{result.loss}: {result.quantity.replace('_', ' ')}, "
        f"{result.engine.replace('_', ' ')} engine"
    )
    finite = value[np.isfinite(value)]
    of_shares = result.quantity == "hardest_share"
    if finite.size == 0:
        why = (
            "no batch has a gradient dissipation of 0.01 or more"
            if of_shares
            else "it is not finite"
        )
        return f"{title}\n  {why} anywhere on this grid"
    what = "empty" if of_shares else "not finite"
    empty = f" ({value.size - finite.size} cells {what})" if finite.size < value.size else ""
    size = f"{value.shape[0]} x {value.shape[1]} mean angles{empty}"
    lines = [title, f"  from {finite.min():.4g} to {finite.max():.4g} over {size}"]
    middle = int(np.argmin(abs(result.mu_pos - np.pi / 6)))
    row = value[middle]
    above = np.flatnonzero(row >= 0.5)
    if result.quantity == "gradient_dissipation" and len(above) and above[-1] + 1 < len(row):
        crossing = result.mu_neg[above[-1] + 1]
        lines.append(
            f"  at μ_pos = {result.mu_pos[middle] / np.pi:.3f}π it falls below 1/2 "
            f"from μ_neg = {crossing / np.pi:.3f}π on"
        )
    if result.standard_error is not None:
        lines.append(f"  largest standard error {np.nanmax(result.standard_error):.2g}")
    return "\n".join(lines)
