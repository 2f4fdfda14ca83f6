"""Augmentations that repeat, delete or insert sub-words at random (ESimCSE; Wu et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import GradlabError
from gradlab.settings import setting
from gradlab.train.augment.base import Ids, SentenceAugmentation
from gradlab.train.augment.changed_positions import draw_positions
from gradlab.train.augment.registry import register


@dataclass(frozen=True)
class SubwordEdit(SentenceAugmentation):
    """Base class of augmentations that edit randomly drawn sub-words."""

    rate: float = setting(
        0.32, "largest share of tokens that are edited (dup_rate)", rule="non-negative"
    )

    def places(self, tokens: Ids, generator: np.random.Generator) -> NDArray[np.int64]:
        """Return the drawn places, ascending."""
        return draw_positions(len(tokens), self.rate, generator)


@register("subword_repetition")
@dataclass(frozen=True)
class SubwordRepetition(SubwordEdit):
    """Repeats some sub-words, which changes the length and keeps the meaning (section 3.1)."""

    def edit(self, tokens: Ids, generator: np.random.Generator) -> Ids:
        places = self.places(tokens, generator)
        return np.insert(tokens, places, tokens[places])


@register("random_deletion")
@dataclass(frozen=True)
class RandomDeletion(SubwordEdit):
    """Deletes as many sub-words as repetition would add: a control that changes the meaning."""

    def edit(self, tokens: Ids, generator: np.random.Generator) -> Ids:
        """Return the tokens except those drawn; if all are drawn, a uniformly chosen one stays."""
        places = self.places(tokens, generator)
        if 0 < len(tokens) == len(places):
            places = np.delete(places, generator.integers(len(places)))
        return np.delete(tokens, places)


@register("mask_insertion")
@dataclass(frozen=True)
class MaskInsertion(SubwordEdit):
    """Inserts a mask token after some of the sub-words."""

    needs_tokenizer = True

    def bind(self, tokenizer: Any, longest: int | None = None) -> Self:
        """As in the base class; GradlabError if the tokenizer has no mask token."""
        if tokenizer.mask_token_id is None:
            raise GradlabError("mask_insertion needs a tokenizer with a mask token")
        return super().bind(tokenizer, longest)

    def edit(self, tokens: Ids, generator: np.random.Generator) -> Ids:
        places = self.places(tokens, generator)
        return np.insert(tokens, places + 1, self.vocabulary.tokenizer.mask_token_id)


@register("random_insertion")
@dataclass(frozen=True)
class RandomInsertion(SubwordEdit):
    """Inserts a random ordinary token after some sub-words: a control that changes the meaning."""

    needs_tokenizer = True

    def edit(self, tokens: Ids, generator: np.random.Generator) -> Ids:
        places = self.places(tokens, generator)
        inserted_tokens = generator.choice(self.vocabulary.ordinary, len(places))
        return np.insert(tokens, places + 1, inserted_tokens)
