"""Classes by name, found in the modules of a package: what losses and augmentations share."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from gradlab.errors import GradlabError, nearest
from gradlab.settings.text import parse_call

T = TypeVar("T")
C = TypeVar("C", bound="type[Any]")


class Registry(Generic[T]):
    """Names and their classes; the modules of a package register theirs when they are first asked for.

    Attributes:
        classes: name -> class, of the modules imported by now.
    """

    def __init__(self, a_kind: str, package: str, order: Callable[[type[T]], int] | None = None) -> None:
        """``a_kind`` is what the classes are, with its article; ``order`` comes before the name in `names`."""
        self._a_kind, self._package, self._order = a_kind, package, order
        self._discovered = False
        self.classes: dict[str, type[T]] = {}

    def register(self, name: str) -> Callable[[C], C]:
        """Class decorator: gives the class its ``name`` and makes it known by it.

        Raises:
            GradlabError: if another class already has the name.
        """

        def add(cls: C) -> C:
            known = self.classes.get(name)
            if known is not None and known.__qualname__ != cls.__qualname__:
                raise GradlabError(
                    f"{self._a_kind} named {name!r} is already registered ({known.__qualname__})"
                )
            cls.name = name
            self.classes[name] = cls
            return cls

        return add

    def names(self) -> list[str]:
        """All names, in order."""
        self._discover()
        order = self._order or (lambda cls: 0)
        return sorted(self.classes, key=lambda name: (order(self.classes[name]), name))

    def read(self, text: str) -> tuple[type[T], dict[str, str]]:
        """The class that ``"name"`` or ``"name(setting=value, ...)"`` names, and its settings as texts.

        Raises:
            GradlabError: a text of another form, or an unknown name; the message suggests the nearest one.
        """
        name, texts = parse_call(text)
        self._discover()
        if name not in self.classes:
            kind, names = self._a_kind.partition(" ")[2], self.names()
            raise GradlabError(
                f"unknown {kind} {name!r}; there are: {', '.join(names)}.{nearest(name, names)}"
            )
        found = self.classes[name]
        if "" in texts:
            first = getattr(found, "first_setting", "")
            if not first or first in texts:
                raise GradlabError(
                    f"{text!r} is not of the form name(setting=value, ...): {texts['']!r} is no setting of {name}"
                )
            texts = {first: texts.pop(""), **texts}
        return found, texts

    def _discover(self) -> None:
        if not self._discovered:
            for module in pkgutil.iter_modules(importlib.import_module(self._package).__path__):
                importlib.import_module(f"{self._package}.{module.name}")
            self._discovered = True
