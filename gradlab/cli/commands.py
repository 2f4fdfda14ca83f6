"""The ``gradlab`` command: its sub-commands, and how a command line is run.

A sub-command is a thin layer over the Python API, imported when it is used. The exit code is 0 or
what the sub-command returns, 2 after an error of one line, 130 if interrupted, and after a broken
pipe 1, or 141 where click lets that error through.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from gradlab._version import __version__
from gradlab.errors import ALIASES, GradlabError, check_known, listed, missing, nearest, reason

# Heading -> command -> its line in `gradlab --help`. A command's module has the command's name.
GROUPS = {
    "Understand a loss": {
        "losses": "List the losses: formula, hyper-parameters, defaults, paper.",
        "atlas": "Compare all losses, or two of them, by what their gradients do.",
        "simulate": "Simulate what a loss does over distributions of angles.",
        "flow": "Show where losses lead: let embeddings flow until they rest.",
        "explore": "Write a page on which you move points and compare losses.",
        "decompose": "Find the components of any loss from its gradients.",
        "verify": "Compare every closed form with autograd.",
        "audit": "Check the gradient of a loss on several processes against one.",
    },
    "Train and watch": {
        "doctor": "Check a machine, a model or a training set-up for known faults.",
        "explain": "Explain a symptom of training: likely causes, how to check, what to do.",
        "train": "Fine-tune an encoder with any loss, and record what the loss does.",
        "sweep": "Train over grids and seeds of any settings, with several workers.",
        "example": "Make a small example to try watch, report and inspect on.",
        "report": "Show training runs as one page: verdicts, curves, histograms.",
        "evaluate": "Evaluate an encoder on STS and transfer tasks.",
    },
    "Look at data and runs": {
        "inspect": "Show which pairs of sentences carry the gradient, and likely false negatives.",
        "mine": "Mine hard negatives, and show what they do to the gradient.",
    },
    "Reproduce the papers": {
        "figures": "Draw the theory figures of the unified-gradient paper.",
    },
}
# Commands that take a loss, and therefore accept files that register losses.
OF_LOSSES = {*GROUPS["Understand a loss"], "train", "sweep", "inspect", "mine"}
COMMANDS = [name for group in GROUPS.values() for name in group]


class CommandGroup(click.Group):
    """A click group that answers an unknown command with the known commands and the nearest one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            check_known("command", args[0], self.list_commands(ctx))
        return super().resolve_command(ctx, args)


class LazyGroup(CommandGroup):
    """A command group that imports a sub-command only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return COMMANDS

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(
            f"gradlab.cli.{name.replace('-', '_')}"
        ).command
        command.name = name  # the function in its module is called `command`
        command.epilog = command.epilog or _help(name)
        if name in OF_LOSSES and not any(p.name == "loss_files" for p in command.params):
            from gradlab.cli.options import losses_option

            losses_option(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])


def _help(name: str) -> str:
    """Return the end of a command's help: examples, and the files that it reads and writes."""
    text = Path(__file__).with_name("examples").joinpath(f"{name}.txt").read_text(encoding="utf-8")
    return text.replace("\\b\n", "\b\n")  # keeps click from wrapping the paragraph


@click.group(
    cls=LazyGroup, epilog=_help("gradlab"), context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="gradlab")
def cli() -> None:
    """See what a loss does to embeddings.

    The commands show which sentences still learn, which negatives push them away, and how hard.
    """


def main(command: click.Command | None = None) -> NoReturn:
    """Run a command line and exit, with 2 on bad input (a line, no traceback), 130 if interrupted.

    Args:
        command: the command to run; None runs ``gradlab``.
    """
    # A shell's background process ignores interruptions for good; only the main thread gets any.
    main_thread = threading.current_thread() is threading.main_thread()
    handled = main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handled:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        sys.exit(run(command))
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)
    finally:
        if handled:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def run(command: click.Command | None = None) -> int:
    """Run ``gradlab`` or another command; return its exit code, or 2 after a line on bad input."""
    teller = threading.Timer(1, _tell_of_imports)
    teller.daemon = True
    teller.start()
    try:
        code = (command or cli)(standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.Abort as error:  # which click makes of an interruption and of an EOFError
        raise error.__cause__ or KeyboardInterrupt from None
    except Exception as error:
        return _show(error)
    finally:
        teller.cancel()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, or end the process if an import is in progress.

    Packages do not expect an exception during their import: numpy stays half imported and prints a
    hundred lines, and the C++ code of torch aborts the process.
    """
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            sys.stdout.flush()
            print("Interrupted.", file=sys.stderr, flush=True)
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt


def _tell_of_imports() -> None:
    """On a terminal, name the large library being imported, if any; a cold disk makes it slow."""
    for name in ("torch", "transformers", "sklearn", "pandas", "matplotlib"):
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if getattr(spec, "_initializing", False) and sys.stderr.isatty():
            print(f"Loading {name} ...", file=sys.stderr, flush=True)
            return


def _show(error: Exception) -> int:
    """Print an expected error in one line and return the exit code; re-raise any other error."""
    if isinstance(error, BrokenPipeError):
        # The reader (`| head`) has gone; this keeps Python from complaining again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    if isinstance(error, click.ClickException):
        if type(error).__name__ == "NoArgsIsHelpError":  # how click (since 8.2) shows help
            error.show()
            return 2
        text = _usage(error)
    elif isinstance(error, GradlabError):
        text = str(error)
    elif isinstance(error, ModuleNotFoundError) and (package_error := missing(error)) is not None:
        text = str(package_error)
    elif isinstance(error, OSError) and error.filename is not None:
        text = f"cannot use {str(error.filename)[:100]!r}: {reason(error)}"
    else:
        raise error
    click.echo(f"Error: {text}", err=True)
    return 2


def _usage(error: click.ClickException) -> str:
    """Return an error of click, which prints four lines, as one line."""
    text = " ".join(error.format_message().split())
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return text
    parameters = context.command.params
    if isinstance(error, click.NoSuchOption):
        text = _unknown_option(error.option_name, parameters)
    if isinstance(error, click.MissingParameter):
        # Click names only the first missing parameter; the context already holds the given ones.
        lacking = [p for p in parameters if p.required and p.name not in context.params]
        names = listed([p.get_error_hint(context) for p in lacking])
        text = f"{names} {'is' if len(lacking) == 1 else 'are'} missing"
    options = {name for p in parameters for name in p.opts}
    if "unexpected extra argument" in text and "--loss" in options:
        text = f"{text.rstrip('.')}; a loss is given by --loss"
    stop = "" if text.endswith((".", "?")) else "."
    return f"{text}{stop} Try '{context.command_path} --help'."


def _unknown_option(option: str, parameters: list[click.Parameter]) -> str:
    """Return the message for an option that a command lacks, with what was probably meant."""
    options = [name for p in parameters for name in p.opts if name.startswith("--")]
    hint = nearest(option, [*options, "--help"])
    setting = option.strip("-").replace("-", "_")
    setting = ALIASES.get(setting, setting)
    if "--loss" in options and f"--{setting.replace('_', '-')}" not in options:
        from gradlab.losses.registry import loss_classes
        from gradlab.settings import declarations

        if any(setting in declarations(loss) for loss in loss_classes().values()):
            hint = f" A setting of the loss is given with it: --loss 'NAME({setting}=…)'."
    return f"no such option {option!r}.{hint}"
