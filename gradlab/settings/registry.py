"""Registries of classes by name, such as losses; the module of a class is imported on first use."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from gradlab.errors import GradlabError, check_known
from gradlab.settings.call_parsing import parse_call, split_texts

T = TypeVar("T")
C = TypeVar("C", bound="type[Any]")


class Registry(Generic[T]):
    """Names and classes, registered by the modules of a package, which are imported on first use.

    Attributes:
        classes: classes by name, of the modules imported so far.
    """

    def __init__(self, a_kind: str, package: str) -> None:
        """Set the classes' noun with its article, and the package."""
        self._a_kind, self._package = a_kind, package
        self.classes: dict[str, type[T]] = {}

    def register(self, name: str) -> Callable[[C], C]:
        """Return a class decorator that sets the class's ``name`` and registers the class.

        Raises:
            GradlabError: another class already has the name.
        """

        def add(cls: C) -> C:
            registered = self.classes.get(name)
            if registered is not None and registered.__qualname__ != cls.__qualname__:
                raise GradlabError(
                    f"{self._a_kind} named {name!r} is already registered "
                    f"({registered.__qualname__})"
                )
            cls.name = name
            self.classes[name] = cls
            return cls

        return add

    def names(self) -> list[str]:
        """Return all names, by the classes' ``table_order`` if they have one, then by alphabet."""
        self._discover()
        order = {name: getattr(cls, "table_order", 0) for name, cls in self.classes.items()}
        return sorted(order, key=lambda name: (order[name], name))

    def read(self, text: str) -> tuple[type[T], dict[str, str]]:
        """Return the class of ``"name"`` or ``"name(setting=value, ...)"``, and settings as texts.

        Raises:
            GradlabError: malformed text or an unknown name; the message suggests the nearest name.
        """
        name, texts = parse_call(text)
        if not self._knows(name):
            check_known(self._a_kind.partition(" ")[2], name, self.names(), also=self.also())
        cls = self.classes[name]
        if "" in texts:
            first = getattr(cls, "first_setting", "")
            several = len(split_texts(texts[""])) > 1 and not getattr(cls, "takes_several", False)
            if not first or first in texts or several:
                raise GradlabError(
                    f"{text!r} is not of the form name(setting=value, ...): {texts['']!r} is not "
                    f"a setting of {name}"
                )
            texts = {first: texts.pop(""), **texts}
        return cls, texts

    def also(self) -> list[str]:
        """Return further names that an error may suggest."""
        return []

    def _knows(self, name: str) -> bool:
        """Whether the class exists; other modules are imported only if no module has its name."""
        if name not in self.classes and name in self._modules:
            importlib.import_module(f"{self._package}.{name}")
        if name not in self.classes:
            self._discover()
        return name in self.classes

    def _discover(self) -> None:
        for module in self._modules:
            importlib.import_module(f"{self._package}.{module}")

    @functools.cached_property
    def _modules(self) -> list[str]:
        package = importlib.import_module(self._package)
        return [module.name for module in pkgutil.iter_modules(package.__path__)]
