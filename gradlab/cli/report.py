"""``gradlab report``."""

from __future__ import annotations

from pathlib import Path

import click

EPILOG = """\b
Examples:
  gradlab report runs/first
  gradlab report output-of-a-watched-trainer --output first.html

RUN is the folder of a run of `gradlab train`, the output folder of a trainer that gradlab.watch watched, or a metrics
file. The page holds verdicts in words, curves, histograms and the settings; it needs no network.
"""


@click.command(epilog=EPILOG)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--output", type=click.Path(path_type=Path), help="The page.  [default: report.html in the run's folder]"
)
def command(run: Path, output: Path | None) -> None:
    """Write the report of a training run, as one HTML page."""
    from gradlab.monitor.recording import read_recording
    from gradlab.report import write_report

    path = write_report(run, output)
    for finding in read_recording(run).findings:
        click.echo(f"{finding.headline} {finding.advice}")
    click.echo(f"Wrote {path}")
