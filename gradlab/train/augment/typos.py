"""Typing errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradlab.settings import setting
from gradlab.train.augment.base import TextAugmentation
from gradlab.train.augment.registry import register

LETTERS = "abcdefghijklmnopqrstuvwxyz"
KINDS = ("swap", "delete", "repeat", "replace")


@register("typos")
@dataclass(frozen=True)
class Typos(TextAugmentation):
    """One typing error in some of the words.

    MoCoSE takes the errors from the dictionary of a toolkit. These are of any word: two neighbouring letters
    swapped, a letter left out, typed twice, or another one in its place, each as likely.
    """

    rate: float = setting(0.3, "probability that a word gets a typing error", at_least=0, at_most=1)

    title = "Typos"
    paper = "Cao et al. (2022), MoCoSE; errors ours"

    def text(self, sentence: str, generator: np.random.Generator) -> str:
        """Words of a single character stay as they are."""
        words = sentence.split()
        wrong = generator.random(len(words)) < self.rate
        return " ".join(
            mistype(word, generator) if chosen and len(word) > 1 else word
            for word, chosen in zip(words, wrong, strict=True)
        )


def mistype(word: str, generator: np.random.Generator) -> str:
    """A word of two characters or more with one typing error."""
    kind = KINDS[generator.integers(len(KINDS))]
    place = int(generator.integers(len(word) - (kind == "swap")))
    before, letter, after = word[:place], word[place], word[place + 1 :]
    if kind == "swap":
        return before + after[0] + letter + after[1:]
    if kind == "delete":
        return before + after
    if kind == "repeat":
        return before + 2 * letter + after
    others = [one for one in LETTERS if one != letter.lower()]
    return before + others[generator.integers(len(others))] + after
