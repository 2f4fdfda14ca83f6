"""``python -m studies.second_round``."""

from __future__ import annotations

from pathlib import Path

import click

from gradlab.cli import CommandGroup, OutputFolder, main

EPILOG = """\b
Examples:
  python -m studies.second_round plan
  python -m studies.second_round run heads --output runs/second --workers 2 --model FOLDER_OF_A_SMALL_BERT \\
      --train-file SENTENCES --sts SentEval/data/downstream
  python -m studies.second_round report heads --output runs/second

The same `run` goes on where it was stopped; in a second terminal it adds a worker.
"""


@click.group(cls=CommandGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Train and judge what declaration.toml says, and nothing else."""


@command.command()
def plan() -> None:
    """List the declared parts: status, runs, steps."""
    from studies.second_round.rounds import declaration, sweep_of

    declared = declaration()
    for part, about in declared["parts"].items():
        points = sweep_of(part, {"backbone": "bert-base"}).points({})
        runs = [(point, seed) for point in points for seed in point.seeds]
        steps = sum(int(point.settings["max_steps"]) for point, _ in runs)
        click.echo(f"{part:9} {about['status']:13} {len(runs):4} runs, {steps:6} steps  {about['question']}")


@command.command()
@click.argument("part")
@click.option("--model", required=True, metavar="PATH_OR_NAME", help="Encoder: a folder or a hub name.")
@click.option("--train-file", required=True, type=click.Path(path_type=Path), help="Sentences, one a line.")
@click.option("--sts", required=True, type=click.Path(path_type=Path), help="SentEval's data/downstream.")
@click.option("--output", required=True, type=OutputFolder(), help="Folder of the second round.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Runs side by side.")
def run(part: str, model: str, train_file: Path, sts: Path, output: Path, workers: int) -> None:
    """Train what is left of PART."""
    from studies.second_round.rounds import run_part

    changes = {"model": model, "train_file": str(train_file), "sts": str(sts)}
    done = run_part(part, output, changes, workers)
    click.echo(f"{done} runs of {part} are finished")


@command.command()
@click.argument("parts", nargs=-1, required=True, metavar="PART...")
@click.option("--output", required=True, type=click.Path(path_type=Path), help="Folder of the second round.")
@click.option(
    "--table", type=click.Path(path_type=Path), help="Folder to write rows and contrasts to, as CSV."
)
def report(parts: tuple[str, ...], output: Path, table: Path | None) -> None:
    """Judge the contrasts of PARTS as one family; all confirmatory parts are meant to be given together in the end."""
    from gradlab.files import write_csv
    from studies.second_round.rounds import judged, rows_of

    rows = {part: rows_of(part, output) for part in parts}
    for part, one in rows.items():
        click.echo(f"{part}: {len(one)} runs are finished")
    contrasts = judged(rows)
    for one in contrasts.itertuples():
        if one.seeds < 2:
            click.echo(f"{one.name}: fewer than two seeds have all of its conditions")
            continue
        interval = f"{one.estimate:+.2f} ({one.low:+.2f} to {one.high:+.2f}), {one.seeds} seeds"
        click.echo(f"{one.name}: {interval}: {one.verdict}")
    if table is not None:
        for name, one in {**rows, "contrasts": contrasts}.items():
            click.echo(
                f"Wrote {write_csv(table / f'{name}.csv', {column: one[column].tolist() for column in one})}"
            )


if __name__ == "__main__":
    main(command)
