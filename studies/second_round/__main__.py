"""``python -m studies.second_round``."""

from __future__ import annotations

from pathlib import Path

import click

from gradlab.cli import OutputFolder, main, option
from gradlab.files import read_object
from studies import options
from studies.runs import RowFile
from studies.second_round import results, rounds
from studies.second_round.feature import graded_pairs, measure_features
from studies.second_round.interventions import intervene
from studies.second_round.prediction import FEATURES, points_of
from tests.gpu.machine import RATES

at_length = option(
    "--at-length",
    "The main runs at ten times the steps on a BERT-base, for a GPU: at_length.toml.",
    False,
)
EPILOG = """\b
Examples:
  python -m studies.second_round plan
  python -m studies.second_round run heads --output runs/second --workers 2 \\
      --model FOLDER_OF_A_SMALL_BERT --train-file SENTENCES --sts SentEval/data/downstream
  python -m studies.second_round collect heads --output runs/second
  python -m studies.second_round report
  python -m studies.second_round plan --at-length
  python -m studies.second_round run all --at-length --output runs/long --model bert-base-uncased \\
      --train-file wiki1m_for_simcse.txt --sts SentEval/data/downstream

The same `run` goes on where it was stopped, and leaves out the runs whose rows are committed; in
a second terminal it adds a worker.
"""


@options.group(EPILOG)
def command() -> None:
    """Train and judge what declaration.toml and papers.toml say, and nothing else."""


@command.command()
@at_length
@option("--gpu-check measured",
        "results.json of `python -m tests.gpu`, for the rates of that GPU.  [default: an A100's]",
        kind=click.Path(exists=True, dir_okay=False))  # fmt: skip
def plan(at_length: bool, measured: str | None) -> None:
    """List the declared parts: status, runs and steps.

    With --at-length, GPU minutes are listed too, and what they are reckoned from.
    """
    file = rounds.AT_LENGTH if at_length else None
    declared, rates, total = rounds.declaration(file), dict(RATES), 0.0
    cases = read_object(measured)["cases"] if measured else {}
    for name in rates:
        if f"rate/{name}" in cases:
            rates[name] = cases[f"rate/{name}"]["TFLOPS"] * 1e12
    for part, about in rounds.every_part(file).items():
        points = rounds.sweep_of(part, {"backbone": "bert-base"}, file).points({})
        runs = [point.settings for point in points for _ in point.seeds]
        steps, told = sum(int(settings["max_steps"]) for settings in runs), ""
        if at_length:
            seconds = sum(rounds.seconds_of(one, declared["estimate"], rates) for one in runs)
            total += seconds / 60
            told = f", {seconds / 60:5.0f} minutes"
        click.echo(
            f"{part:9} {about['status']:13} {len(runs):4} runs, {steps:6} steps{told}  "
            f"{about['question']}"
        )
    if at_length:
        assumed = ", ".join(f"{name} {value:g}" for name, value in declared["estimate"].items())
        click.echo(
            f"together {total:.0f} minutes of one GPU, by 6 operations a weight and token at 35% "
            f"of {rates[declared['base']['precision']] / 1e12:.0f} TFLOPS, with {assumed}"
        )


@command.command()
@click.argument("part")
@options.inputs
@option("--output", "Folder of the second round.", kind=OutputFolder(), required=True)
@option("--workers", "Runs side by side.", 1, click.IntRange(1))
@at_length
def run(
    part: str, model: str, train_file: Path, sts: Path, output: Path, workers: int, at_length: bool
) -> None:
    """Train what is left of PART, or of ``all`` parts."""
    changes = {"model": model, "train_file": str(train_file), "sts": str(sts)}
    file = rounds.AT_LENGTH if at_length else None
    for one in rounds.every_part(file) if part == "all" else [part]:
        done = rounds.run_part(one, output, changes, workers, file)
        click.echo(f"{done} runs of {one} are finished")


@command.command()
@click.argument("part")
@option("--output", "Folder of the second round.", kind=Path, required=True)
def collect(part: str, output: Path) -> None:
    """Add the finished runs of PART to its committed rows, figures/study/second_round/PART.csv."""
    rows = rounds.collect(part, output)
    click.echo(f"{rounds.ROWS / f'{part}.csv'} has {len(rows)} runs of {part}")


@command.command()
@click.argument("part")
@options.inputs
@option("--seed", "Of the runs.  [default: the first one of each condition]", kind=int)
def features(part: str, model: str, train_file: Path, sts: Path, seed: int | None) -> None:
    """Measure the feature of the prediction, and its rivals, for the runs of PART.

    PART is a declared part, or one of the first round: factorial, prediction, atlas. Rows go to
    features.csv beside the committed ones; what is there is not measured again.
    """
    given = {"model": model, "train_file": str(train_file), "sts": str(sts)}
    measure_features(points_of(part, given), part, RowFile(FEATURES), seed, graded_pairs(sts))


@command.command()
@options.inputs
@option("--seed seeds", "Of those declared.  [default: all]", kind=int, multiple=True)
def interventions(model: str, train_file: Path, sts: Path, seeds: tuple[int, ...]) -> None:
    """Take a few steps of many losses from the same encoders, as interventions.toml declares.

    Rows go to interventions.csv beside the committed ones; what is there is not made again.
    """
    intervene(model, train_file, sts, graded_pairs(sts), seeds=seeds)


@command.command()
def splits() -> None:
    """Repeat the response surface's errors over ten divisions into folds: surface-splits.csv."""
    click.echo(results.write_splits(rounds.ROWS))


@command.command()
def report() -> None:
    """Judge the contrasts of all parts from the committed rows, as one family, and draw them."""
    for line in results.write_results():
        click.echo(line)


if __name__ == "__main__":
    main(command)
