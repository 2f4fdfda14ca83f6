"""Inserting something after drawn places of a sentence (ESimCSE, section 5.3; random sub-words as a control)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gradlab.errors import GradlabError
from gradlab.settings import setting
from gradlab.train.augment.base import SentenceAugmentation, TextAugmentation
from gradlab.train.augment.draws import draw_places
from gradlab.train.augment.registry import register
from gradlab.train.augment.vocabulary import Ids

# Words that say little: the paper does not name its list.
STOP_WORDS = (
    "a about above after again all am an and any are as at be been before being below between both but by can did "
    "do does doing down during each few for from further had has have having he her here hers him his how i if in "
    "into is it its just me more most my no nor not now of off on once only or other our out over own same she so "
    "some such than that the their them then there these they this those through to too under until up very was "
    "we were what when where which while who whom why will with you your"
)


@register("mask_insertion")
@dataclass(frozen=True)
class MaskInsertion(SentenceAugmentation):
    """A mask token after some of the sub-words."""

    rate: float = setting(0.32, "largest share of tokens followed by a mask", rule="non-negative")

    level = "ids"
    title = "Inserting [MASK]"
    paper = "Wu et al. (2022), ESimCSE"

    def bind(self, tokenizer: Any, longest: int | None = None) -> Self:
        """See the base class; raises GradlabError if the tokenizer has no mask token."""
        bound = super().bind(tokenizer, longest)
        if bound.vocabulary.mask is None:
            raise GradlabError("the tokenizer has no mask token for mask_insertion; use another augmentation")
        return bound

    def edit(self, tokens: Ids, generator: np.random.Generator) -> Ids:
        """A mask after each of the drawn tokens."""
        if self.vocabulary.mask is None:
            raise GradlabError("mask_insertion needs the id of the mask: give get_augmentation the tokenizer")
        return np.insert(tokens, draw_places(len(tokens), self.rate, generator) + 1, self.vocabulary.mask)


@register("random_insertion")
@dataclass(frozen=True)
class RandomInsertion(SentenceAugmentation):
    """A sub-word drawn uniformly from the vocabulary after some of the sub-words: a control that changes meaning."""

    rate: float = setting(0.32, "largest share of tokens followed by a random one", rule="non-negative")

    level = "ids"
    title = "Random insertion"
    paper = "Wu et al. (2022), ESimCSE"

    def edit(self, tokens: Ids, generator: np.random.Generator) -> Ids:
        """A random token after each of the drawn ones; never a special one."""
        if self.vocabulary.ordinary is None:
            raise GradlabError(
                "random_insertion draws from the vocabulary: give get_augmentation the tokenizer"
            )
        places = draw_places(len(tokens), self.rate, generator)
        return np.insert(tokens, places + 1, generator.choice(self.vocabulary.ordinary, len(places)))


@register("stopword_insertion")
@dataclass(frozen=True)
class StopwordInsertion(TextAugmentation):
    """A stop-word after some of the words, before the sentence is tokenised."""

    rate: float = setting(0.32, "largest share of words followed by a stop-word", rule="non-negative")
    words: str = setting(STOP_WORDS, "stop-words, separated by spaces", rule="text")

    title = "Inserting stop-words"
    paper = "Wu et al. (2022), ESimCSE"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.words, str) or not self.words.split():
            raise GradlabError(f"words must be stop-words separated by spaces, not {self.words!r}")

    def text(self, sentence: str, generator: np.random.Generator) -> str:
        """A stop-word, drawn uniformly, after each of the drawn words."""
        words, known = sentence.split(), self.words.split()
        places = draw_places(len(words), self.rate, generator)
        drawn = [known[choice] for choice in generator.integers(len(known), size=len(places))]
        return " ".join(np.insert(np.array(words, dtype=object), places + 1, drawn))
