"""The command ``gradlab sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradlab.cli.exit_code import end_with, fail_option, json_option, print_json, worst
from gradlab.cli.options import option
from gradlab.errors import GradlabError, counted
from gradlab.settings import read_assignments
from gradlab.verdict import BAD, GOOD, NOT_JUDGED, WATCH, Grade

if TYPE_CHECKING:
    from gradlab.sweep import Run, Spec


@click.command()
@click.argument("file", metavar="SPEC.toml", type=click.Path(path_type=Path))
@option("--light", "The small version that the file has for 2 CPU cores.", False)
@option(
    "--base assignments",
    "A setting for all runs that overrides the file's [base], such as where model and data lie; "
    "repeatable.",
    metavar="NAME=VALUE",
    multiple=True,
)
@option("--output", "Folder of the sweep.  [default: runs/NAME]", kind=Path)
@option("--plan", "List the points, and run nothing.", False)
@option(
    "--estimate",
    "Print what is left to do, and how long it will take on this device, and stop.",
    False,
)
@option("--status", "Show what is finished, running, waiting and failed, and run nothing.", False)
@json_option
@fail_option(
    None,
    " A failed run is bad, a diverged one is to watch, and one that has not ended is not judged.  "
    "[default: bad; with --status never]",
)
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
    estimate: bool,
    status: bool,
    no_wait: bool,
    as_json: bool,
    fail_on: str | None,
    **options: Any,
) -> None:
    """Train over grids and seeds of any settings, with any number of workers; compare results."""
    from gradlab.sweep import (
        check_data,
        estimate_cost,
        known_runs,
        parse_value,
        read_spec,
        run_sweep,
    )
    from gradlab.sweep.launch import open_trials

    if as_json and not status:
        raise GradlabError("--json prints what --status knows; give both")
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
        _print_status(spec, runs, as_json)
        end_with(_grade(runs), fail_on or "never")
    elif estimate:
        check_data(spec)
        click.echo(estimate_cost(known_runs(spec, folder, storage), options["workers"]).text())
    else:
        from gradlab.train.progress import say

        runs = run_sweep(spec, folder, say, wait=not no_wait, **options)
        _print_results(spec, runs, folder)
        end_with(_grade(runs), fail_on or "bad")


def _print_status(spec: Spec, runs: list[Run], as_json: bool) -> None:
    """Print the table of points so far, and the states of the runs."""
    from gradlab.sweep.table import as_text, summarise

    if as_json:
        print_json(_grade(runs), _status_of(spec, runs))
    else:
        click.echo(f"{as_text(spec, summarise(spec, runs))}\n\n{_status(runs)}")


def _print_results(spec: Spec, runs: list[Run], folder: Path) -> None:
    """Print the table of points, how many runs failed, and which files were written."""
    from gradlab.sweep import FAILED
    from gradlab.sweep.table import as_text, summarise

    click.echo(as_text(spec, summarise(spec, runs)))
    if failed := sum(run.state == FAILED for run in runs):
        click.echo(f"{counted(failed, 'run')} failed; --status says why, --retry-failed runs anew")
    for name in ("results.csv", "runs.csv"):
        click.echo(f"Wrote {folder / name}")


def _plan(spec: Spec) -> str:
    points = spec.points({})
    lines = [spec.about.strip()] if spec.about else []
    lines += [
        f"{f'stage {point.stage}: ' if point.stage else ''}{point.title()}" for point in points
    ]
    runs = len({key for point in points for key in point.runs.values()})
    seeds = len({seed for point in points for seed in point.seeds})
    later = " by now; later stages begin from the best of these" if len(spec.stages) > 1 else ""
    return "\n".join(
        [
            *lines,
            ", ".join([counted(len(points), "point"), counted(seeds, "seed"), counted(runs, "run")])
            + later,
        ]
    )


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


def _grade(runs: list[Run]) -> Grade:
    """Return the worst grade of the runs, by their states."""
    from gradlab.sweep.trials import DIVERGED, FAILED, FINISHED

    grades: dict[str, Grade] = {FAILED: BAD, DIVERGED: WATCH, FINISHED: GOOD}
    return worst(grades.get(run.state, NOT_JUDGED) for run in runs)


def _status_of(spec: Spec, runs: list[Run]) -> dict[str, Any]:
    """Return the table of points, and the state of each run, as plain values for JSON."""
    from gradlab.sweep.table import STATES, summarise

    return {
        "name": spec.name,
        "counts": {state: sum(run.state == state for run in runs) for state in STATES},
        "points": summarise(spec, runs).to_dict("records"),
        "runs": [
            {
                "title": run.title(),
                "key": run.key,
                "state": run.state,
                "worker": run.worker,
                "value": run.value,
                "error": run.error,
            }
            for run in runs
        ],
    }
