"""The command ``gradlab gpu-check``."""

from __future__ import annotations

import sys
from typing import Any

import click

from gradlab.cli.options import mirrored, option


@click.command()
@option("--part parts", "A part to run; repeatable. Default: all.", multiple=True, metavar="NAME")
@mirrored("gpu_check.running:gpu_check", "output", "device", "model", "train_file")
@option("--plan only_plan", "Say how long each part is expected to take, and stop.", False)
def command(
    parts: tuple[str, ...], output: str, device: str, only_plan: bool, **options: Any
) -> None:
    """Check gradlab on an NVIDIA GPU, and measure how fast it is there."""
    import torch

    from gradlab.gpu_check import failed, gpu_check, plan

    if only_plan:
        click.echo(plan(parts))
        return
    if device.startswith("cuda") and not torch.cuda.is_available():
        click.echo(
            f"No GPU: torch {torch.__version__} finds no CUDA device, so nothing was checked."
        )
        return
    results = gpu_check(output, parts, device=device, **options)
    wrong = failed(results)
    click.echo(f"{len(results['cases'])} cases, {len(wrong)} failed; see {output}/page.md")
    for name in wrong:
        found = results["cases"][name]
        why = found.get("note") or f"error {found['error']}, tolerance {found['tolerance']}"
        click.echo(f"  {name}: {why}")
    if wrong:
        sys.exit(1)
