"""Import objects ``package.module:Name`` or ``path/to/file.py:Name``; make packages callable."""

from __future__ import annotations

import contextlib
import contextvars
import importlib
import importlib.util
import inspect
import operator
import re
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from gradlab.errors import GradlabError, first_line, nearest


def import_object(target: str) -> Any:
    """Return ``package.module:Name`` or ``path/to/file.py:Name``; ``Name`` may have dots.

    Modules of the current folder are found too.

    Raises:
        GradlabError: the file or name does not exist, or importing it raises an error.
    """
    module_name, _, attribute = target.rpartition(":")
    if not module_name or not attribute:
        raise GradlabError(f"{target!r} names no object; write module:Name or file.py:Name")
    if _reads_data.get():
        raise GradlabError(
            f"{target!r} names code, which reading a file never runs; name it in the command itself"
        )
    module = import_module(module_name)
    try:
        return operator.attrgetter(attribute)(module)
    except AttributeError:
        own = [
            name
            for name, member in vars(module).items()
            if getattr(member, "__module__", "") == module.__name__
        ]
        member_list = f" It has: {', '.join(own)}." if own else ""
        raise GradlabError(
            f"{module_name} has no {attribute!r}.{nearest(attribute, dir(module))}{member_list}"
        ) from None


def import_module(name: str) -> ModuleType:
    """Import a module by name, or by the path of a ``.py`` file, which is imported once.

    Raises:
        GradlabError: no such module, or importing it raises an error; the message names the line.
    """
    try:
        if name.endswith(".py"):
            return _load_file(Path(name))
        # Unlike `python -m`, a console script does not search the current folder.
        if "" not in sys.path:
            sys.path.insert(0, "")
        return importlib.import_module(name)
    except GradlabError:
        raise
    except (Exception, SystemExit) as error:  # a script that calls sys.exit ends no command
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if Path(frame.filename) == Path(name)]
        line = f", line {lines[-1]}" if lines else ""
        raise GradlabError(
            f"cannot import {name!r}{line}: {type(error).__name__}: {first_line(error)}"
        ) from error


@contextlib.contextmanager
def importing_nothing() -> Iterator[None]:
    """Refuse to import objects within the block, which builds losses from texts in data files.

    Registered names are looked up as usual; `import_object` raises a `GradlabError`.
    """
    token = _reads_data.set(True)
    try:
        yield
    finally:
        _reads_data.reset(token)


_reads_data = contextvars.ContextVar("reads_data", default=False)


def named_modules(text: str) -> list[str]:
    """Return the modules and files in a text such as ``symmetric(file.py:Name(margin=0.1))``."""
    return [name.strip() for name in _MODULE.findall(text)]


def named_files(text: str) -> list[Path]:
    """Return the files of objects in a text such as ``symmetric(file.py:Name(margin=0.1))``."""
    return [file for name in named_modules(text) for file in source_files(name)]


def source_files(name: str) -> list[Path]:
    """Return the file of a module for :func:`import_module`, or none if it has none."""
    place = name if name.endswith(".py") else None
    if place is None:
        with contextlib.suppress(ImportError, ValueError):  # not a module, or the script that runs
            place = getattr(importlib.util.find_spec(name), "origin", None)
    return [Path(place)] if place is not None and Path(place).is_file() else []


def call_package(package: str, function: str) -> None:
    """Make a package callable: ``gradlab.train(...)`` calls ``gradlab.train.train(...)``.

    ``gradlab.train`` has to be both a package and a function, whichever is used first.
    """

    class CallablePackage(ModuleType):
        __signature__ = property(lambda self: inspect.signature(getattr(self, function)))

        def __call__(self, *args: Any, **options: Any) -> Any:
            """Call the function."""
            return getattr(self, function)(*args, **options)

    sys.modules[package].__class__ = CallablePackage


def _load_file(path: Path) -> ModuleType:
    place = str(path.resolve())
    with _loading:  # threads that load a file at once get one module
        return _load_place(place, path)


def _load_place(place: str, path: Path) -> ModuleType:
    if place not in _files:
        if not path.is_file():
            raise GradlabError(f"there is no file {str(path)!r}")
        module = ModuleType(path.stem)
        module.__file__ = str(path)
        # Compiled here: an import may reuse bytecode after a quick edit of equal second and size.
        exec(compile(path.read_bytes(), path, "exec", dont_inherit=True), vars(module))
        _files[place] = module
    return _files[place]


_files: dict[str, ModuleType] = {}
_loading = threading.RLock()  # a file may load others
# The module in ``module:Name``; ``model:Name`` is a published model.
_MODULE = re.compile(r"""(?!\s*model:)([^(),=:'"]+):[A-Za-z_]""")
