"""The ``gradlab`` command: a thin layer over the Python API, loaded one sub-command at a time."""

from __future__ import annotations

import importlib
import os
import sys
from typing import NoReturn

import click

from gradlab._version import __version__
from gradlab.errors import GradlabError, nearest

# What comes with the extra [train], by the names under which it is imported.
TRAIN_PACKAGES = (
    "accelerate",
    "platformdirs",
    "pyarrow",
    "safetensors",
    "sklearn",
    "tokenizers",
    "transformers",
)

# name -> (module under gradlab.cli, one line for `gradlab --help`). Nothing here is imported until it is called.
COMMANDS = {
    "losses": ("losses", "List the losses: formula, hyper-parameters, defaults, paper."),
    "simulate": ("simulate", "Simulate a component of a loss over angle distributions."),
    "figures": ("figures", "Draw the figures of the unified-gradient paper that need no training."),
    "verify": ("verify", "Compare every closed form with autograd."),
    "decompose": ("decompose", "Find the components of any loss from its gradients."),
    "train": ("train", "Fine-tune an encoder with any loss, measuring its gradient on the way."),
    "analyse": ("analyse", "Analyse queues, momentum branches, length bias and spectra."),
    "sweep": ("sweep", "Train over grids and seeds of any settings, with several workers."),
    "report": ("report", "Show a training run as one page: verdicts, curves, histograms."),
    "evaluate": ("evaluate", "Evaluate an encoder on STS and transfer tasks."),
    "study": ("study", "Check the three conjectures of the paper on encoders trained for it."),
}

EPILOG = """\b
Examples:
  gradlab losses
  gradlab simulate --loss arccon
  gradlab simulate --loss infonce --set temperature=0.1
  gradlab verify --loss met

Each command explains itself: gradlab simulate --help
"""


class LazyGroup(click.Group):
    """A click group that imports a sub-command only when that sub-command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"gradlab.cli.{COMMANDS[name][0]}")
        return module.command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"unknown command {args[0]!r}.{nearest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gradlab")
def cli() -> None:
    """Why a sentence-embedding loss works: its gradient as dissipation, weight and ratio."""


def main() -> NoReturn:
    """Run the command line; exit 2 on bad input (one line, no traceback), 130 when interrupted."""
    try:
        code = cli(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        click.echo("Interrupted.", err=True)
        sys.exit(130)
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except GradlabError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in TRAIN_PACKAGES:
            raise
        click.echo(
            f"Error: this needs {package}, which is not installed; it comes with gradlab's extra [train]: "
            "pip install '.[train]' in the folder of gradlab",
            err=True,
        )
        sys.exit(2)
    except BrokenPipeError:
        # The reader (`| head`) went away; keep Python from complaining again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
