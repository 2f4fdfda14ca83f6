"""The command ``gradlab report``."""

from __future__ import annotations

import functools
from pathlib import Path

import click

from gradlab.cli.exit_code import end_with, fail_option, json_option, print_json, worst
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
@json_option
@fail_option("never")
def command(
    runs: tuple[Path, ...], output: Path | None, follow: bool, as_json: bool, fail_on: str
) -> None:
    """Write the report of training runs, as one HTML page."""
    from gradlab.monitor.run_reader import read_recordings
    from gradlab.monitor.verdicts import judge_run
    from gradlab.report import follow_run, write_report
    from gradlab.report.run_page import score_line

    if follow:
        if len(runs) > 1:
            raise GradlabError("--follow takes one run")
        follow_run(runs[0], output, say=functools.partial(click.echo, err=as_json))
    path = write_report(runs, output)
    recordings = read_recordings(runs)
    judgements = [judge_run(run) for run in recordings]
    grade = worst(judgement.grade for judgement in judgements)
    if as_json:
        reports = [
            {
                "name": run.name,
                "folder": str(run.folder),
                "status": run.status,
                "grade": judgement.grade,
                "headline": judgement.headline,
                "verdicts": [verdict.to_dict() for verdict in judgement.verdicts],
            }
            for run, judgement in zip(recordings, judgements, strict=True)
        ]
        print_json(grade, {"page": str(path), "runs": reports})
        return end_with(grade, fail_on)
    for run, judgement in zip(recordings, judgements, strict=True):
        name = f"{run.name}: " if len(recordings) > 1 else ""
        if scores := score_line(run):
            click.echo(f"{name}{scores}")
        if run.damage:
            click.echo(f"{name}{run.damage}")
        click.echo(f"{name}{judgement.headline}")
        for verdict in judgement.verdicts:
            line = f"{verdict.title}: {verdict.finding} {verdict.change}".strip()
            if verdict.is_problem and not judgement.headline.startswith(line):
                click.echo(f"{name}{line}")
    click.echo(f"Wrote {path}")
    end_with(grade, fail_on)
