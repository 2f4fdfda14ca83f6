"""A view by any function: paraphrases, back-translation, synonyms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradlab.errors import GradlabError
from gradlab.settings import setting
from gradlab.settings.objects import import_object
from gradlab.train.augment.base import TextAugmentation
from gradlab.train.augment.registry import register


@register("function")
@dataclass(frozen=True)
class Function(TextAugmentation):
    """A function of yours: ``function(sentence, generator) -> sentence``.

    It is called in every epoch for every sentence. What takes long (translation, a paraphrasing model) is better done
    once, into a file of two columns; see :func:`gradlab.train.tokens.tokenize_pairs`.
    """

    function: str | Callable[[str, np.random.Generator], str] = setting(
        "", "the function, or package.module:name, or file.py:name", rule="text"
    )

    title = "A function of yours"
    paper = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        found: Any = self.function
        if isinstance(found, str):
            if ":" not in found:
                raise GradlabError(
                    f"the augmentation 'function' takes function=package.module:name, not {found!r}"
                )
            found = import_object(found)
        if not callable(found):
            raise GradlabError(f"{self.function} is {type(found).__name__}, which cannot be called")
        object.__setattr__(self, "_called", found)

    def text(self, sentence: str, generator: np.random.Generator) -> str:
        """What the function makes of the sentence; raises GradlabError if that is no string."""
        view = self._called(sentence, generator)  # type: ignore[attr-defined]  # set above, on a frozen dataclass
        if not isinstance(view, str):
            raise GradlabError(f"the function returned {type(view).__name__} for a sentence, not a string")
        return view
