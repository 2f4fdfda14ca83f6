"""``gradlab report``."""

from __future__ import annotations

from pathlib import Path

import click

EPILOG = """\b
Examples:
  gradlab report runs/first
  gradlab report runs/first runs/second runs/third
  gradlab report sweeps/temperatures
  gradlab report output-of-a-watched-trainer --output first.html

RUN is the folder of a run of `gradlab train`, the output folder of a trainer that gradlab.watch watched, a metrics
file, or a folder with several runs, such as that of a sweep. The page of one run holds its scores, verdicts in words,
curves, histograms and the settings; that of several runs their scores with the settings that differ, and their curves
over each other. It needs no network.
"""


@click.command(epilog=EPILOG)
@click.argument("runs", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="The page.  [default: report.html in the run's folder, or in the one that holds the runs]",
)
def command(runs: tuple[Path, ...], output: Path | None) -> None:
    """Write the report of training runs, as one HTML page."""
    from gradlab.monitor.recording import read_recordings
    from gradlab.report import write_report
    from gradlab.report.page import headline

    path = write_report(runs, output)
    found = read_recordings(runs)
    for run in found:
        name = f"{run.name}: " if len(found) > 1 else ""
        if scores := headline(run):
            click.echo(f"{name}{scores}")
        for finding in run.findings:
            click.echo(f"{name}{finding.headline} {finding.advice}")
    click.echo(f"Wrote {path}")
