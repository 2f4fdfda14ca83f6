"""``python -m studies.evidence``: the first round's measurements, rows of trainings, and report."""

from __future__ import annotations

import itertools
from pathlib import Path

import click
import pandas as pd

from gradlab import GradlabError
from gradlab.cli import main, option
from gradlab.data import read_sentences
from gradlab.files import write_csv
from gradlab.settings import read_assignments
from gradlab.sweep import parse_value
from studies import options
from studies.evidence import analysis
from studies.evidence.collect import collect_sweep
from studies.evidence.features import measure_first_steps
from studies.evidence.report import write_report
from studies.evidence.step_size import LOSSES, measure_steps
from studies.evidence.untrained import score_untrained
from studies.manifest import write_manifest
from studies.runs import write_rows, write_table

EPILOG = """\b
Examples:
  python -m studies.evidence collect SPEC.toml FOLDER   # rows of the finished runs of a sweep
  python -m studies.evidence first-steps --set model=MODEL --set train_file=SENTENCES
  python -m studies.evidence step-size --model MODEL --train-file SENTENCES
  python -m studies.evidence report                     # tables, figures and verdicts
"""


@options.group(EPILOG)
def command() -> None:
    """What each component does.

    Trainings of the encoder are sweeps: gradlab sweep studies/sweeps/evidence/PART.toml.
    """


_folder = option("--folder", "Folder of the committed rows.", "figures/study/evidence", Path)
_output = option("--output", "Folder of the committed rows.", "figures/study/evidence", Path)


@command.command()
@click.argument("spec", metavar="SPEC.toml", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@option("--commit", "What it was trained from, where its runs do not say.", "")
@_output
def collect(spec: Path, folder: Path, commit: str, output: Path) -> None:
    """Copy the rows of finished runs from FOLDER, of a sweep, to where they are committed."""
    for path in collect_sweep(spec.stem, folder, output, commit):
        click.echo(f"Wrote {path}")


@command.command("step-size")
@options.model
@options.train_file
@option("--losses", "Names, separated by commas.", ",".join(LOSSES))
@option("--seeds", "Trainings of each loss.", 1)
@_output
def step_size(model: str, train_file: Path, losses: str, seeds: int, output: Path) -> None:
    """Measure by which angle a training step turns an anchor, and the lambda of Lemma 1 from it."""
    names = [name.strip() for name in losses.split(",")]
    sentences = list(read_sentences(train_file))
    rows = list(measure_steps(model, sentences, names, seeds=range(1, seeds + 1)))
    manifest = output / "encoder-steps-manifest.json"
    write_manifest(manifest, model, train_file, {"losses": names, "seeds": seeds})
    click.echo(f"Wrote {write_rows(output / 'encoder-steps.csv', rows)}")


@command.command("first-steps")
@option("--set assignments", "As the sweeps are given.", metavar="NAME=VALUE", multiple=True)
@option("--sweeps", "Folder of the specifications.", "studies/sweeps/evidence", Path)
@option("--seeds", "Trainings of each loss.", 1)
@_output
def first_steps(assignments: tuple[str, ...], sweeps: Path, seeds: int, output: Path) -> None:
    """Measure the features of the prediction in steps 0 to 10 of trainings of the encoder.

    Finished rows are kept.
    """
    given = read_assignments(assignments)
    changes = {name: parse_value(name, text) for name, text in given.items()}
    click.echo(f"Wrote {measure_first_steps(sweeps, output, changes, seeds)}")


@command.command()
@options.inputs
@option("--sentences", "Sentences that the whitening is fitted on.", 16384)
@_output
def untrained(model: str, train_file: Path, sts: Path, sentences: int, output: Path) -> None:
    """Score the encoder as it is, and whitened."""
    lines = list(itertools.islice(read_sentences(train_file), sentences))
    table = pd.DataFrame(score_untrained(model, lines, sts))
    click.echo(f"Wrote {write_table(output / 'untrained.csv', table)}")


@command.command()
@_folder
def report(folder: Path) -> None:
    """Analyse the collected rows: tables, pictures and report.md in the same folder."""
    click.echo(f"Wrote {write_report(folder)}")


@command.command()
@click.argument("regime", type=click.Choice(analysis.REGIMES))
@_folder
def predict(regime: str, folder: Path) -> None:
    """Add to REGIME-predictions.csv losses not yet trained, from the factorial and first steps."""
    rows = analysis.read_frames(folder)
    needed = [f"{regime}-factorial", f"{regime}-features"]
    for name in needed:
        if name not in rows:
            raise GradlabError(
                f"{str(folder)!r} has no {name}.csv, from which scores are predicted"
            )
    before = analysis.read_predictions(folder).get(regime)
    trained, features = (rows[name] for name in needed)
    table = analysis.predict(trained, features, before)
    click.echo(f"Wrote {write_csv(folder / f'{regime}-predictions.csv', dict(table))}")


if __name__ == "__main__":
    main(command)
