"""Repeating, deleting and inserting sub-words or words at drawn places (ESimCSE; Wu et al. 2022)."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import GradlabError
from gradlab.settings import setting
from gradlab.train.augment.base import SentenceAugmentation, TextAugmentation
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


def draw_places(length: int, rate: float, generator: np.random.Generator) -> NDArray[np.int64]:
    """Distinct places among ``length``, ascending; their number is drawn first (Eqs. 4 and 5).

    The number is uniform on the integers from 0 to ``max(2, int(rate * N))``, at most N (a draw
    beyond N becomes N); the places are uniform.
    """
    count = min(length, int(generator.integers(0, max(2, int(rate * length)), endpoint=True)))
    return np.sort(generator.choice(length, size=count, replace=False))


@dataclass(frozen=True)
class SubwordEdit(SentenceAugmentation):
    """Changes drawn sub-words."""

    rate: float = setting(0.32, "largest share of tokens that are edited (dup_rate)", rule="non-negative")

    level = "ids"
    paper = "Wu et al. (2022), ESimCSE"

    def edit(self, tokens: Ids, generator: np.random.Generator) -> Ids:
        """Draw the places, and edit there."""
        return self.edit_at(tokens, draw_places(len(tokens), self.rate, generator), generator)

    @abc.abstractmethod
    def edit_at(self, tokens: Ids, places: NDArray[np.int64], generator: np.random.Generator) -> Ids:
        """The tokens, edited at ascending places."""


@register("subword_repetition")
@dataclass(frozen=True)
class SubwordRepetition(SubwordEdit):
    """Some sub-words of a sentence stand twice: another length, the same meaning (section 3.1)."""

    title = "Sub-word repetition"

    def edit_at(self, tokens: Ids, places: NDArray[np.int64], generator: np.random.Generator) -> Ids:
        """Each of the drawn tokens twice in place."""
        return np.insert(tokens, places, tokens[places])


@register("random_deletion")
@dataclass(frozen=True)
class RandomDeletion(SubwordEdit):
    """Some sub-words go, as many as repetition would add: a control that changes meaning."""

    title = "Random deletion"

    def edit_at(self, tokens: Ids, places: NDArray[np.int64], generator: np.random.Generator) -> Ids:
        """Without the drawn tokens; where all of them are drawn, one of them, drawn uniformly, stays."""
        if 0 < len(tokens) == len(places):
            places = np.delete(places, generator.integers(len(places)))
        return np.delete(tokens, places)


@register("mask_insertion")
@dataclass(frozen=True)
class MaskInsertion(SubwordEdit):
    """A mask token after some of the sub-words."""

    title = "Inserting [MASK]"

    def bind(self, tokenizer: Any, longest: int | None = None) -> Self:
        """See the base class; raises GradlabError if the tokenizer has no mask token."""
        bound = super().bind(tokenizer, longest)
        if bound.vocabulary.mask is None:
            raise GradlabError("the tokenizer has no mask token for mask_insertion; use another augmentation")
        return bound

    def edit_at(self, tokens: Ids, places: NDArray[np.int64], generator: np.random.Generator) -> Ids:
        """A mask after each of the drawn tokens."""
        if self.vocabulary.mask is None:
            raise GradlabError("mask_insertion needs the id of the mask: give get_augmentation the tokenizer")
        return np.insert(tokens, places + 1, self.vocabulary.mask)


@register("random_insertion")
@dataclass(frozen=True)
class RandomInsertion(SubwordEdit):
    """A sub-word drawn uniformly from the vocabulary after some of the sub-words: a control that changes meaning."""

    title = "Random insertion"

    def edit_at(self, tokens: Ids, places: NDArray[np.int64], generator: np.random.Generator) -> Ids:
        """A random token after each of the drawn ones; never a special one."""
        if self.vocabulary.ordinary is None:
            raise GradlabError(
                "random_insertion draws from the vocabulary: give get_augmentation the tokenizer"
            )
        return np.insert(tokens, places + 1, generator.choice(self.vocabulary.ordinary, len(places)))


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


@register("stopword_insertion")
@dataclass(frozen=True)
class StopwordInsertion(TextAugmentation):
    """A stop-word after some of the words, before the sentence is tokenised (section 5.3)."""

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
