"""Lists what stays under semantic versioning: names, signatures, commands, losses and files.

    python -m tests.public    # writes tests/public.txt

The page docs/reference/public.md explains the list; tests/test_public.py compares it with gradlab.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import gradlab
from gradlab.settings import declarations

LIST = Path(__file__).with_name("public.txt")
PACKAGES = ("evaluate", "flow", "losses", "report", "train")


def lines() -> list[str]:
    """Return the list, a line each, under headings."""
    sections = {
        "Python": python(),
        "Commands": commands(),
        "Losses": losses(),
        "Settings of a training": settings(),
        "Files": files(),
    }
    text = [line for title, body in sections.items() for line in (f"# {title}", *body, "")]
    return text[:-1]


def python() -> Iterator[str]:
    """Yield what `gradlab` and its public packages export, with signatures and members."""
    for name in sorted(gradlab.__all__, key=str.lower):
        if name != "__version__" and name not in PACKAGES:
            yield from described(f"gradlab.{name}", getattr(gradlab, name))
    for package in PACKAGES:
        for name, member in sorted(exported(f"gradlab.{package}").items()):
            if member is not getattr(gradlab, name, None):
                yield from described(f"gradlab.{package}.{name}", member)


def exported(module_name: str) -> dict[str, Any]:
    """Return what a package exports: its ``__all__``, or the functions that it defines."""
    module = importlib.import_module(module_name)
    names = getattr(module, "__all__", None)
    if names is not None:
        return {name: getattr(module, name) for name in names}
    functions = inspect.getmembers(module, inspect.isfunction)
    return {
        name: function
        for name, function in functions
        if function.__module__ == module_name and not name.startswith("_")
    }


def described(name: str, member: Any) -> Iterator[str]:
    """Yield a line for an object, and one for each public member of a class."""
    if not inspect.isclass(member):
        yield f"{name}{signature(member)}" if callable(member) else f"{name}: {kind_of(member)}"
        return
    inherited = [f"gradlab.{base.__name__}" for base in member.__mro__[1:] if is_exported(base)]
    made_by = "" if issubclass(member, BaseException) else signature(member)
    yield f"class {name}{made_by}{''.join(f', a {base}' for base in inherited[:1])}"
    is_data = dataclasses.is_dataclass(member)
    fields = {field.name for field in dataclasses.fields(member)} if is_data else set()
    # Of a result, `details` holds what may change with any version.
    listed = getattr(member, "shown", ())
    named = {*listed, "details"} if listed else (own_names(member) | fields) - {"details", "shown"}
    for attribute in sorted(named):
        if attribute in fields:
            yield f"    .{attribute}"
            continue
        value = inspect.getattr_static(member, attribute)
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        callable_member = inspect.isfunction(function)
        yield f"    .{attribute}{signature(function) if callable_member else ''}"


def own_names(cls: type) -> set[str]:
    """Return the public attributes that gradlab defines, except those of another exported class."""
    of_gradlab = [
        base
        for base in cls.__mro__
        if base.__module__.startswith("gradlab.") and (base is cls or not is_exported(base))
    ]
    return {name for base in of_gradlab for name in vars(base) if not name.startswith("_")}


def is_exported(cls: type) -> bool:
    return cls.__name__ in gradlab.__all__ and getattr(gradlab, cls.__name__) is cls


def signature(function: Any) -> str:
    """Return the parameters with their defaults, without annotations."""
    if dataclasses.is_dataclass(function) and isinstance(function, type):
        # Versions of Python differ in whether an inherited __init__ or __new__ counts.
        function = functools.partial(function.__init__, None)
    try:
        annotated = inspect.signature(function)
    except (TypeError, ValueError):
        return "(...)"
    plain = [
        parameter.replace(annotation=parameter.empty, default=default_of(parameter))
        for parameter in annotated.parameters.values()
    ]
    return str(annotated.replace(parameters=plain, return_annotation=annotated.empty))


class Text:
    """A default whose repr is the text itself."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def default_of(parameter: inspect.Parameter) -> Any:
    default = parameter.default
    plain = (bool, int, float, str, tuple, type(None))
    if default is parameter.empty or isinstance(default, plain):
        return default
    return Text("...")


def kind_of(member: Any) -> str:
    return type(member).__name__


def commands() -> Iterator[str]:
    """Yield each command with its arguments and options."""
    from gradlab.cli.commands import COMMANDS, cli

    context = click.Context(cli)
    for name in sorted(COMMANDS):
        command = cli.get_command(context, name)
        assert command is not None
        arguments = [
            f"{(parameter.name or '').upper()}{'...' if parameter.nargs == -1 else ''}"
            for parameter in command.params
            if isinstance(parameter, click.Argument)
        ]
        yield " ".join(["gradlab", name, *arguments])
        # Without --help, whose short form depends on what ran before.
        for option in sorted(command.params, key=lambda option: option.opts[0]):
            if isinstance(option, click.Option):
                yield f"    {', '.join([*option.opts, *option.secondary_opts])}{values(option)}"


def values(option: click.Option) -> str:
    """Return the choices of an option, such as `` {own,shared}``; empty for a flag."""
    if isinstance(option.type, click.Choice):
        return f" {{{','.join(map(str, option.type.choices))}}}"
    return "" if option.is_flag or option.count else " VALUE"


def losses() -> Iterator[str]:
    """Yield the registered losses and combinators with their settings, defaults and presets."""
    from gradlab.losses.registry import loss_classes

    for cls in sorted(loss_classes().values(), key=lambda cls: cls.name):
        fields = ", ".join(
            declared.name
            if declared.default is dataclasses.MISSING
            else f"{declared.name}={declared.default!r}"
            for declared in declarations(cls).values()
        )
        presets = f"; presets {', '.join(cls.presets)}" if cls.presets else ""
        yield f"{cls.name}({fields}){presets}"


def settings() -> Iterator[str]:
    """Yield the settings of `gradlab.train.TrainConfig`, as a JSON file of settings has them."""
    from gradlab.train import TrainConfig

    for declared in declarations(TrainConfig).values():
        required = declared.default is dataclasses.MISSING
        yield declared.name if required else f"{declared.name} = {declared.default!r}"


def files() -> Iterator[str]:
    """Yield the files that gradlab writes and reads, with the versions of their formats."""
    from gradlab.monitor.metrics import COLUMNS, METRICS
    from gradlab.sweep import spec
    from gradlab.train import run_folder
    from gradlab.verdict import GRADES, Verdict

    yield f"manifest.json of a run: format {run_folder.FORMAT}"
    yield f"{METRICS} of a run: {', '.join(COLUMNS)}"
    yield f"sweep, TOML or JSON: format {spec.FORMAT}"
    yield "simulation, npz: manifest, mu_pos, mu_neg, value, standard_error, pass_probability"
    yield "embeddings, npz: anchors, positives, extra_negatives"
    verdict = Verdict("subject", next(iter(GRADES)), "finding")
    yield f"--json: grade, one of {', '.join(GRADES)}; a verdict has {', '.join(verdict.to_dict())}"


def main() -> None:
    LIST.write_text("\n".join(lines()) + "\n", encoding="utf-8")
    print(f"Wrote {LIST.relative_to(Path.cwd())}: {len(lines())} lines")


if __name__ == "__main__":
    main()
