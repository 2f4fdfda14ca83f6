"""The command ``gradlab report``."""

from __future__ import annotations

from pathlib import Path

import click

from gradlab.cli.options import option
from gradlab.errors import GradlabError


@click.command()
@click.argument("runs", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="RUN...")
@option(
    "--output",
    "The page; a name that ends in .md makes it Markdown.  [default: report.html in the run's "
    "folder, or in the one that holds the runs]",
    kind=Path,
)
@option("--follow", "Write the page of one run again with each record, until the run ends.", False)
def command(runs: tuple[Path, ...], output: Path | None, follow: bool) -> None:
    """Write the report of training runs, as one HTML page."""
    from gradlab.monitor.run_reader import read_recordings
    from gradlab.monitor.verdicts import judge_run
    from gradlab.report import follow_run, write_report
    from gradlab.report.run_page import headline

    if follow:
        if len(runs) > 1:
            raise GradlabError("--follow takes one run")
        follow_run(runs[0], output, say=click.echo)
    path = write_report(runs, output)
    recordings = read_recordings(runs)
    for run in recordings:
        name = f"{run.name}: " if len(recordings) > 1 else ""
        if scores := headline(run):
            click.echo(f"{name}{scores}")
        if run.damage:
            click.echo(f"{name}{run.damage}")
        judgement = judge_run(run)
        click.echo(f"{name}{judgement.headline}")
        for verdict in judgement.verdicts:
            if verdict.is_problem:
                click.echo(f"{name}{verdict.title}: {verdict.finding} {verdict.change}")
    click.echo(f"Wrote {path}")
