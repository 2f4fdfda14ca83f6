"""``gradlab simulate``."""

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

    Anchor-positive angles are drawn around μ_pos (π/20 to π/2), anchor-negative angles around μ_neg (π/20 to π).
    """
    from gradlab.files import write_csv, write_json
    from gradlab.plotting.heatmap import heatmap
    from gradlab.plotting.style import save

    loss = build_loss(loss_name, assignments)
    result = simulate(loss, **options)
    base = output / _file_name(result, options)
    manifest = result.manifest()
    replaced = check_existing(base, (".png", ".csv", ".json"), manifest, overwrite)
    figure, _ = heatmap(result)
    save(figure, base.with_name(base.name + ".png"))
    write_csv(base.with_name(base.name + ".csv"), result.columns())
    write_json(base.with_name(base.name + ".json"), manifest)

    click.echo(_summary(result))
    verb = "Replaced" if replaced else "Wrote"
    for suffix, what in ((".png", "heatmap"), (".csv", "numbers"), (".json", "settings")):
        click.echo(f"{verb} {base}{suffix} ({what})")


def _file_name(result: Any, options: dict[str, Any]) -> str:
    """Loss and quantity, then whatever differs from the defaults."""
    from gradlab.losses.base import Loss
    from gradlab.settings import call_text

    parts = [_short(result.loss.name), result.quantity]
    changed = {
        field.name: call_text(value) if isinstance(value, Loss) else value
        for field in dataclasses.fields(result.loss)
        if (value := getattr(result.loss, field.name)) != field.default
    }
    ignored = {"loss_name", "quantity", "engine"}
    if result.engine == "exact":
        ignored |= {"batches", "seed", "device"}
    else:
        parts.append(result.engine)
    for parameter in command.params:
        name = parameter.name or ""
        if name in options and name not in ignored and options[name] != parameter.default:
            changed[name] = options[name]
    return "_".join([*parts, *(f"{name}-{_short(value)}" for name, value in changed.items())])


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.12g}"
    return re.sub(r"[^\w.=+-]+", "-", str(value)).rstrip("-")


def _summary(result: Any) -> str:
    import numpy as np

    value = result.value
    lines = [f"{result.loss}: {result.quantity.replace('_', ' ')}, {result.engine.replace('_', ' ')} engine"]
    finite = value[np.isfinite(value)]
    if finite.size == 0:
        return f"{lines[0]}\n  no batch has a gradient dissipation of 0.01 or more anywhere on this grid"
    middle = int(np.argmin(abs(result.mu_pos - np.pi / 6)))
    lines.append(
        f"  from {finite.min():.4g} to {finite.max():.4g} over {value.shape[0]} x {value.shape[1]} mean angles"
        + (f" ({value.size - finite.size} cells empty)" if finite.size < value.size else "")
    )
    row = value[middle]
    if result.quantity == "gradient_dissipation" and row.max() > 0.5 > row.min():
        crossing = result.mu_neg[int(np.argmax(row < 0.5))]
        lines.append(
            f"  at μ_pos = {result.mu_pos[middle] / np.pi:.3f}π it falls below 1/2 from μ_neg = {crossing / np.pi:.3f}π on"
        )
    if result.standard_error is not None:
        lines.append(f"  largest standard error {np.nanmax(result.standard_error):.2g}")
    return "\n".join(lines)
