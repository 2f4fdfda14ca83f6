"""The registry of augmentations by name."""

from __future__ import annotations

from typing import Any

from gradlab.settings import parse_settings
from gradlab.settings.registry import Registry
from gradlab.train.augment.base import Augmentation

_registry: Registry[Augmentation] = Registry("an augmentation", "gradlab.train.augment")
# A class decorator that makes an augmentation available to `get_augmentation` and `gradlab train`.
register = _registry.register
augmentation_names = _registry.names


def get_augmentation(
    name: str | Augmentation, *, tokenizer: Any = None, longest: int | None = None, **settings: Any
) -> Augmentation:
    """Return an augmentation by name, with its published settings by default.

    Args:
        name: one of :func:`augmentation_names`, or a text such as
            ``"subword_repetition(rate=0.2)"``; an augmentation is returned, bound to the tokenizer.
        tokenizer: a Hugging Face tokenizer, which augmentations with words or special tokens need.
        longest: longest encoder input in tokens, special ones included; longer views are cut.
        **settings: fields of the augmentation.

    Raises:
        GradlabError: a name is unknown, a value out of range, or the tokenizer is insufficient.

    Example:
        >>> get_augmentation("subword_repetition(rate=0.2)")
        SubwordRepetition(rate=0.2)
    """
    augmentation = name
    if isinstance(augmentation, str):
        cls, texts = _registry.read(augmentation)
        augmentation = cls(**parse_settings(cls, texts) | settings)
    return augmentation if tokenizer is None else augmentation.bind(tokenizer, longest)
