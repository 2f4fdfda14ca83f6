"""``python -m studies.evidence``: the first round's measurements, rows of trainings, and report."""

from __future__ import annotations

import itertools
from pathlib import Path

import click

from gradlab import GradlabError
from gradlab.cli import CommandGroup, main, option
from gradlab.files import write_csv
from gradlab.settings import read_assignments
from gradlab.sweep import parse_value
from gradlab.train import read_sentences
from studies.evidence import analysis
from studies.evidence.collect import collect_open_shares, collect_sweep
from studies.evidence.first_steps import measure_first_steps
from studies.evidence.report import write_report
from studies.evidence.step_size import LOSSES, measure_steps
from studies.evidence.untrained import score_untrained
from studies.manifest import write_manifest
from studies.runs import write_rows
from studies.statistics import six

EPILOG = """\b
Examples:
  python -m studies.evidence collect SPEC.toml FOLDER   # rows of the finished runs of a sweep
  python -m studies.evidence first-steps --set model=MODEL --set train_file=SENTENCES
  python -m studies.evidence step-size --model MODEL --train-file SENTENCES
  python -m studies.evidence report                     # tables, figures and verdicts
"""


@click.group(
    cls=CommandGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]}
)
def command() -> None:
    """What each component does.

    Trainings of the encoder are sweeps: gradlab sweep studies/sweeps/evidence/PART.toml.
    """


_model = option("--model", "Encoder: a folder or a hub name.", required=True)
_sentences = option("--train-file", "Sentences, one a line.", kind=Path, required=True)
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
@_model
@_sentences
@option("--losses", "Names, separated by commas.", ",".join(LOSSES))
@option("--seeds", "Trainings of each loss.", 1)
@_output
def step_size(model: str, train_file: Path, losses: str, seeds: int, output: Path) -> None:
    """Measure the angle by which a training step turns an anchor, and the lambda of Lemma 1.

    Lambda follows from the angle.
    """
    names = [name.strip() for name in losses.split(",")]
    rows = list(
        measure_steps(model, list(read_sentences(train_file)), names, seeds=range(1, seeds + 1))
    )
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
    changes = {
        name: parse_value(name, text) for name, text in read_assignments(assignments).items()
    }
    click.echo(f"Wrote {measure_first_steps(sweeps, output, changes, seeds)}")


@command.command()
@_model
@_sentences
@option("--sts", "SentEval's data/downstream.", required=True)
@option("--sentences", "Sentences that the whitening is fitted on.", 16384)
@_output
def untrained(model: str, train_file: Path, sts: str, sentences: int, output: Path) -> None:
    """Score the encoder as it is, and whitened."""
    lines = list(itertools.islice(read_sentences(train_file), sentences))
    rows = [
        {name: six(value) for name, value in row.items()}
        for row in score_untrained(model, lines, sts)
    ]
    click.echo(f"Wrote {write_rows(output / 'untrained.csv', rows)}")


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
    for needed in ("factorial", "features"):
        if f"{regime}-{needed}" not in rows:
            raise GradlabError(
                f"{str(folder)!r} has no {regime}-{needed}.csv, from which scores are predicted"
            )
    trained, features = rows[f"{regime}-factorial"], rows[f"{regime}-features"]
    table = analysis.predict(trained, features, analysis.read_predictions(folder).get(regime))
    click.echo(f"Wrote {write_csv(folder / f'{regime}-predictions.csv', dict(table))}")


@command.command("open-shares")
@click.argument("sweep", type=click.Path(path_type=Path))
@option("--output", "", "open-shares.csv", Path)
def open_shares(sweep: Path, output: Path) -> None:
    """Write the open share of each step of the gated runs in the sweep's folder SWEEP.

    The file is for dissipation-controls.toml.
    """
    click.echo(f"Wrote {collect_open_shares(sweep, output)}")


if __name__ == "__main__":
    main(command)
