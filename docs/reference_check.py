"""Which public names the reference lacks: asked by the site's build, which then fails."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import gradlab

ROOMS = Path(__file__).parent / "reference" / "rooms.md"


def undocumented(known: set[str]) -> Iterator[str]:
    """Problems, one a line.

    Args:
        known: full names of all that the reference documents.
    """
    for name in gradlab.__all__:
        if name != "__version__":
            yield from _problems(getattr(gradlab, name), f"gradlab.{name}", known)
    for module in rooms():
        for name, value in public_names(module).items():
            yield from _problems(value, f"{module}.{name}", known)


def public_names(module: str) -> dict[str, object]:
    """What a module exports: ``__all__``, or what it defines; loaded where that is on first use."""
    room = importlib.import_module(module)
    names = getattr(room, "__all__", None)
    found = {name: getattr(room, name) for name in names or dir(room) if not name.startswith("_")}
    return {
        name: value
        for name, value in found.items()
        if names or getattr(value, "__module__", "") == module
    }


def rooms() -> list[str]:
    """The modules that the page of rooms lists."""
    words = (line.strip() for line in ROOMS.read_text(encoding="utf-8").splitlines())
    return [word for word in words if word.startswith("gradlab.") and " " not in word]


def _problems(value: object, name: str, known: set[str]) -> Iterator[str]:
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return
    if name not in known:
        yield f"{name} is public and not in the reference"
    if not inspect.getdoc(value):
        yield f"{name} is public and has no docstring"
    if not inspect.isclass(value):
        return
    for own, member in vars(value).items():
        if own.startswith("_") or not (inspect.isroutine(member) or isinstance(member, property)):
            continue
        if not inspect.getdoc(getattr(value, own)):
            yield f"{name}.{own} is public and has no docstring"
