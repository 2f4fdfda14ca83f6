"""Augmentations of text: word repetition, stop-word insertion, typing errors, or any function.

The repetition that ESimCSE publishes is of sub-words: ``subword_repetition`` in ``subwords.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradlab.errors import GradlabError
from gradlab.settings import setting
from gradlab.settings.objects import import_object
from gradlab.train.augment.base import TextAugmentation
from gradlab.train.augment.changed_positions import draw_positions
from gradlab.train.augment.registry import register

# Words with little meaning; the paper does not give its list.
STOP_WORDS = (
    "a about above after again all am an and any are as at be been before being below between "
    "both but by can did do does doing down during each few for from further had has have having "
    "he her here hers him his how i if in into is it its just me more most my no nor not now of "
    "off on once only or other our out over own same she so some such than that the their them "
    "then there these they this those through to too under until up very was we were what when "
    "where which while who whom why will with you your"
)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
KINDS = ("swap", "delete", "repeat", "replace")


@register("word_repetition")
@dataclass(frozen=True)
class WordRepetition(TextAugmentation):
    """Repeats some words before tokenisation (ESimCSE, Wu et al. 2022, section 5.3)."""

    rate: float = setting(0.32, "largest share of words repeated (dup_rate)", rule="non-negative")

    def text(self, sentence: str, generator: np.random.Generator) -> str:
        words = sentence.split()
        repeated = set(draw_positions(len(words), self.rate, generator).tolist())
        return " ".join(
            f"{word} {word}" if place in repeated else word for place, word in enumerate(words)
        )


@register("stopword_insertion")
@dataclass(frozen=True)
class StopwordInsertion(TextAugmentation):
    """Inserts a stop-word after some words before tokenisation.

    From ESimCSE (Wu et al. 2022), section 5.3.
    """

    rate: float = setting(
        0.32, "largest share of words followed by a stop-word", rule="non-negative"
    )
    words: str = setting(STOP_WORDS, "stop-words, separated by spaces", rule="text")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.words.split():
            raise GradlabError("words must be stop-words separated by spaces, and there is none")

    def text(self, sentence: str, generator: np.random.Generator) -> str:
        words, stop_words = sentence.split(), self.words.split()
        places = draw_positions(len(words), self.rate, generator)
        choices = generator.integers(len(stop_words), size=len(places))
        inserted_words = [stop_words[choice] for choice in choices]
        return " ".join(np.insert(np.array(words, dtype=object), places + 1, inserted_words))


@register("typos")
@dataclass(frozen=True)
class Typos(TextAugmentation):
    """Makes one typing error in some of the words.

    MoCoSE (Cao et al. 2022) takes errors from the dictionary of a toolkit. Here, an error swaps two
    neighbouring letters, or leaves out, doubles or replaces one letter, with equal probability.
    """

    rate: float = setting(0.3, "probability that a word gets a typing error", at_least=0, at_most=1)

    def text(self, sentence: str, generator: np.random.Generator) -> str:
        """Return the sentence with typing errors; words of a single character stay unchanged."""
        words = sentence.split()
        wrong = generator.random(len(words)) < self.rate
        return " ".join(
            mistype(word, generator) if is_wrong and len(word) > 1 else word
            for word, is_wrong in zip(words, wrong, strict=True)
        )


def mistype(word: str, generator: np.random.Generator) -> str:
    """Return a word of at least two characters with one typing error."""
    kind = KINDS[generator.integers(len(KINDS))]
    place = int(generator.integers(len(word) - (kind == "swap")))
    before, letter, after = word[:place], word[place], word[place + 1 :]
    if kind == "swap":
        return before + after[0] + letter + after[1:]
    if kind == "delete":
        return before + after
    if kind == "repeat":
        return before + 2 * letter + after
    wrong = [candidate for candidate in LETTERS if candidate != letter.lower()]
    return before + wrong[generator.integers(len(wrong))] + after


@register("function")
@dataclass(frozen=True)
class Function(TextAugmentation):
    """Applies a function of yours: ``function(sentence, generator) -> sentence``.

    The function is called in every epoch for every sentence. Make slow changes (translation,
    paraphrasing) once, in a file of two columns; see `gradlab.data.TrainingFile`.
    """

    function: str | Callable[[str, np.random.Generator], str] = setting(
        "", "the function, or package.module:name, or file.py:name", rule="text"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        function: Any = self.function
        if isinstance(function, str):
            function = import_object(function)
        if not callable(function):
            kind = type(function).__name__
            raise GradlabError(f"{self.function} is {kind}, which cannot be called")
        object.__setattr__(self, "_called", function)

    def text(self, sentence: str, generator: np.random.Generator) -> str:
        view = self._called(sentence, generator)  # type: ignore[attr-defined]  # set above, on a frozen dataclass
        if not isinstance(view, str):
            raise GradlabError(f"the function returned {type(view).__name__}, not a string")
        return view
