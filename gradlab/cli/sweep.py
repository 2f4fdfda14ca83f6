"""The command ``gradlab sweep``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradlab.cli.options import option, set_option
from gradlab.settings import read_assignments

if TYPE_CHECKING:
    from gradlab.sweep import Run, Spec


@click.command()
@click.argument("file", metavar="SPEC.toml", type=click.Path(path_type=Path))
@option("--light", "The small version that the file has for 2 CPU cores.", False)
@set_option(
    "A setting for all runs that overrides the file, such as where model and data lie; repeatable."
)
@option("--output", "Folder of the sweep.  [default: runs/NAME]", kind=Path)
@option("--plan", "List the points, and run nothing.", False)
@option(
    "--dry-run",
    "Print what is left to do, and how long it will take on this device, and stop.",
    False,
)
@option("--status", "Show what is finished, running, waiting and failed, and run nothing.", False)
@option("--no-wait", "End when no run is left to start, even while other workers still run.", False)
@option(
    "--workers",
    "Worker processes to start on this machine; with 1, this process does the work.",
    1,
    click.IntRange(1),
)
@option("--storage", "The database that workers share.  [default: a file in the folder]")
@option("--heartbeat", "Seconds between a worker's signs of life.", 30, click.IntRange(1))
@option("--retry-failed", "Repeat failed runs from the beginning.", False)
def command(
    file: Path,
    light: bool,
    assignments: tuple[str, ...],
    output: Path | None,
    plan: bool,
    dry_run: bool,
    status: bool,
    no_wait: bool,
    **options: Any,
) -> None:
    """Train over grids and seeds of any settings, with any number of workers; compare results."""
    from gradlab.sweep import (
        FAILED,
        check_data,
        estimate_cost,
        known_runs,
        parse_value,
        read_spec,
        run_sweep,
    )
    from gradlab.sweep.launch import open_trials
    from gradlab.sweep.table import as_text, summarise

    base_settings = {
        name: parse_value(name, text) for name, text in read_assignments(assignments).items()
    }
    spec = read_spec(file, light).with_base(base_settings)
    spec.check()
    folder, storage = output or Path("runs") / spec.name, options["storage"]
    if plan:
        click.echo(_plan(spec))
    elif status:
        runs = open_trials(spec, folder, storage).runs()
        click.echo(f"{as_text(spec, summarise(spec, runs))}\n\n{_status(runs)}")
    elif dry_run:
        check_data(spec)
        click.echo(estimate_cost(known_runs(spec, folder, storage), options["workers"]).text())
    else:
        from gradlab.train.progress import say

        runs = run_sweep(spec, folder, say, wait=not no_wait, **options)
        click.echo(as_text(spec, summarise(spec, runs)))
        if failed := sum(run.state == FAILED for run in runs):
            click.echo(f"{failed} runs failed; --status says why, --retry-failed runs them anew")
        for name in ("results.csv", "runs.csv"):
            click.echo(f"Wrote {folder / name}")
        if failed:
            sys.exit(1)


def _plan(spec: Spec) -> str:
    points = spec.points({})
    lines = [spec.about.strip()] if spec.about else []
    lines += [
        f"{f'stage {point.stage}: ' if point.stage else ''}{point.title()}" for point in points
    ]
    runs = len({key for point in points for key in point.runs.values()})
    seeds = len({seed for point in points for seed in point.seeds})
    later = " by now; later stages begin from the best of these" if len(spec.stages) > 1 else ""
    return "\n".join([*lines, f"{len(points)} points, {seeds} seeds, {runs} runs{later}"])


def _status(runs: list[Run]) -> str:
    from gradlab.sweep.table import STATES
    from gradlab.sweep.trials import DIVERGED, FAILED, RUNNING

    counts = ", ".join(f"{sum(run.state == state for run in runs)} {state}" for state in STATES)
    lines = [f"{len(runs)} runs: {counts}"]
    for run in runs:
        if run.state in (RUNNING, FAILED, DIVERGED):
            why = f": {run.error}" if run.error else ""
            lines.append(f"{run.state.capitalize()} on {run.worker}: {run.title()}{why}")
    return "\n".join(lines)
