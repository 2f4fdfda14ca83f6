"""Repeating sub-words or words in place: another length, the same meaning (ESimCSE, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradlab.settings import setting
from gradlab.train.augment.base import SentenceAugmentation, TextAugmentation
from gradlab.train.augment.draws import draw_places
from gradlab.train.augment.registry import register
from gradlab.train.augment.vocabulary import Ids


@register("subword_repetition")
@dataclass(frozen=True)
class SubwordRepetition(SentenceAugmentation):
    """Some sub-words of a sentence stand twice (Eqs. 4 and 5)."""

    rate: float = setting(0.32, "largest share of tokens repeated (dup_rate)", rule="non-negative")

    level = "ids"
    title = "Sub-word repetition"
    paper = "Wu et al. (2022), ESimCSE"

    def edit(self, tokens: Ids, generator: np.random.Generator) -> Ids:
        """Each of the drawn tokens twice in place."""
        return np.insert(tokens, places := draw_places(len(tokens), self.rate, generator), tokens[places])


@register("word_repetition")
@dataclass(frozen=True)
class WordRepetition(TextAugmentation):
    """Some words of a sentence stand twice, before it is tokenised (section 5.3)."""

    rate: float = setting(0.32, "largest share of words repeated (dup_rate)", rule="non-negative")

    title = "Word repetition"
    paper = "Wu et al. (2022), ESimCSE"

    def text(self, sentence: str, generator: np.random.Generator) -> str:
        """Each of the drawn words twice in place."""
        words = sentence.split()
        repeated = set(draw_places(len(words), self.rate, generator).tolist())
        return " ".join(f"{word} {word}" if place in repeated else word for place, word in enumerate(words))
