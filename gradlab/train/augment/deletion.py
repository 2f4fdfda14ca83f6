"""Deleting sub-words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradlab.settings import setting
from gradlab.train.augment.base import SentenceAugmentation
from gradlab.train.augment.draws import draw_places
from gradlab.train.augment.registry import register
from gradlab.train.augment.vocabulary import Ids


@register("random_deletion")
@dataclass(frozen=True)
class RandomDeletion(SentenceAugmentation):
    """Some sub-words go, as many as repetition would add: a control that changes meaning."""

    rate: float = setting(0.32, "largest share of tokens deleted", rule="non-negative")

    level = "ids"
    title = "Random deletion"
    paper = "Wu et al. (2022), ESimCSE"

    def edit(self, tokens: Ids, generator: np.random.Generator) -> Ids:
        """Without the drawn tokens; where all of them are drawn, one of them, drawn uniformly, stays."""
        places = draw_places(len(tokens), self.rate, generator)
        if 0 < len(tokens) == len(places):
            places = np.delete(places, generator.integers(len(places)))
        return np.delete(tokens, places)
