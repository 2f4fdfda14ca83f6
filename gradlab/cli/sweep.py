"""``gradlab sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradlab.settings import read_assignments

if TYPE_CHECKING:
    from gradlab.sweep.spec import Spec
    from gradlab.sweep.trials import Run

EPILOG = """\b
Examples:
  gradlab sweep studies/sweeps/mocose-table-3.toml --plan
  gradlab sweep studies/sweeps/mocose-table-3.toml --light --workers 2 \\
      --set model=bert-small --set train_file=sentences.txt --set sts=SentEval/data/downstream
  gradlab sweep studies/sweeps/mocose-table-3.toml --dry-run
  gradlab sweep studies/sweeps/mocose-table-3.toml --status
  gradlab sweep studies/sweeps/mocose-table-3.toml --retry-failed
  gradlab sweep sweep.toml --storage postgresql+psycopg://user:password@host/sweeps

\b
A sweep is a file:
  name = "temperatures"
  seeds = [1, 2, 3]
  [base]                        # settings of gradlab train, for all runs
  model = "bert-base-uncased"
  train_file = "sentences.txt"
  sts = "SentEval/data/downstream"
  [grid]                        # every combination
  loss_settings.temperature = [0.03, 0.05, 0.1]

Any command may be interrupted and given again: finished runs are kept, others continue from their checkpoints. The same
command in another terminal, or on another machine with --storage, adds a worker.
"""


@click.command(epilog=EPILOG)
@click.argument("file", metavar="SPEC.toml", type=click.Path(path_type=Path))
@click.option("--light", is_flag=True, help="The small version that the file has for 2 CPU cores.")
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True,
              help="A setting for all runs, before the file's: where model and data lie, for example; repeatable.")  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path), help="Folder of the sweep.  [default: runs/NAME]")
@click.option("--storage", metavar="URL", help="Database that workers share: SQLite, PostgreSQL or MySQL, as a SQLAlchemy URL.  "
              "[default: study.db in the folder]")  # fmt: skip
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True,
              help="Processes to start here; on several GPUs each gets one.")  # fmt: skip
@click.option("--plan", is_flag=True, help="List the points, and run nothing.")
@click.option("--dry-run", is_flag=True, help="Print what is left to do and how long it will take, measured on this device, and stop.")  # fmt: skip
@click.option("--status", is_flag=True, help="Show what is finished, running, waiting and failed, and run nothing.")  # fmt: skip
@click.option("--retry-failed", is_flag=True, help="Run anew what has failed.")
@click.option(
    "--no-wait", is_flag=True, help="End when nothing is left to claim, even while others still run."
)
@click.option("--heartbeat", type=click.IntRange(1), default=30, show_default=True, metavar="SECONDS",
              help="Between a worker's signs of life; silent for four times as long, it loses its run to others.")  # fmt: skip
def command(
    file: Path,
    light: bool,
    assignments: tuple[str, ...],
    output: Path | None,
    storage: str | None,
    workers: int,
    plan: bool,
    dry_run: bool,
    status: bool,
    retry_failed: bool,
    no_wait: bool,
    heartbeat: int,
) -> None:
    """Train over grids and seeds of any settings, with any number of workers, and compare the results."""
    from gradlab.sweep.settings import parse_value
    from gradlab.sweep.spec import read_spec

    given = {name: parse_value(name, text) for name, text in read_assignments(assignments).items()}
    spec = read_spec(file, light).with_base(given)
    spec.check()
    if plan:
        _show_plan(spec)
        return

    from gradlab.sweep.launch import known_runs, open_trials, run_sweep

    folder = output or Path("runs") / spec.name
    if status:
        _show_status(spec, open_trials(spec, folder, storage).runs())
        return
    if dry_run:
        from gradlab.sweep.budget import estimate_cost

        click.echo(estimate_cost(known_runs(spec, folder, storage), workers).text())
        return
    from gradlab.train.progress import say

    runs = run_sweep(
        spec, folder, say, workers=workers, storage=storage, heartbeat=heartbeat, retry_failed=retry_failed,
        wait=not no_wait,
    )  # fmt: skip
    _show_results(spec, runs, folder)


def _show_plan(spec: Spec) -> None:
    points = spec.points({})
    if spec.about:
        click.echo(spec.about.strip())
    for point in points:
        stage = f"stage {point.stage}: " if point.stage else ""
        click.echo(f"{stage}{point.title()}")
    runs = len({key for point in points for key in point.runs.values()})
    seeds = len({seed for point in points for seed in point.seeds})
    later = " by now; later stages begin from the best of these" if len(spec.stages) > 1 else ""
    click.echo(f"{len(points)} points, {seeds} seeds, {runs} runs{later}")


def _show_status(spec: Spec, runs: list[Run]) -> None:
    from gradlab.sweep.table import STATES, as_text, summarise
    from gradlab.sweep.trials import DIVERGED, FAILED, RUNNING

    click.echo(as_text(spec, summarise(spec, runs)))
    counts = ", ".join(f"{sum(run.state == state for run in runs)} {state}" for state in STATES)
    click.echo(f"\n{len(runs)} runs: {counts}")
    for run in runs:
        if run.state in (RUNNING, FAILED, DIVERGED):
            why = f": {run.error}" if run.error else ""
            click.echo(f"{run.state.capitalize()} on {run.worker}: {run.title()}{why}")


def _show_results(spec: Spec, runs: list[Run], folder: Path) -> None:
    from gradlab.sweep.table import as_text, summarise
    from gradlab.sweep.trials import FAILED

    click.echo(as_text(spec, summarise(spec, runs)))
    failed = sum(run.state == FAILED for run in runs)
    if failed:
        click.echo(f"{failed} runs failed; --status says why, --retry-failed runs them anew")
    for name in ("results.csv", "runs.csv"):
        click.echo(f"Wrote {folder / name}")
