"""Augmentations by name."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from gradlab.errors import GradlabError, nearest
from gradlab.losses.specs import parse_spec
from gradlab.parameters import parse_parameters

if TYPE_CHECKING:
    from gradlab.train.augment.base import Augmentation

_registry: dict[str, type[Augmentation]] = {}
A = TypeVar("A", bound="type[Augmentation]")


def register(name: str) -> Callable[[A], A]:
    """Class decorator: make an augmentation reachable as ``get_augmentation(name)`` and in ``gradlab train``.

    Raises:
        GradlabError: if another class already has the name.
    """

    def add(cls: A) -> A:
        known = _registry.get(name)
        if known is not None and known.__qualname__ != cls.__qualname__:
            raise GradlabError(f"an augmentation named {name!r} is already registered ({known.__qualname__})")
        cls.name = name
        _registry[name] = cls
        return cls

    return add


@functools.cache
def _discover() -> None:
    import gradlab.train.augment

    for module in pkgutil.iter_modules(gradlab.train.augment.__path__):
        importlib.import_module(f"gradlab.train.augment.{module.name}")


def augmentation_names() -> list[str]:
    """Names of all registered augmentations."""
    _discover()
    return sorted(_registry)


def get_augmentation(
    name: str | Augmentation, *, tokenizer: Any = None, longest: int | None = None, **settings: Any
) -> Augmentation:
    """An augmentation by name, with the published settings unless told otherwise.

    Args:
        name: one of :func:`augmentation_names`, or a text such as ``"subword_repetition(rate=0.2)"``; an
            augmentation is bound to the tokenizer and returned.
        tokenizer: a Hugging Face tokenizer; needed where words or special tokens play a part.
        longest: tokens that the encoder can take, special tokens included; views are cut to it.
        **settings: fields of the augmentation.

    Raises:
        GradlabError: unknown name or setting, a value out of range, or a tokenizer that lacks what is needed.

    Example:
        >>> get_augmentation("subword_repetition(rate=0.2)")
        SubwordRepetition(rate=0.2)
    """
    made = _make(name, settings) if isinstance(name, str) else name
    return made if tokenizer is None else made.bind(tokenizer, longest)


def _make(text: str, settings: dict[str, Any]) -> Augmentation:
    name, texts = parse_spec(text)
    names = augmentation_names()
    if name not in names:
        raise GradlabError(
            f"unknown augmentation {name!r}; there are: {', '.join(names)}.{nearest(name, names)}"
        )
    cls = _registry[name]
    fields = [field.name for field in dataclasses.fields(cls)]
    for key in settings:
        if key not in fields:
            raise GradlabError(
                f"{name} has no setting {key!r}; it has: {', '.join(fields) or 'none'}.{nearest(key, fields)}"
            )
    return cls(**parse_parameters(cls, texts) | settings)
