"""Augmentations by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from gradlab.settings import parse_settings
from gradlab.settings.registry import Registry

if TYPE_CHECKING:
    from gradlab.train.augment.base import Augmentation

_registry: Registry[Augmentation] = Registry("an augmentation", "gradlab.train.augment")
A = TypeVar("A", bound="type[Augmentation]")


def register(name: str) -> Callable[[A], A]:
    """Class decorator: make an augmentation reachable as ``get_augmentation(name)`` and in ``gradlab train``.

    Raises:
        GradlabError: if another class already has the name.
    """
    return _registry.register(name)


def augmentation_names() -> list[str]:
    """Names of all registered augmentations."""
    return _registry.names()


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
    made = name
    if isinstance(made, str):
        cls, texts = _registry.read(made)
        made = cls(**parse_settings(cls, texts) | settings)
    return made if tokenizer is None else made.bind(tokenizer, longest)
