"""Objects by name: ``package.module:Name``, or ``path/to/file.py:Name``; packages that are called as functions."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from gradlab.errors import GradlabError, first_line, nearest


def import_object(target: str) -> Any:
    """What ``package.module:Name``, or ``path/to/file.py:Name``, names; ``Name`` may have dots.

    A module of the current folder is found too.

    Raises:
        GradlabError: there is no such file or name, or importing it raises an error of any kind.
    """
    module_name, _, attribute = target.rpartition(":")
    if not module_name or not attribute:
        raise GradlabError(f"{target!r} names no object; write module:Name or file.py:Name")
    module = import_module(module_name)
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            own = [
                name
                for name, one in vars(module).items()
                if getattr(one, "__module__", "") == module.__name__
            ]
            listed = f"; it has: {', '.join(own)}" if own and found is module else ""
            raise GradlabError(f"{module_name} has no {attribute!r}{listed}.{nearest(part, dir(found))}")
        found = getattr(found, part)
    return found


def import_module(name: str) -> ModuleType:
    """A module by its name, or by the path of a file that ends in ``.py``; a file is imported once.

    Raises:
        GradlabError: there is none, or importing it raises an error of any kind; the message has its line.
    """
    try:
        if name.endswith(".py"):
            return _load_file(Path(name))
        # A console script, unlike `python -m`, does not look in the current folder.
        if "" not in sys.path:
            sys.path.insert(0, "")
        return importlib.import_module(name)
    except GradlabError:
        raise
    except Exception as error:
        frames = [
            one for one in traceback.extract_tb(error.__traceback__) if one.filename.endswith(Path(name).name)
        ]
        line = f", line {frames[-1].lineno}" if frames and name.endswith(".py") else ""
        raise GradlabError(
            f"cannot import {name!r}{line}: {type(error).__name__}: {first_line(error)}"
        ) from error


def call_package(package: str, function: str) -> None:
    """Let a package be called, as its own function of that name: ``gradlab.train(...)`` is ``gradlab.train.train(...)``.

    A package and a function cannot both be ``gradlab.train``; this is both, whichever is asked for first.
    """

    class CallablePackage(ModuleType):
        __signature__ = property(lambda self: inspect.signature(getattr(self, function)))

        def __call__(self, *args: Any, **given: Any) -> Any:
            """Call the function."""
            return getattr(self, function)(*args, **given)

    sys.modules[package].__class__ = CallablePackage


def _load_file(path: Path) -> ModuleType:
    place = str(path.resolve())
    if place not in _files:
        if not path.is_file():
            raise GradlabError(f"there is no file {str(path)!r}")
        module = ModuleType(path.stem)
        module.__file__ = str(path)
        # Not by an import, whose bytecode is valid for a second and a size, which a quick edit may keep.
        exec(compile(path.read_bytes(), path, "exec", dont_inherit=True), vars(module))
        _files[place] = module
    return _files[place]


_files: dict[str, ModuleType] = {}
