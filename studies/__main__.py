"""``python -m studies``: what there is, and the report that recomputes it from committed rows."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click

from gradlab.cli import CommandGroup, main, option
from studies.conjectures.report import rewrite_report
from studies.evidence.declarations import STUDY
from studies.evidence.report import write_first_round, write_second_round, write_splits

SWEEPS = Path(__file__).with_name("sweeps")
COMMANDS = {
    "python -m studies.conjectures": "three conjectures, tested on an encoder of yours; 15 minutes",
    "python -m studies.analyses": "queues, momentum, length and spectra of trained runs; minutes",
    "python -m studies report": "tables, pictures and pages from the committed rows; two minutes",
    "gradlab sweep studies/sweeps/NAME.toml": "trainings of the papers' tables and recipes; hours",
}
HELP = {"help_option_names": ["-h", "--help"]}
EPILOG = """\b
Examples:
  python -m studies
  python -m studies report
  python -m studies report second-round
"""


@click.group(cls=CommandGroup, epilog=EPILOG, context_settings=HELP, invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """List the studies, or recompute their results from the committed rows."""
    if context.invoked_subcommand is None:
        for line in listing():
            click.echo(line)


def listing() -> Iterator[str]:
    """Yield the commands with what they do, and every sweep with what it trains."""
    width = max(map(len, COMMANDS))
    for name, purpose in COMMANDS.items():
        yield f"{name:{width}}  {purpose}"
    yield "\nSweeps:"
    files = sorted(SWEEPS.rglob("*.toml"))
    names = [file.relative_to(SWEEPS).as_posix().removesuffix(".toml") for file in files]
    for name, file in zip(names, files, strict=True):
        yield f"  {name:{max(map(len, names))}}  {first_sentence(file)}"


def first_sentence(sweep: Path) -> str:
    """Return what a sweep's file says it is about, in its first sentence."""
    about = str(tomllib.loads(sweep.read_text(encoding="utf-8"))["about"])
    return re.split(r"(?<! al)\. ", " ".join(about.split()))[0].rstrip(".")


# Name of a report -> the function that writes it, with its files and sentences, and its folder.
REPORTS = {
    "conjectures": (rewrite_report, ""),
    "first-round": (write_first_round, "evidence"),
    "second-round": (write_second_round, "second_round"),
}


@command.command()
@click.argument("names", nargs=-1, type=click.Choice(list(REPORTS)), metavar="[NAME]...")
@option("--splits", "Also repeat the folds of the response surface: minutes more.", False)
@option("--folder", "Folder of the committed rows.  [default: the checkout's figures/study]",
        kind=Path)  # fmt: skip
def report(names: tuple[str, ...], splits: bool, folder: Path | None) -> None:
    """Recompute conjectures, first-round and second-round, or only those named, in figures/study.

    Nothing is trained.
    """
    for name in names or REPORTS:
        click.echo(f"== {name}")
        write, place = REPORTS[name]
        for line in write((folder or STUDY) / place):
            click.echo(f"Wrote {line}" if isinstance(line, Path) else line)
    if splits:
        click.echo(f"Wrote {write_splits((folder or STUDY) / 'second_round')}")


if __name__ == "__main__":
    main(command)
