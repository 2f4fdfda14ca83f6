"""Options that several commands share."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gradlab.encoder.pooling import POOLERS
from gradlab.errors import GradlabError, listed
from gradlab.files import check_writable, read_object

if TYPE_CHECKING:
    from gradlab.settings.declaration import Declaration


def option(
    names: str, text: str, default: Any = None, kind: Any = None, **arguments: Any
) -> Callable[[Any], Any]:
    """Return a decorator that adds an option to a command.

    Args:
        names: ``"--name"``, or ``"--name argument"`` if the function's argument has another name.
        text: the text for ``--help``.
        default: the default, which the help shows; False makes a flag.
        kind: a click type, a type such as `Path`, or choices; None derives it from the default.
        **arguments: further arguments of `click.option`.
    """
    if not (default is None and (arguments.get("required") or arguments.get("multiple"))):
        arguments["default"] = default
    if default is False:
        arguments["is_flag"] = True
    if kind is Path:
        kind = FilePath(path_type=Path)
    elif isinstance(kind, list):
        kind = click.Choice(kind)
    return click.option(*names.split(), type=kind, help=text, show_default=True, **arguments)


class FilePath(click.Path):
    """Option type for a path; an empty text, which would mean the current folder, is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and not value.strip():
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


class OutputFolder(click.ParamType):
    """Option type for an output folder: checks at once that it is writable, without creating it."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        check_writable(value, folder=True)
        return Path(value)


def loss_option(**settings: Any) -> Callable[[Any], Any]:
    """Return the option ``--loss NAME``."""
    text = (
        "A loss of `gradlab losses`, or one of your own: module:Name or file.py:Name, also with "
        "settings."
    )
    return option("--loss loss_name", text, metavar="NAME", **settings)


def set_option(text: str) -> Callable[[Any], Any]:
    """Return the repeatable option ``--set NAME=VALUE``."""
    return option("--set assignments", text, metavar="NAME=VALUE", multiple=True)


def output_option(folder: str) -> Callable[[Any], Any]:
    """Return the options ``--output FOLDER`` and ``--overwrite``."""
    output = option("--output", "Folder to write to.", folder, OutputFolder())
    overwrite = option("--overwrite", "Replace files made with other settings.", False)
    return lambda command: output(overwrite(command))


hyperparameters_option = set_option(
    "A hyper-parameter, e.g. temperature=0.1, or preset=NAME; repeatable. Angles are in radians."
)


device_option = option("--device", "auto (CUDA if there is one), cpu, cuda or cuda:N.", "auto")


pooler_option = option(
    "--pooler", f"One of {', '.join(POOLERS)}.  [default: the one saved with the model, else cls]"
)


data_option = option(
    "--eval-data",
    "SentEval's data/downstream folder, a retrieval task in BEIR's layout, or a file of scored "
    "pairs.",
    kind=Path,
    required=True,
    metavar="PATH",
)


def _register_losses(
    context: click.Context, parameter: click.Parameter, files: tuple[str, ...]
) -> None:
    from gradlab.losses.registry import OWN_LOSSES
    from gradlab.settings.objects import import_module

    context.meta["loss_files"] = files  # for `given_options`
    for file in files:
        import_module(file)
        place = str(Path(file).resolve()) if file.endswith(".py") else file
        # Child processes register the same losses.
        os.environ[OWN_LOSSES] = os.pathsep.join(filter(None, [os.environ.get(OWN_LOSSES), place]))


losses_option = option(
    "--loss-file loss_files",
    "Python file or module that registers losses of your own; repeatable. GRADLAB_LOSSES does the "
    "same.",
    multiple=True,
    metavar="FILE",
    expose_value=False,
    is_eager=True,
    callback=_register_losses,
)


class CommandOfSettings(click.Command):
    """A command with options for the settings of a `gradlab.settings` class, under headings.

    Each class in the hierarchy with a class attribute ``heading`` makes a group. Dictionaries are
    set by ``--set``. The options have no defaults, so that the command knows which ones were given.
    """

    def __init__(self, *args: Any, settings: type, **arguments: Any) -> None:
        from gradlab.settings import declarations

        super().__init__(*args, **arguments)
        self._headings: dict[str, str] = {}
        for group in reversed(settings.__mro__):
            for declared in declarations(group).values() if "heading" in vars(group) else ():
                name = "assignments" if declared.kind is dict else declared.name
                self._headings[name] = vars(group)["heading"]
        settings_options = [
            _option(declared)
            for declared in declarations(settings).values()
            if declared.kind is not dict
        ]
        self.params = [*settings_options, *self.params]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each heading; options that are not settings come last."""
        sections: dict[str, list[tuple[str, str]]] = {
            heading: [] for heading in self._headings.values()
        }
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                heading = self._headings.get(parameter.name or "", "Other options")
                sections.setdefault(heading, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def build_loss(name: str, assignments: Sequence[str]) -> Any:
    """Return the loss that ``--loss`` and ``--set`` describe."""
    from gradlab.losses.registry import get_loss, read_loss
    from gradlab.settings import read_assignments

    return read_loss(name, read_assignments(assignments)) if assignments else get_loss(name)


def require_options(lacking: Sequence[str]) -> None:
    """Raise GradlabError if options are missing, such as ``["--model"]``."""
    if lacking:
        verb = "is" if len(lacking) == 1 else "are"
        command = click.get_current_context().command_path
        raise GradlabError(
            f"{listed(lacking)} {verb} missing; see the examples of {command} --help"
        )


def given_options() -> dict[str, list[str]]:
    """Return the words of each option on the command line, by the name of its argument."""
    context = click.get_current_context()
    words: dict[str, list[str]] = {}
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            value = {**context.meta, **context.params}[name]
            values = value if isinstance(value, tuple) else (value,)
            if not values:  # arguments that may be left out; click < 8.2 counts them as given
                continue
            words[name] = [
                word for argument in values for word in (parameter.opts[0], str(argument))
            ]
    return words


def file_name(words: Iterable[str], options: Mapping[str, Any]) -> str:
    """Return a file name of words, and of the options that differ from the command's defaults.

    Of ``package.module:Name`` and of a path it has the last part.
    """

    def short(value: Any) -> str:
        text = f"{value:.12g}" if isinstance(value, float) else str(value)
        return re.sub(r"[^\w.=+-]+", "-", re.sub(r"^.*[:/]", "", text)).strip("-.")

    parameters = click.get_current_context().command.params
    defaults = {parameter.name: parameter.default for parameter in parameters}
    changed = {name: setting for name, setting in options.items() if setting != defaults.get(name)}
    settings = (f"{name}-{short(setting)}" for name, setting in changed.items())
    return "_".join([*map(short, words), *settings])


def check_existing(
    base: Path, suffixes: Iterable[str], manifest: dict[str, Any], overwrite: bool
) -> bool:
    """Return whether files with this name exist; refuse to replace files made with other settings.

    ``base.json`` of an earlier run may differ from ``manifest`` in versions, format and results.

    Raises:
        GradlabError: existing files were not made with these settings, and ``overwrite`` is false.
    """
    existing = [path for suffix in suffixes if (path := Path(f"{base}{suffix}")).exists()]
    if not existing or overwrite:
        return bool(existing)
    before = None
    with contextlib.suppress(GradlabError):
        before = read_object(f"{base}.json")
    free = {"versions": 0, "results": 0, "format": 0}
    if before is None or before | free != json.loads(json.dumps(manifest | free)):
        raise GradlabError(
            f"{existing[0]} exists and was not made with these settings; pass --overwrite or "
            "another --output"
        )
    return True


def _option(declared: Declaration) -> click.Option:
    """Return the option of a setting, which shows the setting's default but has none itself."""
    kind, name = declared.kind, declared.name.replace("_", "-")
    if kind is bool:  # the second form undoes what a recipe or a file sets
        text = declared.text + ("  [default: yes]" if declared.default else "")
        return click.Option([f"--{name}/--no-{name}"], default=None, help=text)
    if kind is tuple:  # one entry per option, --tracker or --trackers
        spellings = [declared.name, f"--{name.removesuffix('s')}", f"--{name}"]
        return click.Option(spellings, multiple=True, help=declared.text)
    has_default = declared.default not in (None, dataclasses.MISSING)
    text = declared.text + (f"  [default: {declared.default}]" if has_default else "")
    metavar = {int: "N", float: "X"}.get(kind, "TEXT")
    if declared.choices:
        metavar = f"[{'|'.join(declared.choices)}]"
    return click.Option([f"--{name}"], type=kind, metavar=metavar, help=text)
