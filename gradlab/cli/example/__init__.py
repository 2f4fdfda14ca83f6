"""The command ``gradlab example``."""

from __future__ import annotations

import subprocess
import sys
from importlib import resources
from pathlib import Path

import click

from gradlab.cli.options import output_option
from gradlab.errors import GradlabError
from gradlab.progress_bars import waiting

FILES = {"pairs.csv": "pairs.csv", "train.py": "train.py.txt"}


@click.command()
@output_option("example")
def command(output: Path, overwrite: bool) -> None:
    """Make a small example to try watch, report and inspect on, without a model."""
    from gradlab.files import write_text

    existing = [name for name in FILES if (output / name).exists()]
    if existing and not overwrite:
        raise GradlabError(f"{output / existing[0]} exists; pass --overwrite or another --output")
    for name, source in FILES.items():
        text = (resources.files(__package__) / source).read_text(encoding="utf-8")
        write_text(output / name, text)
    with waiting("Training"):
        process = subprocess.run(
            [sys.executable, "train.py"], cwd=output, capture_output=True, text=True
        )
    if process.returncode:
        last_line = process.stderr.strip().splitlines()[-1]
        raise GradlabError(f"{output / 'train.py'} failed: {last_line}")
    click.echo(f"Wrote {output}: pairs.csv, train.py, run/, embeddings.npz. Now try:")
    table = f"--train-file {output / 'pairs.csv'} --column anchor --positive-column positive"
    click.echo(f"  gradlab report {output / 'run'}")
    click.echo(
        f"  gradlab inspect --embeddings {output / 'embeddings.npz'} {table} --batch-size 16 "
        f"--output {output / 'inspect'}"
    )
    click.echo(
        f"The second needs gradlab's extra [inspect]. Change {output / 'train.py'} to see what the "
        "report says then."
    )
